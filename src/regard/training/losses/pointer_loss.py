"""Cross entropy of a pointer-generator (`models/pointer_generator.py`).

    loss = -(1 - e) log P(y) - e / |V| sum over v of log P_vocab(v)

P is computed at the targets y alone. Label smoothing e is that of the generator.
"""

from __future__ import annotations

import math

import torch

from regard.models.contracts import Copying
from regard.numerics.precision import at_least_float32
from regard.shapes import Float, Int, Tensor

IMPOSSIBLE = math.log(1e-12)
"""Log probability of a target that can be neither generated nor copied, because no weight is on its
positions (sparse or local attention). A loss of infinity would end the training."""


def pointer_loss(
    logits: Float[Tensor, "word vocabulary"],
    copying: Copying,
    targets: Int[Tensor, "word"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the sum over words, in nats, at least in float32. `logits` are those of the generator;
    targets above the vocabulary can only be copied."""
    logits = at_least_float32(logits)
    normaliser = logits.logsumexp(dim=-1)
    is_known = targets < logits.size(1)
    own = torch.where(is_known, targets, 0)[:, None]
    generated = logits.gather(1, own)[:, 0] - normaliser + copying.log_generate
    weights = (copying.weights * (copying.numbers == targets[:, None])).sum(dim=-1)
    is_copied = weights > 0
    copied = torch.where(is_copied, weights, 1).log() + copying.log_copy
    not_copied = torch.where(is_known, generated, IMPOSSIBLE)
    with_copies = torch.where(is_known, torch.logaddexp(generated, copied), copied)
    # See, Liu and Manning 2017, eq. 6 (from memory) if copy is pointer_generator: -log P(w*_t)
    log_p = torch.where(is_copied, with_copies, not_copied)
    if not label_smoothing:
        return -log_p.sum()
    uniform = logits.mean(dim=-1) - normaliser
    return -((1 - label_smoothing) * log_p + label_smoothing * uniform).sum()
