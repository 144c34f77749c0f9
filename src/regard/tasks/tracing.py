"""Attention maps and traces of outputs.

A search returns the attention of its outputs. A given target is read once by the decoder, together
with its attention. The remaining parts of a trace (probabilities of the chosen and the alternative
tokens, pieces, words, the beam) are computed on first access.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
import torch

from regard import trace
from regard.data.batch import Tokens, pad, with_targets
from regard.data.text.copying import CopySource, CopyVocabulary, pad_copied
from regard.data.text.features import FeatureTokenizer
from regard.data.text.segmentation import MARK
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.contracts import AttentionBlock
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.runtime.device import cpu_by_default
from regard.search import Forced, HypothesisAttention, Lattice, forced
from regard.shapes import Tensor
from regard.tasks.memory import DecodingMemory, batches_within
from regard.trace import AttentionMap, BeamLattice, Step, Trace

if TYPE_CHECKING:
    from regard.viewing.feature_maps import FeatureMaps

TOP = 5
"""Number of most probable tokens that a trace has for each step."""


@runtime_checkable
class SourceFormat(Protocol):
    """Form of a task's sources in a batch and in a trace."""

    def sequence(self, text: str, content: Any) -> trace.TokenSequence:
        """Return the source as a trace shows it. An image has its name and no pieces."""

    def pad(self, contents: Sequence[Any]) -> Any:
        """Return encoded sources as one batch, which has a method `to`."""

    def show(self, source: str) -> np.ndarray | None:
        """Return the image of a source for a figure; None for a text."""


@dataclass(frozen=True)
class TextSources:
    """Texts, encoded as token numbers, for a model that copies with the numbers to copy."""

    tokenizer: Tokenizer | FeatureTokenizer
    language: str

    def sequence(self, text: str, content: list[int] | CopySource) -> trace.TokenSequence:
        ids = content.ids if isinstance(content, CopySource) else content
        sequence = _sequence(self.tokenizer, text, ids, self.language)
        return replace(sequence, texts=self.tokenizer.texts(text, sequence.pieces))

    def pad(self, contents: Sequence[list[int]] | Sequence[CopySource]) -> Tokens:
        if contents and isinstance(contents[0], CopySource):
            return pad_copied(cast(Sequence[CopySource], contents))
        return pad(cast(Sequence[list[int]], contents))

    def show(self, source: str) -> None:
        """Return None: a text has no image."""

    def words_at_spaces(self, output: Output) -> list[int]:
        """Return the word between spaces of each piece of a source."""
        spaced = [is_spaced for _, is_spaced in self.tokenizer.spaced_in(output.text)]
        words = list(accumulate(map(int, spaced)))
        first = words[0] if words else 0
        last = words[-1] - first if words else 0
        rest = len(output.source) - len(words)
        return [*(number - first for number in words), *[last] * rest]

    def unknown_spaces(self, output: Output) -> tuple[bool, ...]:
        """Return whether each unknown word of the source is after a space."""
        if not self.tokenizer.cuts_words:
            return ()
        parts = zip(output.source, self.tokenizer.spaced_in(output.text), strict=False)
        return tuple(spaced for number, (_, spaced) in parts if self.tokenizer.is_unknown(number))


@dataclass(frozen=True)
class Output:
    """A target with its source (as text and encoded), its attention, its score in the search and
    the beam that it came from. The attention may include the padding of its batch. `target_text` is
    the text of a given target."""

    text: str
    source: Any
    target: list[int]
    attention: tuple[HypothesisAttention, ...] = ()
    score: float = math.nan
    lattice: Callable[[], Lattice] | None = None
    target_text: str | None = None
    is_cut: bool = False
    """Whether a search reached the maximum length before the end token."""


@runtime_checkable
class TraceParts(Protocol):
    """Functions that compute the parts of one output's trace."""

    @property
    def score(self) -> float:
        """Score of the output."""

    @property
    def is_cut(self) -> bool:
        """Whether the output reached the maximum length before its end token."""

    @property
    def copies(self) -> bool:
        """Whether the model copies words of the source."""

    @property
    def attention(self) -> tuple[HypothesisAttention, ...]:
        """Attention, which may include the padding of its batch."""

    def source(self) -> trace.TokenSequence:
        """Return the source."""

    def target(self) -> trace.TokenSequence:
        """Return the target."""

    def maps(self) -> tuple[AttentionMap, ...]:
        """Return the attention of every kind, without padding."""

    def gradient(self) -> AttentionMap:
        """Return the gradient of the output with respect to the source."""

    def feature_maps(self) -> FeatureMaps:
        """Return the outputs of all layers of the encoder."""

    def steps(self) -> tuple[Step, ...]:
        """Return the probabilities of each step."""

    def lattice(self) -> BeamLattice | None:
        """Return the beam; None if there was none."""


