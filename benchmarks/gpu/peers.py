"""Models of PyTorch's own layers with the sizes of a recipe, trained in a plain loop."""

from __future__ import annotations

import math
from typing import Any

import torch
from data import Work
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.special_tokens import PAD

LONGEST = 512


class Transformer(nn.Module):
    """`nn.Transformer` with sinusoidal positions and one matrix for all embeddings."""

    def __init__(self, config: Any, vocabulary_size: int) -> None:
        super().__init__()
        part, size = config.encoder, config.size
        self.embedding = nn.Embedding(vocabulary_size, size)
        nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.stacks = nn.Transformer(
            size,
            part.heads,
            part.layers,
            config.decoder.layers,
            part.feed_forward,
            config.dropout,
            batch_first=True,
            norm_first=part.norm == "pre",
        )
        angles = torch.arange(LONGEST)[:, None] * 10_000 ** (-2 * torch.arange(size // 2) / size)
        self.register_buffer("waves", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        scaled = math.sqrt(self.embedding.embedding_dim) * self.embedding(tokens)
        return self.dropout(scaled + self.waves[: tokens.size(1)])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """Return logits."""
        length = inputs.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        features = self.stacks(
            self.embed(source),
            self.embed(inputs),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return F.linear(features, self.embedding.weight)


class Recurrent(nn.Module):
    """`nn.LSTM` with general attention after the decoder, as Luong et al. (2015)."""

    def __init__(self, config: Any, vocabulary_size: int) -> None:
        super().__init__()
        size = config.size
        self.embedding = nn.Embedding(vocabulary_size, size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.LSTM(size, size // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(size, size, batch_first=True)
        self.query = nn.Linear(size, size, bias=False)
        self.joined = nn.Linear(2 * size, size)

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """Return logits."""
        keys, (hidden, cell) = self.encoder(self.dropout(self.embedding(source)))
        start = tuple(x.transpose(0, 1).flatten(1)[None].contiguous() for x in (hidden, cell))
        states, _ = self.decoder(self.dropout(self.embedding(inputs)), start)
        mask = (source != PAD)[:, None]
        context = F.scaled_dot_product_attention(self.query(states), keys, keys, mask, scale=1.0)
        features = self.joined(torch.cat([states, context], dim=-1)).tanh()
        return F.linear(self.dropout(features), self.embedding.weight)


def trains_in(device: torch.device) -> torch.dtype:
    """Return the type of the peers' products: float32 on CPUs without bfloat16 instructions, where
    PyTorch has no LSTM in bfloat16."""
    has_type = device.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if has_type else torch.float32


class Peer:
    """A model in a plain loop, with the optimiser and the batches of a recipe."""

    def __init__(self, work: Work, device: torch.device, *, compiled: bool) -> None:
        config = work.experiment.model
        kind = Transformer if config.encoder.kind == "transformer" else Recurrent
        self.device, self.training = device, work.experiment.training
        self.model = kind(config, work.vocabulary_size).to(device).train()
        self.loss = torch.compile(self._loss, dynamic=True) if compiled else self._loss
        self.adam = torch.optim.AdamW(
            self.model.parameters(),
            lr=1e-4,
            betas=self.training.adam_betas,
            eps=self.training.adam_epsilon,
            fused=True,
        )

    def _loss(self, source: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
        logits = self.model(source, inputs).flatten(0, 1)
        smoothing = self.training.label_smoothing
        return F.cross_entropy(
            logits, outputs.flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def update(self, batch: Any) -> None:
        tensors = batch.source.ids, batch.inputs, batch.outputs
        if self.device.type == "cuda":
            tensors = tuple(x.pin_memory().to(self.device, non_blocking=True) for x in tensors)
        is_bfloat16 = trains_in(self.device) == torch.bfloat16
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_bfloat16):
            loss = self.loss(*tensors)
        self.adam.zero_grad()
        loss.backward()
        if self.training.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip)
        self.adam.step()
