"""ConvS2S: convolutional sequence to sequence learning (Gehring et al. 2017).

    e_j     = w_j + p_j                                   words and positions            section 3.1
    h^l_i   = (GLU(W^l [h^{l-1} around i] + b^l) + h^{l-1}_i) sqrt(1/2)                  section 3.2
    GLU([A B]) = A * sigmoid(B)

    encoder   the window around i is centred; z = top layer in the size of the embeddings
    decoder   the window ends at i; with g_i the target's embedding, in every layer:
              d^l_i  = (W_d h^l_i + b_d + g_i) sqrt(1/2)                                 eq. 1
              a^l_ij = softmax_j(d^l_i . z_j)                                            section 3.3
              c^l_i  = sqrt(m) sum_j a^l_ij (z_j + e_j) sqrt(1/2)                        eq. 2
              h^l_i  = ((W_c c^l_i + b_c + GLU output) sqrt(1/2) + h^{l-1}_i) sqrt(1/2)  section 3.4
    logits_i  W_o h^L_i + b_o

m is the number of source positions. Linear layers map embeddings to the channels of the first
convolution, and the channels of the last one to the size of the embeddings. Where the number of
channels changes, a linear layer computes the residual connection.

The sums d, z + e and W_c c + h are multiplied by sqrt(1/2), as in the authors' program: the paper's
equations leave these factors out, but its section 3.4 asks that sums keep the variance. The
gradient of z is divided by the number of attentions, as in section 3.4; the program divides it by
twice as much.

Every layer has weight normalisation (section 4.2), except embeddings and the projection to logits,
whose weight may be that of the embeddings. Weights are initialised as in section 3.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import Attention, PreparedKeys, none_if_full, padding
from regard.data.batch import Numbers, Tokens
from regard.layers.dropout import Dropout
from regard.layers.embedder import Embedder
from regard.layers.masks import check_mask
from regard.layers.weight_norm import NormalisedLinear
from regard.layers.windows import Window, causal, centred
from regard.models.contracts import AttentionBlock, DecoderOutput, Encoded, Memory
from regard.models.memory import single_memory
from regard.names import AttentionKind
from regard.numerics.linear import Linear
from regard.shapes import Bool, Float, Int, Tensor

SQRT_HALF = math.sqrt(0.5)
"""Factor of a sum of two vectors, which keeps their variance."""


def plain_linear(in_features: int, out_features: int) -> NormalisedLinear:
    """Build a linear layer that is not followed by a GLU, for inputs without dropout."""
    return NormalisedLinear(in_features, out_features, std=in_features**-0.5)


class GatedConvolution(nn.Module):
    """Dropout, convolution and gated linear unit (Dauphin et al. 2017), with the residual
    connection around them."""

    def __init__(self, from_channels: int, to_channels: int, width: int, dropout: float) -> None:
        super().__init__()
        self.from_channels, self.width = from_channels, width
        self.dropout = Dropout(dropout)
        num_inputs = width * from_channels
        std = math.sqrt(4 * (1 - dropout) / num_inputs)
        self.linear = NormalisedLinear(num_inputs, 2 * to_channels, std=std)
        self.shortcut = (
            nn.Identity()
            if from_channels == to_channels
            else plain_linear(from_channels, to_channels)
        )

    def forward(
        self, windows: Float[Tensor, "batch position window"]
    ) -> Float[Tensor, "batch position channel"]:
        """Return the GLU of windows of inputs after dropout."""
        # Gehring et al. 2017, section 3.2: v([A B]) = A * sigmoid(B)
        # Dauphin et al. 2017, eq. 1 (from memory): h(X) = (X W + b) * sigmoid(X V + c)
        return F.glu(self.linear(windows), dim=-1)

    def add(
        self,
        states: Float[Tensor, "batch position channel"],
        inputs: Float[Tensor, "batch position channels"],
    ) -> Float[Tensor, "batch position channel"]:
        """Return the residual sum of the layer's states and inputs."""
        # Gehring et al. 2017, section 3.2:
        #     h_i^l = v(W^l [h_{i-k/2}^{l-1}, .., h_{i+k/2}^{l-1}] + b^l) + h_i^{l-1}
        return (states + self.shortcut(inputs)) * SQRT_HALF


