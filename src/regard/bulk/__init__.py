"""Inference on large inputs in parts: shards, and chunks on the workers of a Ray cluster."""
