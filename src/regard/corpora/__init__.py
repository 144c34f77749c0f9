"""Corpora: from files and generators to train, dev and test pairs."""
