"""From texts to batches of numbers."""
