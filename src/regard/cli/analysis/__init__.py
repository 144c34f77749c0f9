"""Commands that score runs, compare them and draw their attention."""
