"""Text files as lines and as tables."""
