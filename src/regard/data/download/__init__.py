"""Data sets of other authors, downloaded on request."""
