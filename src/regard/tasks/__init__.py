"""One folder for each task: what it reads, how it is trained, and what a trained model returns."""
