"""Embeddings that are given as a text file, and stay as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard.data.text import Problem, read_lines
from regard.errors import UserError
from regard.models.seq2seq import Seq2Seq
from regard.pipeline.prepare import Tokenizers


def set_vectors(model: Seq2Seq, tokenizers: Tokenizers, path: Path) -> None:
    """Fix both sides' embeddings to the vectors of a text file: a token and its numbers a line."""
    vectors = _read_vectors(path)
    sides = (model.encoder, tokenizers.source), (model.decoder, tokenizers.target)
    for side, tokenizer in sides:
        modules = cast(nn.Module, side).modules()
        (embedding,) = (each for each in modules if isinstance(each, nn.Embedding))
        for number, token in enumerate(tokenizer.vocabulary):
            if token not in vectors:
                raise UserError(f"{path} has no vector for {token!r}, which the vocabulary has")
            if len(vectors[token]) != embedding.embedding_dim:
                raise UserError(
                    f"{path}: {token!r} has {len(vectors[token])} numbers, but embeddings have "
                    f"{embedding.embedding_dim}"
                )
            embedding.weight.data[number] = torch.tensor(vectors[token])
        embedding.weight.requires_grad_(False)


def _read_vectors(path: Path) -> dict[str, list[float]]:
    vectors = {}
    for number, line in enumerate(read_lines(path, _refuse), 1):
        token, *values = re.split(r"[ \t]+", line.strip(" \t"))  # other white space may be a token
        try:
            vectors[token] = [float(value) for value in values]
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: expected a token and its numbers, but {line!r} came"
            ) from error
    return vectors


def _refuse(problem: Problem) -> None:
    raise UserError(f"{problem.path}, line {problem.line} is not UTF-8: save it as UTF-8")
