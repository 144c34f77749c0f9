"""The library of kernels: its choice of instruction set, and the warning if it is missing."""

import ctypes
import os
import subprocess
import sys

import pytest
import torch

from regard import kernels
from regard.attention import Additive, Attention, Dot
from regard.compiled.accelerate import accelerate
from regard.compiled.dropout import Dropout
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from regard.layers.recurrent.stack import RecurrentStack


@pytest.fixture
def not_built(monkeypatch, caplog):
    """Remove the library, as without a compiler; return the warnings."""
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    kernels._warn_missing.cache_clear()
    yield caplog
    kernels._warn_missing.cache_clear()


def attend(score):
    queries, keys = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    attention = Attention(score)
    accelerate(attention)
    return attention(queries, attention.prepare(keys), keys).context


def encode(stack):
    accelerate(stack)
    return stack.encode(torch.randn(2, 3, 5), torch.ones(2, 3, dtype=torch.bool))


USES = {
    "dots": lambda: attend(Dot()),
    "additive": lambda: attend(Additive(5, 5, 11)),
    "cells": lambda: encode(RecurrentStack("gru", 5, 7, 1)),
    "dropout": lambda: Dropout(0.3)(torch.randn(2, 3)),
    "loss": lambda: linear_cross_entropy(
        torch.randn(2, 3), torch.randn(5, 3), None, torch.tensor([1, 4])
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_missing_kernels_are_reported_once_with_a_remedy(not_built, use):
    use()
    (said,) = not_built.messages
    assert "slower" in said
    assert "g++ 11 or newer, or Clang 14 or newer" in said
    assert "-m pip install --force-reinstall --no-deps" in said
    use()
    assert len(not_built.messages) == 1


def test_missing_kernels_are_reported_only_when_needed(not_built):
    assert not kernels.available()
    assert not kernels.suit(torch.ones(3, dtype=torch.float64))
    assert not kernels.suit(torch.ones(3), torch.ones(3, dtype=torch.bfloat16))
    assert not kernels.suit(torch.ones(3, device="meta"))
    Dropout(0.3).eval()(torch.ones(3))
    assert not_built.messages == []


def test_the_command_line_reports_missing_kernels_in_one_line(tmp_path):
    """Logging is not configured there, so Python writes warnings to stderr."""
    code = (
        "import sys; from regard import kernels; from regard.cli import main;"
        "kernels._LIBRARY = None; sys.exit(main.run(sys.argv[1:]))"
    )
    sizes = ("--data.synthetic-size", "300", "--training.updates", "2", "--model.size", "8")
    done = subprocess.run(
        [sys.executable, "-c", code, "train", "copy", *sizes],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "REGARD_CACHE": str(tmp_path / "cache")},
        timeout=120,
    )
    assert done.returncode == 0
    (said,) = [line for line in done.stderr.splitlines() if "kernels" in line]
    assert "pip install --force-reinstall" in said


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize(("name", "size"), [("Strided", 32), ("Strided", 40), ("Unknown", 32)])
def test_a_library_with_other_structures_is_not_used(monkeypatch, name, size):
    monkeypatch.setattr(kernels, "_LIBRARY", kernels._LIBRARY)  # to be put back

    @kernels.structure(name)
    class Own(ctypes.Structure):
        _fields_ = (("bytes", ctypes.c_char * size),)

    assert ctypes.sizeof(Own) == size
    assert kernels.available() == ((name, size) == ("Strided", 32))


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
def test_a_call_with_arrays_that_are_too_small_is_a_value_error():
    weights, grads = torch.rand(3, 5), torch.rand(3, 5)
    places = weights.data_ptr(), grads.data_ptr()
    sizes = 3, 6, 1
    with pytest.raises(ValueError, match="additive through softmax: an array is smaller"):
        kernels.call("additive_through_softmax", *places, 1.0, *sizes, weights.nbytes, grads.nbytes)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(3, 5), 60),
        (torch.zeros(3, 5, dtype=torch.bfloat16), 30),
        (torch.zeros(3, 5)[:, :2], 4 * (10 + 2)),
        (torch.zeros(3, 5).T, 60),
        (torch.zeros(3, 1).expand(3, 5), 12),
        (torch.zeros(3, 0), 0),
        (torch.zeros(3, 5)[1:1], 0),
        (None, 0),
    ],
)
def test_pointers_cover_the_whole_array(tensor, expected):
    assert kernels.num_bytes(tensor) == expected
