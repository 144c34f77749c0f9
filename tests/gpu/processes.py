"""Functions that several processes call."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.pipeline.train import train
from regard.runtime import processes
from tests.gpu.training import experiment


def add_up(device: str, backend: str) -> None:
    """Add up numbers and gradients by the expected backend."""
    with processes.connected():
        place = processes.own_device(torch.device(device))
        group = torch.distributed.group.WORLD._get_backend(place)
        if group.name() != backend:
            raise ValueError(f"expected processes connected by {backend}, got {group.name()}")
        numbers = torch.ones(3, device=place)
        torch.distributed.all_reduce(numbers)
        model = DistributedDataParallel(nn.Linear(3, 2).to(place))
        model(numbers).sum().backward()
        if numbers.tolist() != [processes.number()] * 3 or model.module.weight.grad is None:
            raise ValueError(f"expected sums over {processes.number()} processes, got {numbers}")


def learn(device: str, folder: str) -> None:
    """Train together."""
    train(experiment("luong", device=device), Path(folder))
