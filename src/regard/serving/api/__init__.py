"""Contract of requests: their fields, bounds and errors."""
