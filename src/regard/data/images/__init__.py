"""Images and their captions."""
