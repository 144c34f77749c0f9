"""Export of trained models to files of other engines, which run them without Regard."""
