"""Accelerated attention: additive scores, dot products, and their softmax."""
