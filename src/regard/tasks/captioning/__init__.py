"""Captioning: from an image to a text, generated token by token."""
