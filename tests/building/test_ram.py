"""Comparison of the RAM that training takes with that of the machine."""

import pytest
from torch import nn

from regard.building import ram
from regard.building.ram import check_ram, ram_limit
from regard.errors import UserError


def test_training_takes_four_times_the_weights(monkeypatch):
    monkeypatch.setattr(ram, "ram_limit", lambda: 4 * 4 * 7 * 11)
    check_ram(lambda: nn.Linear(7, 11, bias=False))
    with pytest.raises(UserError, match=r"parameters; .* GiB of memory, but this machine has"):
        check_ram(lambda: nn.Linear(7, 11))


def test_the_limit_of_a_control_group_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(ram, "CGROUPS", tmp_path)
    monkeypatch.setattr(ram, "_groups", lambda: [ram.Path("a/b")])
    whole = ram_limit()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    assert ram_limit() == whole
    (tmp_path / "a" / "memory.max").write_text("123456\n")
    assert ram_limit() == 123456
    (tmp_path / "memory" / "a").mkdir(parents=True)
    (tmp_path / "memory" / "a" / "memory.limit_in_bytes").write_text("7\n")
    assert ram_limit() == 7


def test_a_matrix_beyond_64_bits_is_refused():
    with pytest.raises(UserError, match="a single matrix of this model"):
        check_ram(lambda: nn.Linear(1 << 32, 1 << 32))
