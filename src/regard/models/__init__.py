"""Encoders, decoders and heads, and the contracts by which they fit together (`contracts`)."""
