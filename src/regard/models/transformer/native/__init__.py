"""Steps of the Transformer's decoder in C++, for a search."""
