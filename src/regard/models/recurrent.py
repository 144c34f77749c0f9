"""Recurrent encoders and decoders with and without attention.

    encoder    h_1 .. h_n = RNN(E x_1 .. E x_n)                        the memory: keys and values

    Bahdanau   c_t = attend(s_{t-1}, h)      s_t = RNN(s_{t-1}, [E y_{t-1}; c_t])
    Luong      s_t = RNN(s_{t-1}, [E y_{t-1}; fed_{t-1}])      c_t = attend(s_t, h)
    plain      s_t = RNN(s_{t-1}, E y_{t-1})                   no context

    features_t = output(s_t, c_t, E y_{t-1})      logits_t = W features_t

The score is whatever `attention` holds: who asks (the wiring) and how a question is scored are
different choices. Bahdanau, Cho and Bengio 2015; Luong, Pham and Manning 2015.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.attention import AdditiveKeys, Attended, Attention, Prepared
from regard.attention.masks import padding
from regard.data.batch import Tokens
from regard.layers.dropout import Dropout
from regard.layers.recurrent import RecurrentStack, step_weights
from regard.models.attending_loop import Loop, run
from regard.models.bridge import Bridge
from regard.models.contracts import AttentionBlock, DecoderOutput, Encoded, Memory, Summary
from regard.models.feeding import ContextFeeding, Feeding
from regard.models.memory import only, summary
from regard.models.output import Output
from regard.products import Linear, affine
from regard.shapes import Bool, Float, Int, Tensor


class RecurrentEncoder(nn.Module):
    """Reads tokens in one or both directions. Its summary is the last state of every layer."""

    def __init__(
        self, embedding: nn.Embedding, stack: RecurrentStack, *, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.stack = stack

    def forward(self, source: Tokens, *, need_weights: bool = False) -> Encoded:
        """A recurrent encoder attends to nothing, so weights that are asked for are none."""
        del need_weights
        embedded = self.dropout(self.embedding(source.ids))
        read = self.stack.read(embedded, source.mask)
        return Encoded((embedded, *read.layers), source.mask, Summary(read.hidden, read.cell))


@dataclass(frozen=True)
class PreparedMemory:
    """What a recurrent decoder looks at, its keys projected once: one a sentence."""

    prepared: Prepared
    values: Float[Tensor, "batch source value"]
    mask: Bool[Tensor, "batch 1 source"]

    def keep(self, sentences: Int[Tensor, "kept"]) -> PreparedMemory:
        return PreparedMemory(
            self.prepared[sentences], self.values[sentences], self.mask[sentences]
        )


@dataclass(frozen=True)
class RecurrentState:
    """The recurrent states of every hypothesis and what was fed back into its next step.

    `memory` is None for a decoder without attention, `cell` for cells that have none, and
    `attention` is what a score remembers between steps."""

    hidden: Float[Tensor, "batch hypothesis layer hidden"]
    cell: Float[Tensor, "batch hypothesis layer hidden"] | None
    fed: Float[Tensor, "batch hypothesis fed"]
    memory: PreparedMemory | None
    attention: Any = None

    def select(self, hypotheses: Int[Tensor, "batch hypothesis"]) -> RecurrentState:
        batch, width = self.hidden.shape[:2]
        sentences = torch.arange(batch, device=hypotheses.device)[:, None]
        rows = torch.add(hypotheses, sentences, alpha=width).flatten()

        def chosen(values: Tensor) -> Tensor:
            found = values.flatten(0, 1).index_select(0, rows)
            return found.view(*hypotheses.shape, *values.shape[2:])

        return RecurrentState(
            chosen(self.hidden),
            None if self.cell is None else chosen(self.cell),
            chosen(self.fed),
            self.memory,
            None if self.attention is None else self.attention[sentences, hypotheses],
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> RecurrentState:
        return RecurrentState(
            self.hidden[sentences],
            None if self.cell is None else self.cell[sentences],
            self.fed[sentences],
            None if self.memory is None else self.memory.keep(sentences),
            None if self.attention is None else self.attention[sentences],
        )


class DecoderParts(nn.Module):
    """What every recurrent decoder is made of; who asks when, and what is fed, is its own."""

    def __init__(
        self,
        embedding: nn.Embedding,
        stack: RecurrentStack,
        bridge: Bridge,
        output: Output,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack
        self.bridge = bridge
        self.output = output
        self.dropout = Dropout(dropout)
        self.projection = Linear(output.feature_size, embedding.num_embeddings)

    def embed(self, tokens: Int[Tensor, "batch target"]) -> Float[Tensor, "batch target embedding"]:
        """With dropout, while training. In a step the target axis counts hypotheses."""
        return self.dropout(self.embedding(tokens))

    def start(
        self, memory: Memory, prepared: PreparedMemory | None, fed: int = 0
    ) -> RecurrentState:
        """The bridged summary as the state of one hypothesis a sentence, whose `fed` numbers are
        zero. ValueError where the memory has no summary."""
        first = self.bridge(summary(memory))
        hidden = first.hidden[:, None]
        cell = first.cell[:, None] if self.stack.kind == "lstm" else None
        return RecurrentState(hidden, cell, hidden.new_zeros(hidden.size(0), 1, fed), prepared)

    def advance(
        self, inputs: Float[Tensor, "batch hypothesis input"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch hypothesis hidden"], RecurrentState]:
        """One step of the recurrent layers for every hypothesis: the highest layer's new state, and
        the state with that of all layers and all else as it came."""
        axes = inputs.shape[:2]
        cell = None if state.cell is None else state.cell.flatten(0, 1)
        read = self.stack.step(inputs.flatten(0, 1), state.hidden.flatten(0, 1), cell)
        hidden = read.hidden.unflatten(0, axes)
        cell = None if read.cell is None else read.cell.unflatten(0, axes)
        return hidden[:, :, -1], replace(state, hidden=hidden, cell=cell)

    def read(
        self, inputs: Float[Tensor, "batch target input"], state: RecurrentState
    ) -> Float[Tensor, "batch target hidden"]:
        """All steps of the recurrent layers in one call, from a state of one hypothesis a sentence
        (`start`'s): the highest layer's states."""
        cell = None if state.cell is None else state.cell[:, 0]
        return self.stack(inputs, state.hidden[:, 0], cell).layers[-1]

    def features(
        self,
        hidden: Float[Tensor, "batch target hidden"],
        context: Float[Tensor, "batch target value"],
        embedded: Float[Tensor, "batch target embedding"],
    ) -> Float[Tensor, "batch target feature"]:
        """What `projection` makes logits of. A decoder that looks at nothing gives a context of no
        numbers."""
        return self.dropout(self.output(hidden, context, embedded))


class BahdanauDecoder(nn.Module):
    """The previous state asks; the context and the embedded input enter the cell together."""

    def __init__(self, parts: DecoderParts, attention: Attention) -> None:
        super().__init__()
        self.parts = parts
        self.attention = attention

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if not need_weights and runs_at_once(self):
            return _read_at_once(self, inputs, state)
        return read_stepwise(self, inputs, state, need_weights)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        memory = only(memories)
        return self.parts.start(memory, _prepare(self.attention, memory))

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        attended = _attend(self.attention, state.hidden[:, :, -1], state, need_weights)
        hidden, state = self.parts.advance(torch.cat([embedded, attended.context], dim=-1), state)
        features = self.parts.features(hidden, attended.context, embedded)
        return _output(features, attended), replace(state, attention=attended.state)


class LuongDecoder(nn.Module):
    """The new state asks; state and context together make the output.

    Without feeding no state depends on a context, so a whole target is read by one run of the
    recurrent layers and one attention of all its positions at once."""

    def __init__(self, parts: DecoderParts, attention: Attention, feeding: Feeding) -> None:
        super().__init__()
        self.parts = parts
        self.attention = attention
        self.feeding = feeding

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        state = self.start(memories)
        if not need_weights and runs_at_once(self):
            return _read_at_once(self, inputs, state)
        if self.feeding.size:
            return read_stepwise(self, inputs, state, need_weights)
        embedded = self.parts.embed(inputs)
        hidden = self.parts.read(embedded, state)
        attended = _attend(self.attention, hidden, state, need_weights)
        return _output(self.parts.features(hidden, attended.context, embedded), attended)

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        memory = only(memories)
        return self.parts.start(memory, _prepare(self.attention, memory), self.feeding.size)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        embedded = self.parts.embed(tokens)
        hidden, state = self.parts.advance(torch.cat([embedded, state.fed], dim=-1), state)
        attended = _attend(self.attention, hidden, state, need_weights)
        features = self.parts.features(hidden, attended.context, embedded)
        fed = self.feeding(attended.context, features)
        return _output(features, attended), replace(state, fed=fed, attention=attended.state)


class PlainDecoder(nn.Module):
    """No attention: all it ever knows of the source is the summary it starts from (Sutskever,
    Vinyals and Le 2014). The baseline that shows what attention is worth."""

    def __init__(self, parts: DecoderParts) -> None:
        super().__init__()
        self.parts = parts

    def forward(
        self,
        inputs: Int[Tensor, "batch target"],
        memories: tuple[Memory, ...],
        *,
        need_weights: bool = False,
    ) -> DecoderOutput:
        del need_weights
        embedded = self.parts.embed(inputs)
        hidden = self.parts.read(embedded, self.start(memories))
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded))

    @property
    def projection(self) -> nn.Linear:
        return self.parts.projection

    def project(
        self, features: Float[Tensor, "*batch feature"]
    ) -> Float[Tensor, "*batch vocabulary"]:
        return self.parts.projection(features)

    def start(self, memories: tuple[Memory, ...]) -> RecurrentState:
        return self.parts.start(only(memories), None)

    def step(
        self,
        tokens: Int[Tensor, "batch hypothesis"],
        state: RecurrentState,
        *,
        need_weights: bool = False,
    ) -> tuple[DecoderOutput, RecurrentState]:
        del need_weights
        embedded = self.parts.embed(tokens)
        hidden, state = self.parts.advance(embedded, state)
        return DecoderOutput(self.parts.features(hidden, hidden[..., :0], embedded)), state


RecurrentDecoder = BahdanauDecoder | LuongDecoder | PlainDecoder


def _prepare(attention: Attention, memory: Memory) -> PreparedMemory:
    return PreparedMemory(attention.prepare(memory.keys), memory.values, padding(memory.mask))


def _attend(
    attention: Attention,
    queries: Float[Tensor, "batch target query"],
    state: RecurrentState,
    need_weights: bool,
) -> Attended:
    """Ask the memory. Target positions and hypotheses are one axis to it: the questions."""
    memory = state.memory
    if memory is None:
        raise ValueError("this state was started by a decoder without attention")
    return attention(
        queries,
        memory.prepared,
        memory.values,
        memory.mask,
        state.attention,
        need_weights=need_weights,
    )


def runs_at_once(decoder: BahdanauDecoder | LuongDecoder) -> bool:
    """Whether the loop over all steps can be one operator: attention is additive, and nothing but
    its context and the state enters the next step."""
    if isinstance(decoder, LuongDecoder) and not isinstance(decoder.feeding, ContextFeeding):
        return False
    if any(weight.is_mkldnn for weight in decoder.parts.stack.parameters()):
        return False  # what is packed cannot be taken apart
    return decoder.attention.additive is not None


def _read_at_once(
    decoder: BahdanauDecoder | LuongDecoder,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
) -> DecoderOutput:
    """What `read_stepwise` computes, by one operator. At least in float32."""
    memory, additive = state.memory, decoder.attention.additive
    if memory is None or additive is None or not isinstance(memory.prepared, AdditiveKeys):
        raise ValueError("only a loop of additive attention can be one operator")
    score, scale = additive
    stack, embedded = decoder.parts.stack, decoder.parts.embed(inputs)
    weights = [weight for layer in stack.layers for weight in step_weights(layer)]
    known, context = weights[0].tensor_split([embedded.size(-1)], dim=1)
    batch, target, size = *inputs.shape, state.hidden.size(-1)
    numbers, num_keys = state.hidden, memory.values.size(1)
    loop = Loop(
        of_input=affine(embedded, known, weights[1]),
        hidden=state.hidden[:, 0],
        cell=None if state.cell is None else state.cell[:, 0],
        keys=memory.prepared.projected,
        values=memory.values,
        vector=score.vector,
        query=score.query_weight,
        context=context,
        weights=weights[2:],
        mask=memory.mask,
        drop=_drops(decoder.attention.dropout, numbers, batch, target, num_keys),
        between=_drops(stack.dropout, numbers, target, stack.num_layers - 1, batch, size),
        scale=scale,
        kind=stack.kind,
        asks_first=isinstance(decoder, BahdanauDecoder),
    )
    found = run(loop.to(torch.promote_types(memory.values.dtype, torch.float32)))
    return DecoderOutput(decoder.parts.features(found.top, found.contexts, embedded))


def _drops(dropout: nn.Dropout, like: Tensor, *shape: int) -> Tensor | None:
    """What multiplies as many numbers as dropout would see, or None where it does nothing."""
    if not dropout.training or dropout.p == 0 or 0 in shape:
        return None
    return dropout(like.new_ones(shape))


def read_stepwise(
    decoder: BahdanauDecoder | LuongDecoder,
    inputs: Int[Tensor, "batch target"],
    state: RecurrentState,
    need_weights: bool,
) -> DecoderOutput:
    """All steps one after the other, for wirings in which a context enters the next state."""
    steps = []
    for tokens in inputs.split(1, dim=1):
        output, state = decoder.step(tokens, state, need_weights=need_weights)
        steps.append(output)
    return DecoderOutput(torch.cat([step.features for step in steps], dim=1), _join(steps))


def _join(steps: list[DecoderOutput]) -> tuple[AttentionBlock, ...]:
    """The attention of single steps as one block along the target axis."""
    if not steps[0].attention:
        return ()
    blocks = [step.attention[0] for step in steps]
    weights = torch.cat([block.weights for block in blocks], dim=3)
    scores = [block.scores for block in blocks if block.scores is not None]
    return (AttentionBlock("cross", weights, torch.cat(scores, dim=3) if scores else None),)


def _output(features: Float[Tensor, "batch target feature"], attended: Attended) -> DecoderOutput:
    """Recurrent decoders have one layer and one head of attention."""
    if attended.weights is None or attended.scores is None:
        return DecoderOutput(features)
    block = AttentionBlock("cross", attended.weights[:, None, None], attended.scores[:, None, None])
    return DecoderOutput(features, (block,))