class GatedConvolutionEncoder(nn.Module):
    """Stack of gated convolutions with centred windows."""

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[GatedConvolution],
        maps: tuple[NormalisedLinear, NormalisedLinear],
    ) -> None:
        """`maps` are the linear layers from embeddings to channels and back."""
        super().__init__()
        self.embedder = embedder
        self.layers = cast(Sequence[GatedConvolution], nn.ModuleList(layers))
        self.first, self.last = maps

    def forward(self, source: Tokens | Numbers, *, need_weights: bool = False) -> Encoded:
        """Return the embeddings e, the states of every layer, and z. ValueError for a mask that
        does not fit."""
        del need_weights
        embedded = self.embedder(source.inputs, range(source.inputs.size(1)))
        check_mask(embedded, source.mask)
        mask = none_if_full(source.mask)
        states = [embedded]
        inputs = self.first(embedded)
        for layer in self.layers:
            dropped = layer.dropout(inputs)
            if mask is not None:
                dropped = dropped.masked_fill(~mask[..., None], 0)
            inputs = layer.add(layer(centred(dropped, layer.width)), inputs)
            states.append(inputs)
        return Encoded((*states, self.last(inputs)), source.mask)


@dataclass(frozen=True)
class PreparedSource:
    """Values of the source, with the keys prepared by the attention of each layer, one entry a
    sentence."""

    prepared: tuple[PreparedKeys, ...]
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch 1 source"] | None
    scale: Float[Tensor, "batch 1 1"]
    """sqrt(m) for m source positions."""

    def keep(self, sentences: Int[Tensor, "kept"]) -> PreparedSource:
        return PreparedSource(
            tuple(keys[sentences] for keys in self.prepared),
            self.values[sentences],
            None if self.mask is None else self.mask[sentences],
            self.scale[sentences],
        )


@dataclass(frozen=True)
class LayerAttention:
    """Attention of one layer: its states with the context added, and weights if requested."""

    states: Float[Tensor, "batch target channel"]
    weights: Float[Tensor, "batch target source"] | None
    scores: Float[Tensor, "batch target source"] | None


class ConvolutionalAttention(nn.Module):
    """Attention of one decoder layer to the source, with its residual connection."""

    varies_in_batches = True

    def __init__(
        self, attention: Attention, channels: int, embedding_size: int, value_size: int
    ) -> None:
        super().__init__()
        self.attention = attention
        self.query = plain_linear(channels, embedding_size)
        self.context = plain_linear(value_size, channels)

    def forward(
        self,
        states: Float[Tensor, "batch target channel"],
        embedded: Float[Tensor, "batch target size"],
        source: PreparedSource,
        layer: int,
        *,
        need_weights: bool,
    ) -> LayerAttention:
        """Attend with the outputs of the GLU and the embeddings of the target."""
        # Gehring et al. 2017, eq. 1: d_i^l = W_d^l h_i^l + b_d^l + g_i
        queries = (self.query(states) + embedded) * SQRT_HALF
        # Gehring et al. 2017, section 3.3: a_ij^l = exp(d_i^l . z_j) / sum_t exp(d_i^l . z_t)
        output = self.attention(
            queries,
            source.prepared[layer],
            source.values,
            source.mask,
            need_weights=need_weights,
        )
        # Gehring et al. 2017, eq. 2: c_i^l = sum_j a_ij^l (z_j + e_j), here times sqrt(m)
        states = (self.context(output.context * source.scale) + states) * SQRT_HALF
        return LayerAttention(states, output.weights, output.scores)


@dataclass(frozen=True)
class ConvolutionalState:
    """Inputs in the window of every layer, one entry a hypothesis, and the number of steps."""

    source: PreparedSource
    windows: tuple[Window, ...]
    position: int = 0

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> ConvolutionalState:
        windows = tuple(window.select(hypotheses) for window in self.windows)
        return replace(self, windows=windows)

    def keep(self, sentences: Int[Tensor, "kept"]) -> ConvolutionalState:
        return ConvolutionalState(
            self.source.keep(sentences),
            tuple(window.keep(sentences) for window in self.windows),
            self.position,
        )


