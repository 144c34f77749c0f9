"""Inference over files: parts of an input that several processes share."""
