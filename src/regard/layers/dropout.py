"""Dropout between layers (Srivastava et al. 2014).

Accelerated by `compiled/dropout.py`, equal in tests/compiled/test_dropout.py.
"""

from __future__ import annotations

from torch import nn


class Dropout(nn.Dropout):
    """PyTorch's dropout, as a class of this package, so that `accelerate` replaces it and leaves
    the dropout of other modules."""
