"""Word vectors in text files, and tables of vectors in text files and .npy files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np
import torch

from regard.data.files.lines import LineProblem, read_lines
from regard.errors import UserError
from regard.shapes import Float, Tensor
from regard.storage.files import check_input


def vectors_of_words(path: Path, wanted: Set[str]) -> Iterator[tuple[str, list[float]]]:
    """Yield the wanted words of a GloVe or word2vec text file with their vectors. The first line of
    word2vec, which counts the vectors, is skipped. A word may contain spaces, as in GloVe."""
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
                vector = [float(value) for value in values]
            except ValueError as error:
                raise _no_vector(path, number, line) from error
            if first == word:
                yield word, vector


def _size(fields: Sequence[str]) -> int:
    """Return the number of numbers at the end of a line, after the word. The word itself may look
    like a number."""
    size = 0
    for field in reversed(fields[1:]):
        try:
            float(field)
        except ValueError:
            break
        size += 1
    return size


def _no_vector(path: Path, number: int, line: str) -> UserError:
    return UserError(f"{path}, line {number}: expected a word and its numbers, got {line[:60]!r}")


def read_external(path: Path) -> Float[Tensor, "vector number"]:
    """Read vectors of a .npy file, or of a text file with one row per line. UserError if they are
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
    except Exception as error:  # NumPy reads headers with Python's tokenizer, which raises many
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(
            f"cannot read vectors from {path} (model.decoder.extra_vectors): {reason}"
        ) from error
    if is_table:
        table = np.array(table, dtype=np.float32)
    if not is_table or not table.size or not np.isfinite(table).all():
        raise UserError(
            f"{path} (model.decoder.extra_vectors) has the shape {table.shape} and the type "
            f"{table.dtype}: "
            "expected rows of finite numbers"
        )
    return torch.from_numpy(table)


def read_vectors(path: Path) -> dict[str, list[float]]:
    """Return the vector of every token in a text file with a token and its numbers on each line.
    UserError if a line is not a vector."""
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


def _refuse(problem: LineProblem) -> None:
    if problem.kind == "byte-order mark":
        return
    raise UserError(f"{problem.path}, line {problem.line} is not UTF-8: save it as UTF-8")
