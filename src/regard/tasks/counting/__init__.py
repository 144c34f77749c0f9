"""Counting: from a sequence of letters to the number of occurrences of each letter."""
