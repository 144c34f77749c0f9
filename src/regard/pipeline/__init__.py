"""Verbs that serve every task: train, load, evaluate, average, export, and estimate the cost."""
