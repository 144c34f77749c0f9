"""A model over a file: one loop, and a task for each command."""
