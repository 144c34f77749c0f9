"""Recurrent decoders: all steps of a target at once, and steps of a search in C++."""
