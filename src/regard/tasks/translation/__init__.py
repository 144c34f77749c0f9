"""Translation: from a source text to a target text, generated token by token."""
