"""Pairs of texts: files, tokenizers, vocabularies, and encoding as token numbers."""
