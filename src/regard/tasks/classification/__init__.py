"""Classification and regression: from a text, items or a series to a label or to numbers."""
