"""The limit on instruction sets, and whether bfloat16 counts as fast under it."""

import logging
from pathlib import Path

import pytest
import torch

from regard import kernels
from regard.building.translators import build_translation
from regard.cli import main
from regard.config import TrainingConfig
from regard.numerics import linear
from regard.numerics.linear import has_fast_bfloat16, warn_of_slow_bfloat16
from regard.pipeline.train import _precision
from regard.runtime import instruction_set
from regard.tasks.generation import Searcher
from tests import configs
from tests.messages import check_message

FLAGS = Path("/proc/cpuinfo")


@pytest.fixture
def limited(monkeypatch):
    """Set the limit to one of the instruction sets, and lift it afterwards."""
    before = kernels.lanes() if kernels.available() else 0
    yield lambda name: monkeypatch.setenv(instruction_set.VARIABLE, name)
    monkeypatch.undo()
    if before:
        kernels.lanes(before)


@pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")
@pytest.mark.parametrize(("name", "maximum"), instruction_set.LANES.items())
def test_the_kernels_stay_within_the_limit(limited, name, maximum):
    limited(name)
    kernels._load()
    assert kernels.lanes() <= maximum
    for wanted in (4, 8, 16):
        assert kernels.lanes(wanted) <= maximum


@pytest.mark.parametrize("name", ["baseline", "avx2", " AVX2 "])
def test_below_avx512_there_are_no_products_in_bfloat16(limited, name):
    limited(name)
    assert set(linear._types()) <= {torch.float32}
    assert not has_fast_bfloat16("cpu")


def test_avx512_without_bfloat16_instructions_is_not_fast(limited):
    limited("avx512")
    assert not has_fast_bfloat16("cpu")


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_value_is_no_limit(limited, name):
    fast, types = has_fast_bfloat16("cpu"), linear._types()
    limited(name)
    assert instruction_set.limit() in (None, *instruction_set.LANES)
    assert fast <= has_fast_bfloat16("cpu")
    assert set(types) <= set(linear._types())


def test_an_unknown_set_is_one_line(limited, capsys):
    limited("sse9")
    with pytest.raises(ValueError, match="expected one of baseline, avx2, avx512"):
        instruction_set.limit()
    assert main.run(["recipes"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "REGARD_INSTRUCTION_SET='sse9'" in line


@pytest.mark.skipif(not FLAGS.exists(), reason="the judge is Linux's list of instructions")
def test_instruction_sets_are_read_from_the_cpu():
    if instruction_set.limit() or not linear._types()[1:]:
        assert not has_fast_bfloat16("cpu")
        return
    flags = set(FLAGS.read_text().split())
    assert has_fast_bfloat16("cpu") == bool(flags & {"amx_bf16", "avx512_bf16", "svebf16"})


def test_other_devices_have_no_bfloat16_check():
    assert not has_fast_bfloat16("meta")


def test_slow_bfloat16_warns_once_per_option(limited, caplog):
    limited("avx2")
    warn_of_slow_bfloat16.cache_clear()
    with caplog.at_level(logging.WARNING):
        for option in ("training.precision", "search.precision", "training.precision"):
            warn_of_slow_bfloat16(option, torch.device("cpu"))
    assert len(caplog.messages) == 2
    check_message(caplog.messages[0])
    assert "1/25" in caplog.messages[0]
    assert "search.precision" in caplog.messages[1]


def test_without_bfloat16_instructions_auto_is_float32_and_bfloat16_warns(limited, caplog):
    limited("avx2")
    warn_of_slow_bfloat16.cache_clear()
    cpu = torch.device("cpu")
    assert _precision(TrainingConfig(precision="auto"), cpu) == "float32"
    assert caplog.messages == []
    assert _precision(TrainingConfig(precision="bfloat16"), cpu) == "bfloat16"
    (line,) = caplog.messages
    assert line.startswith("training.precision is bfloat16")


def test_decoding_in_slow_bfloat16_warns(limited, caplog):
    limited("avx2")
    warn_of_slow_bfloat16.cache_clear()
    model = build_translation(configs.recurrent(size=7, embedding=5), 11, 11).eval()
    Searcher(model)._model("bfloat16")
    (line,) = caplog.messages
    assert line.startswith("search.precision is bfloat16")


def test_fast_bfloat16_does_not_warn(monkeypatch, caplog):
    monkeypatch.setattr(linear, "has_fast_bfloat16", lambda device: True)
    warn_of_slow_bfloat16.cache_clear()
    warn_of_slow_bfloat16("training.precision", torch.device("cpu"))
    assert caplog.messages == []
