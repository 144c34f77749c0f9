"""Files: bounded reading, atomic writing, weights of models, records of runs."""
