"""Data that others made, fetched when it is asked for."""
