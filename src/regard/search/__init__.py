"""From a decoder's probabilities to texts."""
