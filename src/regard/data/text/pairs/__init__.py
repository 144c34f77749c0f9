"""Encoded pairs: in memory, in mapped files, and read again from text in every pass."""
