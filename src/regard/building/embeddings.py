"""The embeddings of both sides."""

from __future__ import annotations

from torch import nn

from regard.data.batch import PAD
from regard.errors import UserError


def build_embeddings(
    num_source: int, num_target: int, size: int, *, are_one: bool
) -> tuple[nn.Embedding, nn.Embedding]:
    """The source's and the target's, or one for both; UserError where it cannot be one."""
    source = nn.Embedding(num_source, size, padding_idx=PAD)
    if not are_one:
        return source, nn.Embedding(num_target, size, padding_idx=PAD)
    if num_source != num_target:
        raise UserError(
            f"model.tied all needs one vocabulary for both sides, but the source has "
            f"{num_source} and the target {num_target} words: set data.shared-vocabulary"
        )
    return source, source
