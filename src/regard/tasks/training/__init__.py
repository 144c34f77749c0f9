"""Parts of a training that all tasks share: set-up, objectives, checks, cost."""
