"""Pretrained word vectors as initial embeddings of a classifier."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.data.special_tokens import SPECIAL
from regard.data.text.vectors import vectors_of_words
from regard.errors import UserError
from regard.tasks.classification.inputs import Inputs, SeriesInputs


@dataclass(frozen=True)
class VectorCoverage:
    """Number of a model's words that have a vector in a file."""

    num_known: int
    num_words: int

    def __str__(self) -> str:
        return f"model.vectors has {self.num_known:,} of the {self.num_words:,} words"


def set_embeddings(model: nn.Module, inputs: Inputs, path: Path) -> VectorCoverage:
    """Set the embeddings of all words that have a vector in a GloVe or word2vec text file. A word
    without a vector takes that of its lower-case form. UserError if the file has none of the words,
    or vectors of another size than the embeddings."""
    if isinstance(inputs, SeriesInputs):
        raise UserError(f"model.vectors is {path}, but series of numbers have no words")
    (embedding,) = (each for each in model.modules() if isinstance(each, nn.Embedding))
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(inputs.tokenizer.vocabulary):
        word = inputs.tokenizer.pieces([number])[0]
        for form in {word, word.lower()}:
            if piece not in SPECIAL:
                wanted[form].append(number)
    known: set[int] = set()
    for word, values in vectors_of_words(path, set(wanted)):
        if len(values) != embedding.embedding_dim:
            raise UserError(
                f"{path}: {word!r} has {len(values)} numbers, but embeddings have "
                f"{embedding.embedding_dim}: set model.encoder.embedding (or "
                f"model.encoder.size, if the encoder has no embedding size) to {len(values)}"
            )
        for number in wanted[word]:
            exact = inputs.tokenizer.pieces([number])[0] == word
            if exact or number not in known:
                embedding.weight.data[number] = torch.tensor(values)
                known.add(number)
    if not known:
        raise UserError(f"{path} has none of the words of the data: expected GloVe or word2vec")
    return VectorCoverage(len(known), len(inputs.tokenizer) - len(SPECIAL))
