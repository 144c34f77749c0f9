"""ByteNet: translation in linear time (Kalchbrenner et al. 2016).

    block(x) = x + W3 relu(LN(conv(relu(LN(W1 relu(LN(x)))))))                     section 3.6
               sizes 2d -> d -> d -> 2d; conv has width k and a dilation
    dilations  1, 2, 4, 8, 16 in each set of blocks                                section 3.5
    encoder    centred windows over |t^| = a |s| + b columns                       sections 3.2, 3.4
    decoder    causal windows; at step t it reads column t of the encoder          sections 3.1, 3.3
    logits_t   W relu(V relu(x_t))

The decoder is stacked on the encoder: there is no attention. Its input at step t joins the
embedding of the token before with column t by a linear layer, which the paper does not specify.
Columns beyond the source have one learned vector as input. The target may be longer than |t^|:
beyond it the columns are zeros (dynamic unfolding, section 3.2). The inner ReLU of the logits is
that of WaveNet (van den Oord et al. 2016, section 2.4), as the last block ends with a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batch import Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.layers.masks import check_mask
from regard.layers.windows import Window, causal, centred
from regard.models.contracts import DecoderOutput, Encoded, Memory
from regard.models.memory import single_memory
from regard.numerics.linear import Linear, glorot_uniform
from regard.shapes import Bool, Float, Int, Tensor

ROUNDING = 1e-6
"""Upper bound of the rounding error of a number of columns: 1.2 times 25 are 30, not 31."""


def glorot_linear(in_features: int, out_features: int) -> Linear:
    """Build a linear layer with Glorot's initial weights."""
    layer = Linear(in_features, out_features)
    glorot_uniform(layer)
    return layer


class DilatedBlock(nn.Module):
    """Residual block of three layers, each after layer norm and ReLU. The middle one is a
    convolution."""

    def __init__(self, size: int, width: int, dilation: int, dropout: float) -> None:
        """`size` is 2d."""
        super().__init__()
        self.inner_size, self.width, self.dilation = size // 2, width, dilation
        self.norms = nn.ModuleList(
            nn.LayerNorm(number) for number in (size, self.inner_size, self.inner_size)
        )
        self.reduce = glorot_linear(size, self.inner_size)
        self.convolve = glorot_linear(width * self.inner_size, self.inner_size)
        self.expand = glorot_linear(self.inner_size, size)
        self.dropout = Dropout(dropout)

    def before(
        self, states: Float[Tensor, "batch position size"]
    ) -> Float[Tensor, "batch position channel"]:
        """Return the inputs of the convolution."""
        # Kalchbrenner et al. 2016, section 3.6: W_1 relu(LN(x)), from 2d to d
        reduced = self.reduce(F.relu(self.norms[0](states)))
        return F.relu(self.norms[1](reduced))

    def after(
        self,
        states: Float[Tensor, "batch position size"],
        windows: Float[Tensor, "batch position window"],
    ) -> Float[Tensor, "batch position size"]:
        """Return the states of the block, given windows of the inputs of the convolution."""
        # Kalchbrenner et al. 2016, section 3.6: x + W_3 relu(LN(conv(..))), from d to 2d
        change = self.expand(F.relu(self.norms[2](self.convolve(windows))))
        return states + self.dropout(change)


