"""Training: loss, schedule, optimiser, loop and checkpoints.

`loop.py` has the whole loop. It does not know how a model decodes: its caller passes a function
that computes the dev score.
"""
