"""Embeddings of wrong inputs."""

import pytest
import torch
from torch import nn

from regard.layers.embedder import Embedder
from regard.layers.positions import Sinusoidal


def test_tokens_on_another_device_are_rejected():
    """PyTorch returns numbers that are not set for tokens without numbers."""
    embedder = Embedder(nn.Embedding(5, 4), Sinusoidal(), dropout=0.0, scale=1.0)
    tokens = torch.zeros(1, 2, dtype=torch.long, device="meta")
    with pytest.raises(ValueError, match="expected a tensor on cpu, got one on meta"):
        embedder(tokens, range(2))
