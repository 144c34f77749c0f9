"""Sources of the classification task (texts, items, series) with labels or numbers as targets."""
