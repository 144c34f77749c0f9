"""Covering arrays: every valid pair occurs in a row, and invalid pairs do not."""

import os
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest

from tests.pairwise import pairwise

OPTIONS = {
    "score": ("dot", "general", "additive", "cosine", "concat"),
    "normaliser": ("softmax", "sparsemax", "entmax15"),
    "layers": (1, 2),
    "cell": ("gru", "elman", "lstm"),
    "bidirectional": (False, True),
}


def every():
    """Every combination."""
    return (dict(zip(OPTIONS, row, strict=True)) for row in product(*OPTIONS.values()))


def pairs(rows):
    return {pair for row in rows for pair in combinations(row.items(), 2)}


def test_every_pair_occurs_in_few_rows():
    rows = pairwise(OPTIONS)
    assert pairs(rows) == pairs(every())
    assert len(rows) <= 20  # at least 5 x 3; the full product has 180
    assert rows == pairwise(OPTIONS)


@pytest.mark.parametrize(
    "is_valid",
    [
        lambda row: row["score"] != "dot" or not row["bidirectional"],
        lambda row: row["cell"] == "lstm" or row["layers"] == 1 or row["score"] == "dot",
        lambda row: row["score"] == "dot",
    ],
)
def test_rows_are_valid_and_every_possible_pair_occurs(is_valid):
    rows = pairwise(OPTIONS, is_valid)
    assert all(map(is_valid, rows))
    assert pairs(rows) == pairs(filter(is_valid, every()))


def test_every_process_makes_the_same_rows():
    options = {f"option {number}": (0, 1, 2) for number in range(11)}
    script = f"from tests.pairwise import pairwise; print(pairwise({options!r}))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
