"""Embeddings that are given as a text file: those of a whole vocabulary, which stay as they are,
and those of as many words as there are, to begin with."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from regard.data.lines import Problem, read_lines
from regard.data.special import SPECIAL
from regard.errors import UserError
from regard.files import check_input
from regard.models.picks import Beside
from regard.models.seq2seq import Seq2Seq
from regard.pipeline.prepare import Tokenizers
from regard.pipeline.reading import Reader, SeriesReader
from regard.shapes import Float, Tensor


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


@dataclass(frozen=True)
class Coverage:
    """How many of a model's words a file has vectors for."""

    num_known: int
    num_words: int

    def __str__(self) -> str:
        return f"model.vectors has {self.num_known:,} of the {self.num_words:,} words"


def begin_with_vectors(model: nn.Module, reader: Reader, path: Path) -> Coverage:
    """Set the embeddings of those words that a GloVe or word2vec text file has, as they are
    written, or else in lower case. UserError where there are none, or where they have another
    size."""
    if isinstance(reader, SeriesReader):
        raise UserError(f"model.vectors is {path}, but series of numbers have no words")
    (embedding,) = (each for each in model.modules() if isinstance(each, nn.Embedding))
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for number, piece in enumerate(reader.tokenizer.vocabulary):
        word = reader.tokenizer.pieces([number])[0]
        for form in {word, word.lower()}:
            if piece not in SPECIAL:
                wanted[form].append(number)
    known: set[int] = set()
    for word, values in _listed(path, set(wanted)):
        if len(values) != embedding.embedding_dim:
            raise UserError(
                f"{path}: {word!r} has {len(values)} numbers, but model.embedding is "
                f"{embedding.embedding_dim}: set it to {len(values)}"
            )
        for number in wanted[word]:
            exact = reader.tokenizer.pieces([number])[0] == word
            if exact or number not in known:
                embedding.weight.data[number] = torch.tensor(values)
                known.add(number)
    if not known:
        raise UserError(f"{path} has none of the words of the data: expected GloVe or word2vec")
    return Coverage(len(known), len(reader.tokenizer) - len(SPECIAL))


def _listed(path: Path, wanted: Set[str]) -> Iterator[tuple[str, list[float]]]:
    """Those that are wanted. word2vec has how many there are in its first line. A word may have
    blanks inside, as some of GloVe's do."""
    size = 0
    for number, line in enumerate(read_lines(path, lambda _: None), 1):
        line = line.rstrip(" ")
        word, _, rest = line.partition(" ")
        if (number == 1 and rest.isdecimal()) or not line:
            continue
        size = size or _size(line.split(" "))
        if not size:
            raise _no_vector(path, number, line)
        if word in wanted:
            first, *values = line.rsplit(" ", size)
            try:
                found = [float(value) for value in values]
            except ValueError as error:
                raise _no_vector(path, number, line) from error
            if first == word:
                yield word, found


def _size(fields: Sequence[str]) -> int:
    """How many numbers stand at the end of a line. A word stands before them, which may look like
    one."""
    size = 0
    for field in reversed(fields[1:]):
        try:
            float(field)
        except ValueError:
            break
        size += 1
    return size


def _no_vector(path: Path, number: int, line: str) -> UserError:
    return UserError(
        f"{path}, line {number}: expected a word and its numbers, but {line[:60]!r} came"
    )


def read_external(path: Path) -> Float[Tensor, "vector number"]:
    """Vectors of a .npy file, or of a text file with a row on each line. UserError where they are
    not a table of finite numbers."""
    try:
        if path.suffix == ".npy":
            table = np.load(check_input(path), mmap_mode="r", allow_pickle=False)
            is_table = table.ndim == 2 and table.dtype.kind in "biuf"
        else:
            table = np.loadtxt(read_lines(path, _refuse), dtype=np.float32, ndmin=2)
            is_table = table.ndim == 2
    except UserError:
        raise
    except Exception as error:  # NumPy's reader of headers raises what Python's tokenizer does
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"cannot read vectors from {path} (model.external): {why}") from error
    if is_table:
        table = np.array(table, dtype=np.float32)
    if not is_table or not table.size or not np.isfinite(table).all():
        raise UserError(
            f"{path} (model.external) has the shape {table.shape} of {table.dtype}: expected rows "
            "of finite numbers"
        )
    return torch.from_numpy(table)


def set_external(model: Seq2Seq, vectors: Float[Tensor, "vector number"]) -> None:
    """Give a model that was built for so many vectors these."""
    if not isinstance(model.remember, Beside):
        raise ValueError("this model looks at no vectors beside its source")
    model.remember.vectors.copy_(vectors)


def _read_vectors(path: Path) -> dict[str, list[float]]:
    vectors = {}
    size = 0
    for number, line in enumerate(read_lines(path, _refuse), 1):
        fields = re.split(r"[ \t]+", line.strip(" \t"))  # other white space may be a token
        if fields == [""]:
            continue
        size = size or _size(fields)
        if not size:
            raise _no_vector(path, number, line)
        split = max(1, len(fields) - size)
        try:
            vectors[" ".join(fields[:split])] = [float(value) for value in fields[split:]]
        except ValueError as error:
            raise _no_vector(path, number, line) from error
    return vectors


def _refuse(problem: Problem) -> None:
    if problem.kind == "byte-order mark":
        return
    raise UserError(f"{problem.path}, line {problem.line} is not UTF-8: save it as UTF-8")
