"""Models whose encoding or decoding step is one call in C++, for inference on a CPU."""
