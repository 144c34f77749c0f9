"""From sources and targets to what each token looked at.

What a search found brings the attention that it was written with. A target that was given is read
once, with the attention asked for. Whatever else is in a trace (how sure the model was of every
token and what else it thought of, pieces, words, the beam) is made when somebody asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import repeat
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from regard import trace
from regard.data.batch import Tokens, pad, with_targets
from regard.data.text.tokenizer import Tokenizer
from regard.models.contracts import AttentionBlock
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.search import Forced, HypothesisAttention, Lattice, forced
from regard.shapes import Tensor
from regard.trace import AttentionMap, BeamLattice, Step, Trace

TOP = 5
"""Alternatives kept for every token."""


@runtime_checkable
class SourceReader(Protocol):
    """How sources become what an encoder reads, and what of them a trace shows."""

    def sequence(self, text: str, content: Any) -> trace.TokenSequence:
        """What a model sees of a source; of a picture its name alone."""

    def pad(self, contents: Sequence[Any]) -> Any:
        """Several of them as one batch, with `to`."""


@dataclass(frozen=True)
class TextSources:
    """Texts as token numbers."""

    tokenizer: Tokenizer
    language: str

    def sequence(self, text: str, content: list[int]) -> trace.TokenSequence:
        return _sequence(self.tokenizer, text, content, self.language)

    def pad(self, contents: Sequence[list[int]]) -> Tokens:
        return pad(contents)


@dataclass(frozen=True)
class Written:
    """A source as text and as what its encoder reads, and a target with what it looked at, what it
    was ranked by, and the beam that it came from. The attention may be as wide as its batch's
    padding."""

    text: str
    source: Any
    target: list[int]
    attention: tuple[HypothesisAttention, ...] = ()
    score: float = math.nan
    lattice: Callable[[], Lattice] | None = None


class Looked:
    """What one output looked at, and its whole trace: each is made when it is asked for.

    Copied or pickled it is these alone, without the model."""

    def __init__(
        self, tracer: Tracer, written: Written, read: Callable[[], Forced], row: int
    ) -> None:
        self._tracer = tracer
        self._written = written
        self._read = read
        self._row = row
        self.score = written.score

    def __getstate__(self) -> dict[str, Any]:
        kept = ("maps", "source", "target", "trace", "score")
        return {name: getattr(self, name) for name in kept}

    @cached_property
    def maps(self) -> tuple[AttentionMap, ...]:
        """Of every kind, with all layers and heads, each as large as its sequences."""
        sizes = len(self._written.target), len(self._written.source)
        return tuple(as_map(each, *sizes) for each in self._written.attention)

    @cached_property
    def source(self) -> trace.TokenSequence:
        return self._tracer.source(self._written)

    @cached_property
    def target(self) -> trace.TokenSequence:
        return self._tracer.target(self._written)

    @cached_property
    def trace(self) -> Trace:
        """All there is to know: for how sure the model was of each token it reads what was written,
        together with what was written beside it, if it has not done so yet."""
        lattice = self._written.lattice
        return Trace(
            source=self.source,
            target=self.target,
            attention=self.maps,
            steps=self._tracer.steps(self._written, self._read(), self._row),
            score=self.score,
            lattice=None if lattice is None else self._tracer.lattice(lattice()),
        )


class Tracer:
    """Writes down what each token looked at, and how sure the model was of it."""

    def __init__(
        self,
        sources: SourceReader,
        tokenizer: Tokenizer,
        language: str,
        model: Seq2Seq | Ensemble,
    ) -> None:
        """The tokenizer and the language are the targets'."""
        self._sources = sources
        self._tokenizer = tokenizer
        self._language = language
        self._model = model

    def found(self, written: Sequence[Written]) -> list[Looked]:
        """Of targets that a search found, with the attention and the scores that they have."""
        read = cache(partial(self._read, written, attention=False))
        return [Looked(self, each, read, row) for row, each in enumerate(written)]

    def read(self, written: Sequence[Written], *, attention: bool = True) -> list[Looked]:
        """Of given targets, read now, all in one batch: their attention is that of this reading,
        and their scores are their log probabilities. `attention` False leaves the maps out."""
        read = self._read(written, attention=attention)
        seen, scores = by_sentence(read.attention, len(written)), read.scores.tolist()
        known = [
            replace(each, attention=maps, score=score)
            for each, maps, score in zip(written, seen, scores, strict=True)
        ]
        return [Looked(self, each, lambda: read, row) for row, each in enumerate(known)]

    @torch.inference_mode()
    def _read(self, written: Sequence[Written], *, attention: bool) -> Forced:
        """What the model thinks of them; and what its encoder looked at, before its decoder."""
        source = self._sources.pad([each.source for each in written])
        batch = with_targets(source, [each.target for each in written])
        batch = batch.to(next(self._model.parameters()).device)
        memories, attended = self._model.read(batch.source, need_weights=attention)
        read = forced(
            self._model.decoder,
            memories,
            batch.inputs,
            batch.outputs,
            batch.mask,
            num_top=TOP,
            need_weights=attention,
        )
        return replace(read, attention=attended + read.attention)

    def source(self, written: Written) -> trace.TokenSequence:
        return self._sources.sequence(written.text, written.source)

    def target(self, written: Written) -> trace.TokenSequence:
        text = self._tokenizer.decode(written.target)
        return _sequence(self._tokenizer, text, written.target, self._language)

    def steps(self, written: Written, read: Forced, row: int) -> tuple[Step, ...]:
        """Of what stands in this row of a reading."""
        return tuple(_steps(read, row, self._tokenizer, written.target))

    def lattice(self, lattice: Lattice) -> BeamLattice:
        return _lattice(lattice, self._tokenizer)


