"""The Transformer's encoder, and steps of its decoder, in C++."""
