"""Reading of data, and their encoding as batches of numbers."""
