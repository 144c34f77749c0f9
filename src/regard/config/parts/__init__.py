"""Records of the parts of models: encoders, decoders, heads, attention."""
