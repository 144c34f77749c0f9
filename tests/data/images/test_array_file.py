"""Rows in a file, broken off and gone on with."""

from __future__ import annotations

import json

import numpy as np
import pytest

from regard.data.images import array_file
from regard.data.images.array_file import ArrayFile

KIND = np.dtype(np.float16)


@pytest.fixture(autouse=True)
def _noted_often(monkeypatch):
    monkeypatch.setattr(array_file, "NOTED_AFTER", 2)


def row(number):
    return np.full(3, number, KIND)


@pytest.mark.parametrize("named", [False, True])
def test_rows_are_read_back_and_failed_ones_are_named(tmp_path, named):
    made = ArrayFile(4, (3,), KIND, tmp_path / "rows" if named else None)
    for number in range(4):
        made.put("no picture" if number == 2 else row(number))
    assert (len(made), made.done, made.broken) == (4, 4, {2: "no picture"})
    assert made.values[:, 0].tolist() == [0, 1, 0, 3]
    assert isinstance(made.values, np.memmap) == named


def test_an_interrupted_file_is_continued(tmp_path):
    first = ArrayFile(5, (3,), KIND, tmp_path / "rows")
    first.put(row(1))
    first.put("broken")
    first.put(row(3))  # not noted yet
    second = ArrayFile(5, (3,), KIND, tmp_path / "rows")
    assert (second.done, second.broken) == (2, {1: "broken"})
    for number in range(second.done, 5):
        second.put(row(number + 1))
    third = ArrayFile(5, (3,), KIND, tmp_path / "rows")
    assert third.done == 5
    assert third.values[:, 0].tolist() == [1, 0, 3, 4, 5]


@pytest.mark.parametrize("harm", ["page", "array", "size"])
def test_damaged_files_and_other_shapes_are_written_again(tmp_path, harm):
    rows = ArrayFile(2, (3,), KIND, tmp_path / "rows")
    rows.put(row(1))
    rows.put(row(2))
    if harm == "page":
        (tmp_path / "rows.json").write_text("{")
    if harm == "array":
        (tmp_path / "rows.npy").write_bytes(b"")
    again = ArrayFile(3 if harm == "size" else 2, (3,), KIND, tmp_path / "rows")
    assert (again.done, again.broken) == (0, {})
    assert not again.values.any()
    assert json.loads((tmp_path / "rows.json").read_text()) == {"done": 0, "broken": {}}
