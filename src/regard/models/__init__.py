"""Encoders, decoders and readouts that share one set of contracts."""
