"""Losses of logits and of copied words."""
