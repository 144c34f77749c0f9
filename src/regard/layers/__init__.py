"""Layers that models are put together from."""
