"""Searching for texts with any model that writes: what a task does with sources and texts is its
own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from regard.config import SearchConfig
from regard.config.search import check_steps
from regard.errors import UserError
from regard.linear import freeze, warn_of_slow_bfloat16
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.names import Precision
from regard.search import (
    Average,
    BeamSettings,
    GoogleLength,
    Hypothesis,
    HypothesisAttention,
    ImpossibleError,
    Lattice,
    Limits,
)
from regard.search import beam as beam_search
from regard.search import greedy as greedy_search
from regard.tasks.tracing import by_sentence


@dataclass(frozen=True)
class Found:
    """What a search found for one source, best first, and what its encoder looked at."""

    hypotheses: list[Hypothesis]
    encoder: tuple[HypothesisAttention, ...]
    lattice: Callable[[], Lattice] | None = None


class NotFiniteError(UserError):
    """The probabilities of an output are not finite numbers."""


class Searcher:
    """Writes with a model, which is frozen once for each precision: its weights are not to change
    from the first search on."""

    def __init__(self, model: Seq2Seq | Ensemble) -> None:
        self.model = model
        self._writers: dict[tuple[str, torch.device], Seq2Seq | Ensemble] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Packed weights can be neither pickled nor copied: they are made again."""
        return {**self.__dict__, "_writers": {}}

    @torch.inference_mode()
    def search(
        self,
        source: Any,
        limits: Limits,
        search: SearchConfig,
        num_best: int = 1,
        *,
        attention: bool = True,
    ) -> list[Found]:
        """For each source of a batch the best texts that were found. `source` is whatever the
        model's encoder reads, with `to`."""
        check_steps(search.beam, max(torch.as_tensor(limits.maximum).flatten().tolist(), default=0))
        writer = self._writer(search.precision)
        source = source.to(next(writer.parameters()).device)
        (memories, blocks), decoder = writer.read(source, need_weights=attention), writer.decoder
        encoder = by_sentence(blocks, memories[0].mask.size(0))
        penalty = (
            Average() if search.length_penalty == "average" else GoogleLength(search.length_penalty)
        )
        if search.beam == 1:
            with _finite():
                best = greedy_search(decoder, memories, limits, penalty, need_weights=attention)
            return [Found([each], seen) for each, seen in zip(best, encoder, strict=True)]
        settings = BeamSettings(
            search.beam, num_best, penalty, search.coverage_penalty, search.early_stopping
        )
        with _finite():
            result = beam_search(decoder, memories, limits, settings, need_weights=attention)
        return [
            Found(found, encoder[number], partial(result.lattice, number))
            for number, found in enumerate(result)
        ]

    def _writer(self, precision: Precision) -> Seq2Seq | Ensemble:
        """The model as it searches: frozen once for each precision, on a GPU only where that
        changes the type."""
        device = next(self.model.parameters()).device
        if device.type != "cpu" and precision == "float32":
            return self.model
        if precision == "bfloat16":
            warn_of_slow_bfloat16("search.precision", device)
        if (precision, device) not in self._writers:
            self._writers[precision, device] = freeze(self.model, getattr(torch, precision))
        return self._writers[precision, device]


@contextmanager
def _finite() -> Iterator[None]:
    try:
        yield
    except ImpossibleError as error:
        raise NotFiniteError(
            f"the model gives no finite probability ({error}). Its weights are damaged, or too "
            "large: train again, with a lower learning rate"
        ) from error
