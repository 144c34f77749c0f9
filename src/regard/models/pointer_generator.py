"""Pointer-generator output: a decoder that generates words or copies them from the source.

See, Liu and Manning 2017, section 2.2, for target position t and source pieces x_1 .. x_n:

    a_t     = the decoder's attention weights on the source                          eq. 1-2
    c_t     = sum over i of a_ti v_i                                                 eq. 3
    P_vocab = softmax(W f_t + b)                                                     eq. 4
    g_t     = sigmoid(w [c_t; f_t] + b)                                              eq. 8
    P(w)    = g_t P_vocab(w) + (1 - g_t) sum over i with number(x_i) = w of a_ti     eq. 9

f_t are the features from which the decoder computes logits. They take the place of the state and
the input in eq. 4 and 8: in every decoder they are a function of both. a_t is the mean over the
heads of the last layer, divided by its sum where weights do not sum to 1 (local attention). Without
any weight g_t is 1.

number(x_i) is the number of the piece in the target vocabulary. A piece that this vocabulary lacks
has the number |V| + the first position of the piece in its sentence. The extended vocabulary of a
batch has |V| + n words for sources of n positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F

from regard.data.special_tokens import UNKNOWN
from regard.models.contracts import (
    AttentionBlock,
    Copying,
    DecoderOutput,
    Memory,
    State,
    TrainedDecoder,
)
from regard.numerics.linear import Linear
from regard.numerics.precision import at_least_float32, precise_type
from regard.shapes import Float, Int, Tensor


@dataclass(frozen=True)
class CopiedSource:
    """Values and numbers of the source pieces of each sentence."""

    values: Float[Tensor, "batch source value"]
    numbers: Int[Tensor, "batch source"]
    first: Int[Tensor, "batch source"]
    """First position with the number of this position."""

    @classmethod
    def of(cls, memories: tuple[Memory, ...]) -> CopiedSource:
        """Return the values and numbers of the first memory. ValueError if it has no numbers."""
        values, numbers = memories[0].values, memories[0].copies
        if numbers is None:
            raise ValueError(
                "memories: expected the numbers of source pieces in the target vocabulary "
                "(Tokens.copies), which a pointer-generator copies, got none"
            )
        is_equal = numbers[:, :, None] == numbers[:, None]
        return cls(values, numbers, is_equal.byte().argmax(dim=2))

    def keep(self, sentences: Int[Tensor, "kept"]) -> CopiedSource:
        return CopiedSource(self.values[sentences], self.numbers[sentences], self.first[sentences])


@dataclass(frozen=True)
class PointerState:
    """State of the decoder, and the source that it copies from."""

    decoder: State
    source: CopiedSource

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> PointerState:
        return replace(self, decoder=self.decoder.select(hypotheses))

    def keep(self, sentences: Int[Tensor, "kept"]) -> PointerState:
        return PointerState(self.decoder.keep(sentences), self.source.keep(sentences))


class PointerGenerator(nn.Module):
    """Decoder with a pointer-generator output. Its features are log P(w) of the extended
    vocabulary, at least in float32, and `project` returns them unchanged."""

    def __init__(self, inner: TrainedDecoder, value_size: int) -> None:
        """`inner` attends to the source. `value_size` is the size of its attention values."""
        super().__init__()
        self.inner = inner
        self.gate = Linear(value_size + inner.projection.in_features, 1)

    @property
    def projection(self) -> nn.Linear:
        """The last layer of the generator, from the decoder's features to logits."""
        return self.inner.projection

    @property
    def num_memories(self) -> int:
        return self.inner.num_memories

    def compute_parts(
        self, inputs: Int[Tensor, "batch target"], memories: tuple[Memory, ...]
    ) -> tuple[DecoderOutput, Copying]:
        """Compute the generator's features with attention, and the copied part, for a loss that
        computes P at the targets alone."""
        source = CopiedSource.of(memories)
        output = self.inner(self._in_vocabulary(inputs), memories, need_weights=True)
        return output, self._copying(output, source)

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        source = CopiedSource.of(memories)
        output = self.inner(self._in_vocabulary(inputs), memories, need_weights=True)
        return self._output(output, source, need_weights=need_weights)

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return features

    def start(self, memories: tuple[Memory, ...]) -> PointerState:
        return PointerState(self.inner.start(memories), CopiedSource.of(memories))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: PointerState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, PointerState]:
        output, inner = self.inner.step(
            self._in_vocabulary(tokens), state.decoder, need_weights=True
        )
        result = self._output(output, state.source, need_weights=need_weights)
        return result, replace(state, decoder=inner)

    def _in_vocabulary(self, tokens: Int[Tensor, "batch target"]) -> Int[Tensor, "batch target"]:
        """Replace copied words that the vocabulary lacks by <unk>, for the embedding."""
        return torch.where(tokens < self.projection.out_features, tokens, UNKNOWN)

    def _copying(self, output: DecoderOutput, source: CopiedSource) -> Copying:
        """Return the gate and the copied distribution (eq. 1-3 and 8)."""
        weights = _source_weights(output.attention)
        # See, Liu and Manning 2017, eq. 3: h*_t = sum_i a_ti h_i
        context = weights.to(source.values.dtype) @ source.values
        # See, Liu and Manning 2017, eq. 8:
        #     p_gen = sigmoid(w_h . h*_t + w_s . s_t + w_x . x_t + b_ptr)
        gate = self.gate(torch.cat([context, output.features], dim=-1))[..., 0]
        weights = at_least_float32(weights)
        totals = weights.sum(dim=-1, keepdim=True)
        weights = weights / torch.where(totals > 0, totals, 1)
        numbers = source.numbers[:, None].expand(weights.shape)
        return Copying(at_least_float32(gate), weights, numbers)

    def _output(
        self, output: DecoderOutput, source: CopiedSource, *, need_weights: bool
    ) -> DecoderOutput:
        copying = self._copying(output, source)
        logits = self.inner.project(output.features)
        # See, Liu and Manning 2017, eq. 4: P_vocab = softmax(V' (V [s_t; h*_t] + b) + b')
        log_vocabulary = torch.log_softmax(logits, dim=-1, dtype=precise_type(logits.dtype))
        attention = output.attention if need_weights else ()
        return DecoderOutput(
            log_mixture(log_vocabulary, copying, source.first),
            attention,
            output.penalties,
            output.measures,
            copying.probability,
        )


