"""Embeddings and extra vectors from a file, set in a translation model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard.config import DecoderConfig, RecurrentDecoderConfig
from regard.data.text.vectors import read_external, read_vectors
from regard.errors import UserError
from regard.models.memory import WithExtraVectors
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor
from regard.tasks.translation.encoding import Tokenizers


def set_vectors(model: Seq2Seq, tokenizers: Tokenizers, path: Path) -> None:
    """Set the embeddings of both sides to the vectors of a text file, and freeze them. A line has a
    token and its numbers."""
    vectors = read_vectors(path)
    sides = (model.encoder, tokenizers.source), (model.decoder, tokenizers.target)
    for side, tokenizer in sides:
        modules = cast(nn.Module, side).modules()
        (embedding,) = (module for module in modules if isinstance(module, nn.Embedding))
        for number, token in enumerate(tokenizer.vocabulary):
            if token not in vectors:
                raise UserError(f"{path} has no vector for {token!r}, a token of the vocabulary")
            if len(vectors[token]) != embedding.embedding_dim:
                raise UserError(
                    f"{path}: {token!r} has {len(vectors[token])} numbers, but embeddings have "
                    f"{embedding.embedding_dim}"
                )
            embedding.weight.data[number] = torch.tensor(vectors[token])
        embedding.weight.requires_grad_(False)


def read_extra_vectors(
    config: DecoderConfig,
) -> tuple[DecoderConfig, Float[Tensor, "vector number"] | None]:
    """Read the file of extra vectors that a decoder attends to, if it has one, and set their
    number and size in its configuration."""
    if not isinstance(config, RecurrentDecoderConfig) or config.extra_vectors is None:
        return config, None
    vectors = read_external(config.extra_vectors)
    shape = vectors.size(0), vectors.size(1)
    return replace(config, extra_vectors_shape=shape), vectors


def set_extra_vectors(model: Seq2Seq, vectors: Float[Tensor, "vector number"]) -> None:
    """Set the extra vectors that the model's decoder attends to beside the source."""
    if not isinstance(model.build_memory, WithExtraVectors):
        raise ValueError("the model attends to no extra vectors")
    model.build_memory.vectors.copy_(vectors)
