"""Scores of a model's output (`text`, `captions`, `classification`, `error_rates`) and measures of
its attention (`attention`, `alignment`)."""