class LazyTrace:
    """Trace of one output. Each part is computed on first access.

    A copy or a pickle contains the computed parts alone, without the model."""

    def __init__(self, parts: TraceParts) -> None:
        self._parts = parts
        self.score = parts.score
        self.is_cut = parts.is_cut

    @property
    def attention(self) -> tuple[HypothesisAttention, ...]:
        """Attention that the maps are read from; empty in a copy, which has maps alone."""
        parts: Any = self.__dict__.get("_parts")
        return () if parts is None else parts.attention

    def __getstate__(self) -> dict[str, Any]:
        names = ("maps", "source", "target", "figure", "full", "score", "is_cut")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def maps(self) -> tuple[AttentionMap, ...]:
        """Attention of every kind, with all layers and heads, without padding."""
        return self._parts.maps()

    @cached_property
    def source(self) -> trace.TokenSequence:
        """Source, with its pieces and words."""
        return self._parts.source()

    @cached_property
    def target(self) -> trace.TokenSequence:
        """Target, with its pieces and words."""
        return self._parts.target()

    @cached_property
    def figure(self) -> Trace:
        """Trace without beam. Only the traces of a model that copies have steps, because figures
        mark copied words. Otherwise the decoder does not run."""
        steps = self._parts.steps() if self._parts.copies else ()
        return Trace(self.source, self.target, self.maps, steps, self.score, is_cut=self.is_cut)

    def words_at_spaces(self) -> tuple[list[int], list[int]]:
        """Return the word between spaces of each piece of the source and of the target. ValueError
        for a copy, which has no model."""
        parts = self._parts_of_model("words between spaces")
        sources = parts.tracer.sources if isinstance(parts, _Parts) else None
        if not isinstance(parts, _Parts) or not isinstance(sources, TextSources):
            raise TypeError("words between spaces: expected the trace of a translation")
        output = parts.output
        return sources.words_at_spaces(output), parts.tracer.words_at_spaces(output)

    def image(self) -> np.ndarray | None:
        """Return the image of the source, read again from its file; None for a text, and in a
        pickled copy. ImageError if it cannot be read."""
        parts = self.__dict__.get("_parts")
        return parts.image() if isinstance(parts, _Parts) else None

    def gradient(self) -> Trace:
        """Return the trace with the gradient of the output with respect to the source instead of
        attention; of an ensemble, the gradient of its first model. Computed at each call. UserError
        for sources that are images. ValueError for a copy, which has no model."""
        gradient = self._parts_of_model("gradient").gradient()
        return Trace(self.source, self.target, (gradient,), score=self.score)

    def feature_maps(self) -> FeatureMaps:
        """Return the outputs of all layers of the encoder for the source; of an ensemble, of its
        first model. Computed at each call. ValueError for a copy, which has no model."""
        return self._parts_of_model("feature maps").feature_maps()

    def _parts_of_model(self, name: str) -> TraceParts:
        """Return the parts, for a result of this name. ValueError for a copy."""
        parts: TraceParts | None = self.__dict__.get("_parts")
        if parts is None:
            raise ValueError(f"a copied trace has no model, so it has no {name}")
        return parts

    @cached_property
    def full(self) -> Trace:
        """Whole trace. The first access runs the decoder over the outputs of the batch, unless
        their probabilities are known."""
        return replace(self.figure, steps=self._parts.steps(), lattice=self._parts.lattice())


