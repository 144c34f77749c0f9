"""Steps of recurrent decoders in C++, for a search."""
