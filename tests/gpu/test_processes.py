"""Processes that train together: one with NCCL under torchrun, two that share a GPU with gloo."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ranks
from tests.gpu import devices
from tests.gpu.test_training import losses
from tests.gpu.training import experiment, train

DEVICE = "cuda" if devices.is_gpu() else "cpu"
TOGETHER = pytest.mark.skipif(not devices.is_gpu(), reason="tests/e2e does this on a CPU")


def test_one_process_under_torchrun():
    backend = "nccl" if devices.is_gpu() else "gloo"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    program = ["-m", "tests.ranks", "tests.gpu.processes:add_up", DEVICE, backend]
    result = subprocess.run(
        [*command, *program], cwd=ranks.ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


@TOGETHER
def test_two_processes_share_a_gpu():
    ranks.run(2, "tests.gpu.processes:add_up", DEVICE, "gloo")


@TOGETHER
def test_two_processes_on_a_gpu_have_the_losses_of_one(tmp_path):
    ranks.run(2, "tests.gpu.processes:learn", DEVICE, tmp_path / "two")
    train(experiment("luong", device=DEVICE), tmp_path / "one")
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-3)
