"""Trained models in the files of other engines, which run them without Regard."""