def by_sentence(
    blocks: Sequence[AttentionBlock], count: int
) -> list[tuple[HypothesisAttention, ...]]:
    """The blocks of so many sentences, each one's apart, off the device."""
    apart = []
    for block in blocks:
        scores = repeat(None, count) if block.scores is None else _rows(block.scores)
        each = zip(_rows(block.weights), scores, strict=True)
        apart.append([HypothesisAttention(block.kind, *parts) for parts in each])
    return list(zip(*apart, strict=True)) if apart else [()] * count


def _rows(block: Tensor) -> tuple[Tensor, ...]:
    return block.float().cpu().unbind()


def as_map(looked: HypothesisAttention, target: int, source: int) -> AttentionMap:
    """Without the padding, for a target and a source of these lengths; cells and vectors are all
    real."""
    down = source if looked.kind == "encoder" else target
    across = {"cross": source, "encoder": source, "decoder": target}.get(looked.kind)
    part = np.s_[:, :, :down, :across]
    scores = None if looked.scores is None else looked.scores.numpy()[part]
    return AttentionMap(looked.kind, looked.weights.numpy()[part], scores)


def _steps(read: Forced, row: int, tokenizer: Tokenizer, target: list[int]) -> Iterator[Step]:
    log_probabilities = read.log_probabilities[row].tolist()
    entropies = read.entropy[row].tolist()
    tops = read.top_log_probabilities[row].tolist()
    likeliest = read.top_tokens[row].tolist()
    for place, piece in enumerate(tokenizer.pieces(target)):
        top = tuple(zip(tokenizer.pieces(likeliest[place]), tops[place], strict=True))
        yield Step(piece, log_probabilities[place], top, entropies[place])


def _sequence(
    tokenizer: Tokenizer, text: str, ids: list[int], language: str
) -> trace.TokenSequence:
    return trace.TokenSequence(text, tokenizer.pieces(ids), tokenizer.words(ids), language)


def _lattice(lattice: Lattice, tokenizer: Tokenizer) -> BeamLattice:
    """The beam in pieces; slots that held nothing are left out."""
    tokens, parents, scores = [], [], []
    for step in range(lattice.tokens.size(0)):
        alive = lattice.tokens[step] >= 0
        tokens.append(tokenizer.pieces(lattice.tokens[step][alive].tolist()))
        parents.append(tuple(lattice.parents[step][alive].tolist()))
        scores.append(tuple(lattice.scores[step][alive].tolist()))
    return BeamLattice(tuple(tokens), tuple(parents), tuple(scores))
