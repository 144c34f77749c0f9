"""A model's size is compared with the memory that there is."""

import pytest
from torch import nn

from regard.building import memory
from regard.building.memory import check_memory, memory_limit
from regard.errors import UserError


def test_training_takes_four_times_the_weights(monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: 4 * 4 * 7 * 11)
    check_memory(lambda: nn.Linear(7, 11, bias=False))
    with pytest.raises(UserError, match=r"parameters; .* GiB of memory, but this machine has"):
        check_memory(lambda: nn.Linear(7, 11))


def test_the_limit_of_a_control_group_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_groups", lambda: [memory.Path("a/b")])
    whole = memory_limit()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    assert memory_limit() == whole
    (tmp_path / "a" / "memory.max").write_text("123456\n")
    assert memory_limit() == 123456
    (tmp_path / "memory" / "a").mkdir(parents=True)
    (tmp_path / "memory" / "a" / "memory.limit_in_bytes").write_text("7\n")
    assert memory_limit() == 7


def test_a_matrix_beyond_64_bits_is_refused():
    with pytest.raises(UserError, match="a single matrix of this model"):
        check_memory(lambda: nn.Linear(1 << 32, 1 << 32))
