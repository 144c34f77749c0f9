"""Pairs of texts: files, tokenizers, vocabularies, and pairs as token numbers."""
