"""Regard trains, runs and opens up attention models."""

__version__ = "0.1.0"