class GatedConvolutionDecoder(nn.Module):
    """Stack of gated convolutions with causal windows and attention in every layer, and the
    projection to logits."""

    num_memories = 1

    def __init__(
        self,
        embedder: Embedder,
        layers: Sequence[tuple[GatedConvolution, ConvolutionalAttention]],
        maps: tuple[NormalisedLinear, NormalisedLinear],
        dropout: float,
        kind: AttentionKind = "cross",
    ) -> None:
        """`maps` are the linear layers from embeddings to channels and from channels to features.
        `kind` is the name of the attention: `image` for the cells of an image. TypeError if the
        embedder has no token embedding."""
        super().__init__()
        self.kind = kind
        self.embedder = embedder
        convolutions, attentions = zip(*layers, strict=True)
        self.layers = cast(Sequence[GatedConvolution], nn.ModuleList(convolutions))
        self.attentions = cast(Sequence[ConvolutionalAttention], nn.ModuleList(attentions))
        self.first, self.last = maps
        self.dropout = Dropout(dropout)
        embedding = embedder.embedding
        if not isinstance(embedding, nn.Embedding):
            raise TypeError(
                f"embedder: expected a decoder's token embedding, got {type(embedding).__name__}"
            )
        size = len(self.last.bias)
        self.projection = Linear(size, embedding.num_embeddings)
        nn.init.normal_(self.projection.weight, std=math.sqrt((1 - dropout) / size))
        nn.init.zeros_(self.projection.bias)

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Compute all steps. The window of a position ends at it."""
        source = self._prepare(memories)
        embedded = self.embedder(inputs, range(inputs.size(1)))
        states = self.first(embedded)
        outputs = []
        for number, layer in enumerate(self.layers):
            windows = causal(layer.dropout(states), layer.width)
            output = self.attentions[number](
                layer(windows), embedded, source, number, need_weights=need_weights
            )
            states = layer.add(output.states, states)
            outputs.append(output)
        return self._output(states, outputs)

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        # Gehring et al. 2017, section 3.2: p(y_{i+1} | y_1, .., y_i, x) = softmax(W_o h_i^L + b_o)
        return self.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> ConvolutionalState:
        source = self._prepare(memories)
        like = self.embedder.embedding.weight.new_empty(len(source.values), 0)
        windows = [Window.empty(like, layer.from_channels, layer.width) for layer in self.layers]
        return ConvolutionalState(source, tuple(windows))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: ConvolutionalState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, ConvolutionalState]:
        embedded = self.embedder(tokens, range(state.position, state.position + 1))
        states = self.first(embedded)
        outputs, windows = [], []
        for number, layer in enumerate(self.layers):
            inputs, window = state.windows[number].append(layer.dropout(states))
            output = self.attentions[number](
                layer(inputs), embedded, state.source, number, need_weights=need_weights
            )
            states = layer.add(output.states, states)
            outputs.append(output)
            windows.append(window)
        after = ConvolutionalState(state.source, tuple(windows), state.position + 1)
        return self._output(states, outputs), after

    def _prepare(self, memories: tuple[Memory, ...]) -> PreparedSource:
        memory = single_memory(memories)
        mask = none_if_full(memory.mask)
        lengths = memory.mask.sum(dim=1)[:, None, None]
        return PreparedSource(
            tuple(layer.attention.prepare(memory.keys) for layer in self.attentions),
            memory.values,
            None if mask is None else padding(mask),
            lengths.to(memory.values.dtype).sqrt(),
        )

    def _output(
        self, states: Float[Tensor, "batch target channel"], layers: Sequence[LayerAttention]
    ) -> DecoderOutput:
        features = self.dropout(self.last(states))
        weights = [layer.weights for layer in layers if layer.weights is not None]
        scores = [layer.scores for layer in layers if layer.scores is not None]
        if not weights:
            return DecoderOutput(features)
        block = AttentionBlock(
            self.kind,
            torch.stack(weights, dim=1)[:, :, None],
            torch.stack(scores, dim=1)[:, :, None],
        )
        return DecoderOutput(features, (block,))