def log_mixture(
    log_vocabulary: Float[Tensor, "batch target vocabulary"],
    copying: Copying,
    first: Int[Tensor, "batch source"],
) -> Float[Tensor, "batch target extended"]:
    """Return log P of the extended vocabulary (eq. 9).

    Only words of the source have a copied part, so the logarithms of the others are exact sums.
    Equal pieces share one number: each of them computes P of this number, and the gradient passes
    through the first."""
    num_positions = first.size(1)
    first = first[:, None].expand(copying.weights.shape)
    totals = torch.zeros_like(copying.weights).scatter_add(-1, first, copying.weights)
    totals = totals.gather(-1, first)
    log_generated = log_vocabulary + copying.log_generate[..., None]
    extended = F.pad(log_generated, (0, num_positions), value=-torch.inf)
    generated = extended.gather(-1, copying.numbers)
    is_copied = totals > 0
    copied = torch.where(is_copied, totals, 1).log() + copying.log_copy[..., None]
    # See, Liu and Manning 2017, eq. 9:
    #     P(w) = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_ti
    mixed = torch.where(is_copied, torch.logaddexp(generated, copied), generated)
    is_first = first == torch.arange(num_positions, device=first.device)
    return extended.scatter(-1, copying.numbers, torch.where(is_first, mixed, mixed.detach()))


def _source_weights(
    attention: tuple[AttentionBlock, ...],
) -> Float[Tensor, "batch target source"]:
    """Return the attention weights on the source: the mean over the heads of the last layer."""
    block = next((block for block in attention if block.kind == "cross"), None)
    if block is None:
        raise ValueError("attention: expected attention to the source, which is copied, got none")
    # See, Liu and Manning 2017, eq. 1-2: a_t = softmax(e_t), by the attention of the decoder
    return block.weights[:, -1].mean(dim=1)
