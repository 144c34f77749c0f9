"""Gradients of outputs as maps: how strongly each output depends on each source position.

    w_tj  ~  | d log p(y_t | y_<t, x) / d e_j |        e_j: embedding at source position j

Rows are divided by their sums, as in the figures of ByteNet (Kalchbrenner et al. 2016, figure 6).
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
from regard.shapes import Float, Tensor
from regard.trace import AttentionMap


def target_gradients(model: Seq2Seq, source: Any, target: Sequence[int]) -> AttentionMap:
    """Return the map of one encoded source, a batch of size 1, and its target. A row is a target
    token."""
    with torch.inference_mode(False), torch.enable_grad(), without_cudnn():
        batch = with_targets(source, [list(target)]).to(next(model.parameters()).device)
        encoded = model.encoder(batch.source)
        memories = model.memories(batch.source, encoded)
        features = model.decoder(batch.inputs, memories).features[0]
        log_probabilities = model.decoder.project(features).log_softmax(dim=-1)
        outputs = log_probabilities.gather(1, batch.outputs[0][:, None])[:, 0]
        return _map(outputs, encoded)


def prediction_gradients(model: HeadModel, source: Any, *, is_label: bool) -> AttentionMap:
    """Return the map of one encoded source, a batch of size 1: of the most probable label, or of
    the sum of the predicted numbers. The map has one row."""
    with torch.inference_mode(False), torch.enable_grad(), without_cudnn():
        encoded = model.encoder(source.to(next(model.parameters()).device))
        predictions = model.head(model.build_memory(encoded)).predictions[0]
        output = predictions.log_softmax(dim=-1).max() if is_label else predictions.sum()
        return _map(output[None], encoded)


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
