"""Recurrent encoders and decoders, with and without attention."""