class Tracer:
    """Builds the traces of a model that generates texts."""

    def __init__(
        self,
        sources: SourceFormat,
        tokenizer: Tokenizer,
        language: str,
        model: Seq2Seq | Ensemble,
        memory: DecodingMemory,
    ) -> None:
        """The tokenizer and the language are those of the targets. `memory` bounds the batches in
        which probabilities are computed."""
        self._memory = memory
        self.sources = sources
        self.tokenizer = tokenizer
        self.language = language
        self.model = model

    def vocabulary(self, output: Output) -> Tokenizer | CopyVocabulary:
        """Return the vocabulary of an output's target, with the words copied from its source."""
        if isinstance(output.source, CopySource):
            return CopyVocabulary(self.tokenizer, output.source.texts, output.source.spaced)
        return self.tokenizer

    def decode(self, output: Output) -> str:
        """Return the text of an output. An <unk> has the space of an unknown source word: the
        first of the first, and so on."""
        vocabulary = self.vocabulary(output)
        is_copied = isinstance(vocabulary, CopyVocabulary)
        has_unknown = self.tokenizer.has_unknown(output.target)
        if is_copied or not has_unknown or not isinstance(self.sources, TextSources):
            return vocabulary.decode(output.target)
        return vocabulary.decode(output.target, spaced=self.sources.unknown_spaces(output))

    def words_at_spaces(self, output: Output) -> list[int]:
        """Return the word between spaces of each piece of a target. A piece that is a space belongs
        to the word after it."""
        target, tokenizer = output.target, self.tokenizer
        prefixes = (
            self.decode(replace(output, target=target[: place + 1])) for place in range(len(target))
        )
        words = [max(len(text.split()) - 1, 0) for text in prefixes]
        for place in reversed(range(len(words) - 1)):
            number = target[place]
            if number < len(tokenizer) and tokenizer.vocabulary[number] == MARK:
                words[place] = words[place + 1]
        return words

    @cpu_by_default()
    def gradient(self, output: Output) -> AttentionMap:
        """Return the gradient of a target with respect to its source. UserError for images."""
        if not isinstance(self.sources, TextSources):
            raise UserError(
                "gradients are drawn for sources of tokens or numbers, but this run reads images: "
                "choose another --kind"
            )
        from regard.tasks.gradients import target_gradients

        return target_gradients(self._first, self.sources.pad([output.source]), output.target)

    @cpu_by_default()
    def feature_maps(self, output: Output) -> FeatureMaps:
        """Return the outputs of all layers of the encoder for the source of an output."""
        from regard.tasks.feature_maps import image_feature_maps, text_feature_maps

        encoder, source = self._first.encoder, self.sources.pad([output.source])
        if not isinstance(self.sources, TextSources):
            return image_feature_maps(encoder, source)
        sequence = self.sources.sequence(output.text, output.source)
        return text_feature_maps(encoder, source, sequence)

    @property
    def _first(self) -> Seq2Seq:
        """The model, or the first model of an ensemble."""
        model = self.model
        return cast(Seq2Seq, model.members[0]) if isinstance(model, Ensemble) else model

    def searched(self, outputs: Sequence[Output]) -> list[LazyTrace]:
        """Return the traces of outputs of a search, which have attention and scores."""
        traces = []
        sides = {(len(each.source), len(each.target)) for each in outputs}
        needs = {side: self._memory.of_forced(*side, attention=False) for side in sides}
        for batch in batches_within(
            outputs, lambda each: needs[len(each.source), len(each.target)], max(1, len(outputs))
        ):
            compute = cache(partial(self._score, batch, attention=False))
            traces += [
                LazyTrace(_Parts(self, each, compute, row)) for row, each in enumerate(batch)
            ]
        return traces

    def forced(self, outputs: Sequence[Output], *, attention: bool = True) -> list[LazyTrace]:
        """Read given targets in one batch and return their traces, whose scores are the log
        probabilities. Without `attention` they have no maps."""
        result = self._score(outputs, attention=attention)
        rows, scores = by_sentence(result.attention, len(outputs)), result.scores.tolist()
        scored = [
            replace(output, attention=maps, score=score)
            for output, maps, score in zip(outputs, rows, scores, strict=True)
        ]
        return [
            LazyTrace(_Parts(self, each, lambda: result, row)) for row, each in enumerate(scored)
        ]

    @cpu_by_default()
    @torch.inference_mode()
    def _score(self, outputs: Sequence[Output], *, attention: bool) -> Forced:
        """Return the probabilities of targets, and the attention of the encoder before that of the
        decoder."""
        source = self.sources.pad([each.source for each in outputs])
        batch = with_targets(source, [each.target for each in outputs])
        batch = batch.to(next(self.model.parameters()).device)
        memories, encoder_attention = self.model.encode_with_attention(
            batch.source, need_weights=attention
        )
        result = forced(
            self.model.decoder,
            memories,
            batch.inputs,
            batch.outputs,
            batch.mask,
            num_top=TOP,
            need_weights=attention,
        )
        return replace(result, attention=encoder_attention + result.attention)


