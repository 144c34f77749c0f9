"""Scores of what a model wrote, each with its signature."""
