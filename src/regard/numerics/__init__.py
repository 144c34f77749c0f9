"""Matrix products, their libraries and their precision."""
