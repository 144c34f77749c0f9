"""Files on disk: run folders, the cache, and which pairs belong to which split."""
