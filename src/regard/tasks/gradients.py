"""Gradients of outputs as maps: how strongly each output depends on each source position.

    w_tj  ~  | d log p(y_t | y_<t, x) / d e_j |        e_j: embedding at source position j

Rows are divided by their sums, as in the figures of ByteNet (Kalchbrenner et al. 2016, figure 6).
A gradient of log p is 1 - p times the gradient of the log odds, log(p / (1 - p)), so both give the
same row. The log odds are computed here, because 1 - p has no correct digit if p is nearly 1.

The map exists for every model, with attention or without. It also shows which positions a
convolution does not read: their gradient is exactly zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.data.batch import with_targets
from regard.models.contracts import Encoded
from regard.models.heads import HeadModel
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Int, Tensor
from regard.trace import AttentionMap


def target_gradients(model: Seq2Seq, source: Any, target: Sequence[int]) -> AttentionMap:
    """Return the map of one encoded source, a batch of size 1, and its target. A row is a target
    token."""
    with torch.inference_mode(False), torch.enable_grad(), without_cudnn():
        batch = with_targets(source, [list(target)]).to(next(model.parameters()).device)
        encoded = model.encoder(batch.source)
        memories = model.memories(batch.source, encoded)
        features = model.decoder(batch.inputs, memories).features[0]
        logits = model.decoder.project(features)
        return _map(log_odds(logits, batch.outputs[0]), encoded)


def prediction_gradients(model: HeadModel, source: Any, *, is_label: bool) -> AttentionMap:
    """Return the map of one encoded source, a batch of size 1: of the most probable label, or of
    the sum of the predicted numbers. The map has one row."""
    with torch.inference_mode(False), torch.enable_grad(), without_cudnn():
        encoded = model.encoder(source.to(next(model.parameters()).device))
        predictions = model.head(model.build_memory(encoded)).predictions[0]
        if is_label:
            return _map(log_odds(predictions[None], predictions.argmax()[None]), encoded)
        return _map(predictions.sum()[None], encoded)


def log_odds(
    logits: Float[Tensor, "output class"], classes: Int[Tensor, "output"]
) -> Float[Tensor, "output"]:
    """Return log(p / (1 - p)) for the probability p of a class of each row of logits."""
    numbers = classes[:, None]
    rest = logits.scatter(1, numbers, -torch.inf).logsumexp(dim=1)
    return logits.gather(1, numbers)[:, 0] - rest


def without_cudnn() -> Any:
    """Return a context in which recurrent layers have gradients in evaluation mode: those of cuDNN
    have none."""
    return torch.backends.cudnn.flags(enabled=False)


def _map(outputs: Float[Tensor, "output"], encoded: Encoded) -> AttentionMap:
    embeddings = encoded.layers[0]
    rows = []
    for output in outputs:
        (gradient,) = torch.autograd.grad(output, embeddings, retain_graph=True)
        rows.append(gradient[0].float().norm(dim=-1))
    norms = torch.stack(rows)
    totals = norms.sum(dim=1, keepdim=True)
    weights = torch.where(totals > 0, norms / totals, 0)
    return AttentionMap("gradient", weights[None, None].detach().cpu().numpy())
