"""Losses of the logits of a linear layer, without all logits in memory at once."""

from regard.compiled.losses.linear_cross_entropy import cross_entropy
from regard.compiled.losses.linear_log_probabilities import log_probabilities
from regard.compiled.losses.linear_loss import loss_of_logits
from regard.training.losses.logits import LogitFunctions

BLOCKWISE = LogitFunctions(cross_entropy, loss_of_logits, log_probabilities)
"""The functions of logits, for some words at a time."""
