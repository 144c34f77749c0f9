"""Decoding with any model that generates texts, and the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from regard.compiled.candidates import top_candidates
from regard.compiled.freeze import freeze
from regard.compiled.native import NativeModule
from regard.compiled.snapshot import Snapshot
from regard.config import SearchConfig
from regard.config.search import check_steps
from regard.data.batch import PAD, START, UNKNOWN
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.names import SearchPrecision, UnknownRule
from regard.numerics.linear import warn_of_slow_bfloat16
from regard.runtime.modes import is_plain
from regard.search import (
    Average,
    BeamSettings,
    GoogleLength,
    Hypothesis,
    HypothesisAttention,
    ImpossibleError,
    Lattice,
    Limits,
    Restrictions,
)
from regard.search import beam as beam_search
from regard.search import greedy as greedy_search
from regard.tasks.display import describe_result
from regard.tasks.tracing import LazyTrace, Output, Tracer, by_sentence, bytes_of_attention
from regard.trace import AttentionMap, Trace, of_kind


@dataclass(frozen=True)
class GeneratedText:
    """One generated text: a translation of a text, or a caption of an image.

    `source` is the text, or the name of the image. `score` is the score that ranks hypotheses;
    `alternatives` are the next best hypotheses, best first. `is_long` is true if the source has
    more tokens than any in training (`data.max_length`). `is_refused` is true if it has more than
    are decoded (`search.max_source`, or the model's learned positions): the text is empty then.
    `is_cut` is true if the output reached the maximum length before its end token. `is_exception`
    is true if the text is from the exceptions: it was not decoded, and its score is NaN.
    Results with equal texts and scores are equal."""

    source: str
    text: str
    score: float
    alternatives: tuple[GeneratedText, ...] = ()
    is_long: bool = False
    is_refused: bool = False
    is_cut: bool = field(default=False, compare=False)
    unknown: float = field(default=0.0, compare=False)
    """Share of unknown words, or of unknown tokens, in the source."""
    is_exception: bool = False
    lazy_trace: LazyTrace | None = field(default=None, repr=False, compare=False)

    @property
    def trace(self) -> Trace | None:
        """Whole trace, computed on first access. None for a text that was not decoded, or
        without attention."""
        return None if self.lazy_trace is None else self.lazy_trace.full

    @property
    def maps(self) -> tuple[AttentionMap, ...]:
        """Attention of every kind, with all layers and heads; the models of an ensemble follow one
        another. Empty for a blank text, or without attention."""
        return () if self.lazy_trace is None else self.lazy_trace.maps

    @property
    def attention(self) -> np.ndarray:
        """Attention weights on the source, with axes layer, head, target and source; of an
        ensemble those of the first model (`maps` has all). ValueError without attention."""
        if self.lazy_trace is None:
            raise ValueError(
                "there is no attention: the text is blank or an exception, or the call had "
                "attention=False"
            )
        return of_kind(self.maps, "cross")[0].weights

    @property
    def num_bytes(self) -> int:
        """Size of the attention of this text and its alternatives."""
        traces = (each.lazy_trace for each in (self, *self.alternatives))
        return bytes_of_attention(each for each in traces if each is not None)

    def __repr__(self) -> str:
        return describe_result("GeneratedText", self.source, self.text, self._notes())

    def _repr_html_(self) -> str:
        """Return source, text and a figure of the attention, for notebooks."""
        from regard.viewing import notebook

        if self.lazy_trace is None:
            return notebook.page(self.source, self.text, self._notes())
        lazy_trace = self.lazy_trace
        return notebook.page(
            self.source, self.text, self._notes(), lazy_trace.figure, lazy_trace.image
        )

    def _notes(self) -> list[str]:
        number = len(self.alternatives)
        notes = {
            f"score {self.score:.2f}": not (self.is_refused or self.is_exception),
            "from the exceptions": self.is_exception,
            f"{number} alternative{'s' * (number > 1)}": number,
            "longer than all sources in training": self.is_long,
            "too long: not decoded": self.is_refused,
            "cut at the maximum length": self.is_cut,
            f"{100 * self.unknown:.0f}% of the source unknown": self.unknown,
        }
        return [note for note, applies in notes.items() if applies]


@dataclass(frozen=True)
class SearchResult:
    """Hypotheses for one source, best first, and the attention of its encoder."""

    hypotheses: list[Hypothesis]
    encoder: tuple[HypothesisAttention, ...]
    lattice: Callable[[], Lattice] | None = None
    has_end: bool = True
    """Whether outputs end with the end token."""


class NotFiniteError(UserError):
    """The model computes probabilities that are not finite."""


class Searcher:
    """Searches with frozen copies of a model, one for each precision. They are made again whenever
    the model has changed.

    Before each search the model is compared with its state when it was frozen, with all numbers of
    its weights. A private model, which no other code holds, is not compared; reading `model` ends
    that. In float32 a model with hooks, replaced methods or enabled dropout searches itself."""

    def __init__(self, model: Seq2Seq | Ensemble, *, is_private: bool = False) -> None:
        self._private_model = model
        self._is_private = is_private
        self._snapshot: Snapshot | None = None
        self._frozen: dict[tuple[str, torch.device], Seq2Seq | Ensemble] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without frozen models, which a copy makes again."""
        return {**self.__dict__, "_frozen": {}, "_snapshot": None}

    @property
    def model(self) -> Seq2Seq | Ensemble:
        """The model, which other code may change from now on."""
        if self._is_private:
            self._is_private, self._snapshot = False, None
        return self._private_model

    @torch.inference_mode()
    def search(
        self,
        source: Any,
        limits: Limits,
        search: SearchConfig,
        num_best: int = 1,
        *,
        attention: bool = True,
    ) -> list[SearchResult]:
        """Return the best hypotheses for each source of a batch. `source` is an input of the
        model's encoder, with a method `to`."""
        check_steps(search.beam, max(torch.as_tensor(limits.maximum).flatten().tolist(), default=0))
        model = self._model(search.precision)
        source = source.to(next(model.parameters()).device)
        memories, blocks = model.encode_with_attention(source, need_weights=attention)
        decoder = model.decoder
        encoder = by_sentence(blocks, memories[0].mask.size(0))
        penalty = (
            Average() if search.length_penalty == "average" else GoogleLength(search.length_penalty)
        )
        if search.beam == 1:
            with _possible(limits.restrictions):
                best = greedy_search(
                    decoder,
                    memories,
                    limits,
                    penalty,
                    need_weights=attention,
                    find=top_candidates,
                )
            both = zip(best, encoder, strict=True)
            has_end = limits.end is not None
            return [SearchResult([hypothesis], maps, has_end=has_end) for hypothesis, maps in both]
        settings = BeamSettings(
            search.beam, num_best, penalty, search.coverage_penalty, search.early_stopping
        )
        with _possible(limits.restrictions):
            result = beam_search(
                decoder, memories, limits, settings, need_weights=attention, find=top_candidates
            )
        return [
            SearchResult(
                hypotheses,
                encoder[number],
                partial(result.lattice, number),
                limits.end is not None,
            )
            for number, hypotheses in enumerate(result)
        ]

    def _model(self, precision: SearchPrecision) -> Seq2Seq | Ensemble:
        """Return the model to search with: a frozen copy of the present model, made once for each
        precision and device. A GPU in float32 searches with the model itself."""
        model = self._private_model
        device = next(model.parameters()).device
        if device.type != "cpu" and precision == "float32":
            return model
        if precision == "bfloat16":
            warn_of_slow_bfloat16("search.precision", device)
        snapshot = self._present()
        if precision == "float32" and (is_plain() or not snapshot.is_plain or snapshot.calls_hooks):
            return model
        if snapshot.is_modified:
            raise UserError(
                f"search.precision is {precision}, which searches with a copy of the model, but "
                "methods of the model were replaced or dropout is enabled: call model.eval(), or "
                "use float32"
            )
        if (precision, device) not in self._frozen:
            try:
                frozen = freeze(model, getattr(torch, precision))
            except ValueError as error:
                raise UserError(f"search.precision: {error}") from error
            for module in frozen.modules():
                if isinstance(module, NativeModule):
                    module.is_private = True
            self._frozen[precision, device] = frozen
        return self._frozen[precision, device]

    def _present(self) -> Snapshot:
        """Return the state of the model that the frozen copies have. Forget copies of another
        state."""
        snapshot = self._snapshot
        if snapshot is not None:
            compare = snapshot.has_current_classes if self._is_private else snapshot.is_current
            if compare():
                return snapshot
        self._frozen.clear()
        self._snapshot = Snapshot(self._private_model, contents=not self._is_private)
        return self._snapshot


def generated_texts(
    tracer: Tracer,
    sources: Sequence[tuple[str, Any]],
    results: Sequence[SearchResult],
    text_of: Callable[[Output, LazyTrace], str],
    *,
    attention: bool,
) -> list[GeneratedText]:
    """Decode the hypotheses of each source to texts, with their traces if `attention` is true.

    A source is its text and its encoded form. `text_of` decodes one output."""
    outputs = [
        Output(
            text,
            content,
            list(hypothesis.tokens),
            result.encoder + hypothesis.attention,
            hypothesis.score,
            result.lattice,
            is_cut=result.has_end and not hypothesis.finished,
        )
        for (text, content), result in zip(sources, results, strict=True)
        for hypothesis in result.hypotheses
    ]
    texts = (
        GeneratedText(
            output.text,
            text_of(output, lazy_trace),
            output.score,
            is_cut=output.is_cut,
            lazy_trace=lazy_trace if attention else None,
        )
        for output, lazy_trace in zip(outputs, tracer.searched(outputs), strict=True)
    )
    ranked = [list(islice(texts, len(result.hypotheses))) for result in results]
    return [
        replace(best, alternatives=tuple(others)) if others else best for best, *others in ranked
    ]


def forbidden_tokens(
    search: SearchConfig, tokenizer: Tokenizer, default: UnknownRule
) -> tuple[int, ...]:
    """Return the tokens that no output may have: padding, the start, and <unk> if `search.unknown`
    forbids it. `default` is the rule of the task."""
    forbids = (search.unknown or default) == "forbid"
    has_unknown = tokenizer.settings.unknown
    return (PAD, START, UNKNOWN) if forbids and has_unknown else (PAD, START)


def restrictions_of(
    search: SearchConfig, prefixes: Sequence[Sequence[int]] = ()
) -> Restrictions | None:
    """Return the restrictions of a search, with the tokens of the prefix of each source. None if
    the search has no restriction."""
    restrictions = Restrictions(
        no_repeat_ngram=search.no_repeat_ngram,
        repetition_penalty=search.repetition_penalty,
        prefixes=tuple(map(tuple, prefixes)) if any(prefixes) else (),
    )
    return None if restrictions == Restrictions() else restrictions


@contextmanager
def _possible(restrictions: Restrictions | None) -> Iterator[None]:
    try:
        yield
    except ImpossibleError as error:
        if restrictions is not None:
            raise UserError(
                f"no output obeys the search options ({error}): search.no_repeat_ngram (with "
                "search.min_length) excludes every token, or the prefix is impossible. Change them"
            ) from error
        raise NotFiniteError(
            f"the model's probabilities are not finite ({error}). Its weights are damaged or too "
            "large: train again with a lower learning rate"
        ) from error
