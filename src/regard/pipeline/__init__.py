"""Functions for every task: train, load, evaluate, average, export, and estimate the cost."""
