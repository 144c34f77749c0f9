"""Dot-product scores with softmax, computed without storing the weights."""