@dataclass(frozen=True)
class _Parts:
    """Trace of one generated text: a row of the batch that `compute` scores."""

    tracer: Tracer
    output: Output
    compute: Callable[[], Forced]
    row: int

    @property
    def attention(self) -> tuple[HypothesisAttention, ...]:
        return self.output.attention

    @property
    def score(self) -> float:
        return self.output.score

    @property
    def is_cut(self) -> bool:
        return self.output.is_cut

    @property
    def copies(self) -> bool:
        return isinstance(self.output.source, CopySource)

    def source(self) -> trace.TokenSequence:
        return self.tracer.sources.sequence(self.output.text, self.output.source)

    def target(self) -> trace.TokenSequence:
        vocabulary, target = self.tracer.vocabulary(self.output), self.output.target
        typed = self.output.target_text
        text = self.tracer.decode(self.output) if typed is None else typed
        sequence = _sequence(vocabulary, text, target, self.tracer.language)
        if typed is None:
            return sequence
        return replace(sequence, texts=self.tracer.tokenizer.texts(typed, sequence.pieces))

    def maps(self) -> tuple[AttentionMap, ...]:
        sizes = len(self.output.target), len(self.output.source)
        return tuple(as_map(each, *sizes) for each in self.output.attention)

    def gradient(self) -> AttentionMap:
        return self.tracer.gradient(self.output)

    def feature_maps(self) -> FeatureMaps:
        return self.tracer.feature_maps(self.output)

    def image(self) -> np.ndarray | None:
        return self.tracer.sources.show(self.output.text)

    def steps(self) -> tuple[Step, ...]:
        vocabulary = self.tracer.vocabulary(self.output)
        return tuple(_steps(self.compute(), self.row, vocabulary, self.output.target))

    @cpu_by_default()
    def lattice(self) -> BeamLattice | None:
        lattice = self.output.lattice
        return None if lattice is None else _lattice(lattice(), self.tracer.vocabulary(self.output))


def by_sentence(
    blocks: Sequence[AttentionBlock], count: int
) -> list[tuple[HypothesisAttention, ...]]:
    """Split the attention of a batch of `count` sentences by sentence, moved to the CPU."""
    columns = []
    for block in blocks:
        scores = repeat(None, count) if block.scores is None else _rows(block.scores)
        rows = zip(_rows(block.weights), scores, strict=True)
        columns.append([HypothesisAttention(block.kind, *row) for row in rows])
    return list(zip(*columns, strict=True)) if columns else [()] * count


def _rows(block: Tensor) -> tuple[Tensor, ...]:
    return block.float().cpu().unbind()


def bytes_of_attention(traces: Iterable[LazyTrace]) -> int:
    """Return the size of the attention of several outputs for one source, before maps are read from
    it. The outputs share the attention of the encoder."""
    blocks = {id(block): block for each in traces for block in each.attention}
    total = 0
    for block in blocks.values():
        total += block.weights.nbytes + (0 if block.scores is None else block.scores.nbytes)
    return total


def as_map(attention: HypothesisAttention, target: int, source: int) -> AttentionMap:
    """Cut the padding off, for a target and a source of these lengths. Cells of an image, extra
    vectors and experts have no padding."""
    down = source if attention.kind in ("encoder", "encoder_experts") else target
    across = {"cross": source, "encoder": source, "decoder": target}.get(attention.kind)
    part = np.s_[:, :, :down, :across]
    scores = None if attention.scores is None else attention.scores.numpy()[part]
    return AttentionMap(attention.kind, attention.weights.numpy()[part], scores)


def _steps(
    result: Forced, row: int, vocabulary: Tokenizer | CopyVocabulary, target: list[int]
) -> Iterator[Step]:
    log_probabilities = result.log_probabilities[row].tolist()
    entropies = result.entropy[row].tolist()
    copied = repeat(None) if result.copied is None else result.copied[row].tolist()
    tops = result.top_log_probabilities[row].tolist()
    top_tokens = result.top_tokens[row].tolist()
    for place, (piece, share) in enumerate(zip(vocabulary.pieces(target), copied, strict=False)):
        top = tuple(zip(vocabulary.pieces(top_tokens[place]), tops[place], strict=True))
        yield Step(piece, log_probabilities[place], top, entropies[place], share)


def _sequence(
    vocabulary: Tokenizer | FeatureTokenizer | CopyVocabulary,
    text: str,
    ids: list[int],
    language: str,
) -> trace.TokenSequence:
    return trace.TokenSequence(text, vocabulary.pieces(ids), vocabulary.words(ids), language)


def _lattice(lattice: Lattice, vocabulary: Tokenizer | CopyVocabulary) -> BeamLattice:
    """Return the beam in pieces, without empty slots."""
    tokens, parents, scores = [], [], []
    for step in range(lattice.tokens.size(0)):
        live = lattice.tokens[step] >= 0
        tokens.append(vocabulary.pieces(lattice.tokens[step][live].tolist()))
        parents.append(tuple(lattice.parents[step][live].tolist()))
        scores.append(tuple(lattice.scores[step][live].tolist()))
    return BeamLattice(tuple(tokens), tuple(parents), tuple(scores))