class DilatedConvolutionEncoder(nn.Module):
    """Stack of blocks with centred windows, over more columns than the source has."""

    def __init__(
        self,
        embedding: nn.Embedding | nn.Linear,
        blocks: Sequence[DilatedBlock],
        sizes: tuple[int, int],
        unfolding: tuple[float, int],
        dropout: float,
    ) -> None:
        """`sizes` are those of embeddings and states, `unfolding` is (a, b)."""
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.blank = nn.Parameter(torch.empty(sizes[0]))
        nn.init.normal_(self.blank)
        self.first = glorot_linear(*sizes)
        self.blocks = cast(Sequence[DilatedBlock], nn.ModuleList(blocks))
        self.unfolding = unfolding

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Return embeddings and states of the source, and the states of all columns. ValueError
        for a mask that does not fit."""
        del need_weights
        embedded = self.dropout(self.embedding(source.inputs))
        check_mask(embedded, source.mask)
        length = embedded.size(1)
        mask = self.columns(source.mask)
        columns = F.pad(embedded, (0, 0, 0, mask.size(1) - length))
        is_real = F.pad(source.mask, (0, mask.size(1) - length))
        columns = torch.where(is_real[..., None], columns, self.blank.to(columns.dtype))
        states = [self.first(columns)]
        for block in self.blocks:
            inputs = block.before(states[-1]).masked_fill(~mask[..., None], 0)
            windows = centred(inputs, block.width, block.dilation)
            states.append(block.after(states[-1], windows))
        unfolded = states[-1].masked_fill(~mask[..., None], 0)
        layers = embedded, *(layer[:, :length] for layer in states[1:])
        return Encoded(layers, source.mask, unfolded=Memory(unfolded, unfolded, mask))

    def columns(self, mask: Bool[Tensor, "batch source"]) -> Bool[Tensor, "batch column"]:
        """Return the mask of the columns: |t^| = a |s| + b, rounded up, at least |s|."""
        factor, addend = self.unfolding
        lengths = mask.sum(dim=1)
        # Kalchbrenner et al. 2016, section 3.2: |t^| = a |s| + b
        columns = factor * lengths.double() + addend
        numbers = (columns - ROUNDING).ceil().long().maximum(lengths)
        most = int(numbers.max()) if len(numbers) else 0  # a batch may be empty
        num_columns = max(most, mask.size(1))
        return torch.arange(num_columns, device=mask.device) < numbers[:, None]

    @property
    def num_multiplied(self) -> int:
        """Number of weights by which a source token is multiplied: each token has `a` columns, at
        least one, and numbers are multiplied by the weights of a linear embedding."""
        parameters = (weight for part in (self.first, *self.blocks) for weight in part.parameters())
        num_weights = sum(weight.numel() for weight in parameters if weight.dim() == 2)
        embedding = self.embedding.weight.numel() if isinstance(self.embedding, nn.Linear) else 0
        return embedding + round(max(1, self.unfolding[0]) * num_weights)


@dataclass(frozen=True)
class DilatedState:
    """Columns of the encoder, one entry a sentence; inputs in the window of every block, one entry
    a hypothesis; and the number of steps."""

    columns: Float[Tensor, "batch column size"]
    windows: tuple[Window, ...]
    position: int = 0

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> DilatedState:
        return replace(self, windows=tuple(window.select(hypotheses) for window in self.windows))

    def keep(self, sentences: Int[Tensor, "kept"]) -> DilatedState:
        windows = tuple(window.keep(sentences) for window in self.windows)
        return DilatedState(self.columns[sentences], windows, self.position)


class DilatedConvolutionDecoder(nn.Module):
    """Stack of blocks with causal windows on the columns of the encoder, and the projection to
    logits."""

    num_memories = 1

    def __init__(
        self,
        embedding: nn.Embedding,
        blocks: Sequence[DilatedBlock],
        column_size: int,
        size: int,
        dropout: float,
    ) -> None:
        """`column_size` is the size of the encoder's states, `size` that of the blocks."""
        super().__init__()
        embedding_size = embedding.embedding_dim
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.first = glorot_linear(embedding_size + column_size, size)
        self.blocks = cast(Sequence[DilatedBlock], nn.ModuleList(blocks))
        self.last = glorot_linear(size, embedding_size)
        self.projection = Linear(embedding_size, embedding.num_embeddings)
        glorot_uniform(self.projection)

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Compute all steps. There is no attention, so `need_weights` has no effect."""
        del need_weights
        columns = _columns(memories)[:, : inputs.size(1)]
        columns = F.pad(columns, (0, 0, 0, inputs.size(1) - columns.size(1)))
        states = self._first(inputs, columns)
        for block in self.blocks:
            # Kalchbrenner et al. 2016, section 3.3: masked convolution of x_{t-d(k-1)}, .., x_t
            windows = causal(block.before(states), block.width, block.dilation)
            states = block.after(states, windows)
        return self._output(states)

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> DilatedState:
        columns = _columns(memories)
        windows = [
            Window.empty(columns, block.inner_size, block.width, block.dilation)
            for block in self.blocks
        ]
        return DilatedState(columns, tuple(windows))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: DilatedState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, DilatedState]:
        del need_weights
        column = state.columns[:, state.position : state.position + 1]
        if column.size(1) == 0:
            column = state.columns.new_zeros(len(tokens), 1, state.columns.size(2))
        states = self._first(tokens, column.expand(-1, tokens.size(1), -1))
        windows = []
        for block, past in zip(self.blocks, state.windows, strict=True):
            inputs, window = past.append(block.before(states))
            states = block.after(states, inputs)
            windows.append(window)
        return self._output(states), DilatedState(state.columns, tuple(windows), state.position + 1)

    def _first(
        self, tokens: Int[Tensor, "batch position"], columns: Float[Tensor, "batch position value"]
    ) -> Float[Tensor, "batch position size"]:
        embedded = self.dropout(self.embedding(tokens))
        return self.first(torch.cat([embedded, columns], dim=-1))

    def _output(self, states: Float[Tensor, "batch position size"]) -> DecoderOutput:
        # van den Oord et al. 2016, section 2.4: relu(V relu(x_t)), before the projection W
        return DecoderOutput(self.dropout(F.relu(self.last(F.relu(states)))))


def _columns(memories: tuple[Memory, ...]) -> Float[Tensor, "batch column size"]:
    """Return the columns of the encoder, zeros at padding."""
    memory = single_memory(memories)
    return memory.values.masked_fill(~memory.mask[..., None], 0)
