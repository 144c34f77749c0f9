"""Texts, items and series with labels or numbers as targets."""
