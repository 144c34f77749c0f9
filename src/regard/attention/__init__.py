"""Attention: queries, keys and values in, context and weights out."""
