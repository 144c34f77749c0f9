"""A small decoder whose probabilities depend on all tokens so far and on the source."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from regard.models.contracts import AttentionBlock, DecoderOutput, Memory, Summary

SIZE, LAYERS, HEADS = 3, 2, 5
PAD, START, END = 0, 1, 2


@dataclass(frozen=True)
class FakeState:
    """State of the decoder; `past` are the input tokens, newest last."""

    hidden: torch.Tensor
    past: torch.Tensor
    keys: torch.Tensor
    mask: torch.Tensor

    def select(self, hypotheses):
        sentences = torch.arange(hypotheses.size(0))[:, None]
        return replace(
            self, hidden=self.hidden[sentences, hypotheses], past=self.past[sentences, hypotheses]
        )

    def keep(self, sentences):
        return FakeState(
            self.hidden[sentences],
            self.past[sentences],
            self.keys[sentences],
            self.mask[sentences],
        )


class FakeDecoder:
    """Small recurrent decoder in float64. All layers and heads of its cross-attention differ; its
    self-attention weighs each token by its number."""

    def __init__(self, vocabulary, seed=0, sharpness=2.0):
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.embedding = normal(vocabulary, SIZE)
        self.recurrent, self.reader = normal(SIZE, SIZE), normal(SIZE, SIZE)
        self.questions = normal(LAYERS, HEADS, SIZE, SIZE)
        self.output = sharpness * normal(2 * SIZE, vocabulary)
        self.steps: list[tuple[int, int]] = []

    def start(self, memories):
        hidden = memories[0].summary.hidden[:, :1]
        past = torch.zeros(*hidden.shape[:2], 0, dtype=torch.long)
        return FakeState(hidden, past, memories[0].keys, memories[0].mask)

    def step(self, tokens, state, *, need_weights=False):
        self.steps.append(tuple(tokens.shape))
        hidden = torch.tanh(state.hidden @ self.recurrent + self.embedding[tokens])
        past = torch.cat([state.past, tokens[:, :, None]], dim=2)
        questions = torch.einsum("bts,lhsk->blhtk", hidden, self.questions)
        scores = questions @ state.keys[:, None, None].mT
        seen = scores.masked_fill(~state.mask[:, None, None, None], -torch.inf)
        weights = torch.softmax(seen, dim=-1)
        context = weights[:, 0, 0] @ state.keys
        hidden = torch.tanh(hidden + context @ self.reader)
        own = (past + 1) / (past + 1).sum(dim=2, keepdim=True)
        blocks = (
            AttentionBlock("cross", weights, scores),
            AttentionBlock("decoder", own.double()[:, None, None]),
        )
        output = DecoderOutput(torch.cat([hidden, context], dim=-1), blocks if need_weights else ())
        return output, replace(state, hidden=hidden, past=past)

    def project(self, features):
        return features @ self.output

    def __call__(self, inputs, memories, *, need_weights=False):
        state, outputs = self.start(memories), []
        for tokens in inputs.split(1, dim=1):
            output, state = self.step(tokens, state, need_weights=need_weights)
            outputs.append(output)
        features = torch.cat([output.features for output in outputs], dim=1)
        if not need_weights:
            return DecoderOutput(features)
        cross = [output.attention[0] for output in outputs]
        own = [output.attention[1].weights for output in outputs]
        wide = [torch.nn.functional.pad(w, (0, inputs.size(1) - w.size(-1))) for w in own]
        return DecoderOutput(
            features,
            (
                AttentionBlock(
                    "cross",
                    torch.cat([block.weights for block in cross], dim=3),
                    torch.cat([block.scores for block in cross], dim=3),
                ),
                AttentionBlock("decoder", torch.cat(wide, dim=3)),
            ),
        )


class TableDecoder:
    """Decoder with the same logits at every step, for ties and results known in advance."""

    def __init__(self, logits):
        self.logits = torch.as_tensor(logits, dtype=torch.float)

    def start(self, memories):
        return NoState(memories[0].keys.size(0))

    def step(self, tokens, state, *, need_weights=False):
        return DecoderOutput(torch.zeros(*tokens.shape, 1)), state

    def project(self, features):
        return self.logits.expand(*features.shape[:-1], -1).clone()

    def __call__(self, inputs, memories, *, need_weights=False):
        return DecoderOutput(torch.zeros(*inputs.shape, 1))


class ScriptDecoder(TableDecoder):
    """Decoder with given probabilities "step vocabulary", whatever its inputs are."""

    def __init__(self, probabilities):
        super().__init__(probabilities.log())
        self.num_steps = 0

    def project(self, features):
        self.num_steps += 1
        return self.logits[self.num_steps - 1].expand(*features.shape[:-1], -1).clone()


@dataclass(frozen=True)
class NoState:
    batch: int

    def select(self, hypotheses):
        return self

    def keep(self, sentences):
        return NoState(sentences.size(0))


def memories(lengths, seed=0):
    """Return one memory with random keys, for sentences of these lengths."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths, default=1), SIZE)
    keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    hidden = torch.randn(len(lengths), 2, SIZE, generator=generator, dtype=torch.float64)
    mask = torch.arange(shape[1]) < torch.tensor(lengths, dtype=torch.long)[:, None]
    return (Memory(keys, keys, mask, Summary(hidden)),)


def pick(arguments, rows):
    """Return these sentences of a memory, in this order."""
    memory = arguments[0]
    return (
        Memory(
            memory.keys[rows],
            memory.values[rows],
            memory.mask[rows],
            Summary(memory.summary.hidden[rows]),
        ),
    )
