"""A trained classifier: a source in, an answer out, with how sure it is and what it looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import overload

import numpy as np
import torch

from regard import trace
from regard.building import build_classifier
from regard.config import AnswerDataConfig, ClassifierConfig, Experiment
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.data.labels.targets import Labels
from regard.device import device_named
from regard.errors import UserError
from regard.models.classifier import HeadModel
from regard.models.weights import load_model
from regard.runs.folder import RunFolder
from regard.search import HypothesisAttention
from regard.shapes import Float, Tensor
from regard.tasks.arguments import check_texts
from regard.tasks.classification.inputs import Reading, SourceError
from regard.tasks.tracing import TOP, as_map, by_sentence
from regard.trace import AttentionMap, Step, Trace, of_kind

SOURCES_AT_A_TIME = 64


@dataclass(frozen=True)
class Answer:
    """One output: the label, or the numbers, as text.

    `is_long` where the source has more tokens than `data.max_length`: those beyond were not read.

    `probabilities` has every label's, the likeliest first; numbers have none. Two with the same
    texts and probabilities are equal."""

    source: str
    text: str
    probabilities: tuple[tuple[str, float], ...] = ()
    is_long: bool = False
    looked: Looked | None = field(default=None, repr=False, compare=False)

    @property
    def probability(self) -> float:
        """How sure the model is of its label; NaN for numbers and for a blank source."""
        return self.probabilities[0][1] if self.probabilities else float("nan")

    @property
    def trace(self) -> Trace | None:
        """All there is to know of it; None for a blank source, or where no attention was asked
        for."""
        return None if self.looked is None else self.looked.trace

    @property
    def attention(self) -> np.ndarray:
        """How much the answer took of each piece of the source: axes layer, head, target and
        source, with one target. ValueError where nothing attends, or none was asked for."""
        if self.looked is None:
            raise ValueError(
                "there is no attention: the source is blank, or none was asked for, as "
                "classify(..., attention=True) does"
            )
        return of_kind(self.looked.maps, "cross")[0].weights


class Looked:
    """What one answer looked at, and its trace, which is made when it is asked for."""

    def __init__(
        self,
        reading: Reading,
        source: str,
        text: str,
        attention: tuple[HypothesisAttention, ...],
        probabilities: tuple[tuple[str, float], ...],
    ) -> None:
        self._reading = reading
        self._source = source
        self._text = text
        self._attention = attention
        self._probabilities = probabilities

    @cached_property
    def source(self) -> trace.TokenSequence:
        return self._reading.reader.sequence(self._source)

    @cached_property
    def target(self) -> trace.TokenSequence:
        """The answer is one piece."""
        return trace.TokenSequence(self._text, (self._text,), (0,))

    @cached_property
    def maps(self) -> tuple[AttentionMap, ...]:
        """Of every kind, with all layers and heads, without padding."""
        return tuple(as_map(each, 1, len(self.source.pieces)) for each in self._attention)

    @cached_property
    def trace(self) -> Trace:
        steps: tuple[Step, ...] = ()
        score = 0.0
        if self._probabilities:
            logs = tuple(
                (name, math.log(share) if share else -math.inf)
                for name, share in self._probabilities
            )
            entropy = -sum(share * math.log(share) for _, share in self._probabilities if share)
            score = logs[0][1]
            steps = (Step(self._text, score, logs[:TOP], entropy),)
        return Trace(self.source, self.target, self.maps, steps, score)


class Classifier:
    """What `regard.load` gives for a run that labels texts, or gives numbers for them."""

    def __init__(self, experiment: Experiment, reading: Reading, model: HeadModel) -> None:
        if not isinstance(experiment.data, AnswerDataConfig):
            raise UserError(f"a model that is trained to {experiment.data.task} answers nothing")
        self.experiment = experiment
        self.data = experiment.data
        self.reading = reading
        self.model = model

    @classmethod
    def load(cls, run: str | Path, *, device: str = "auto") -> Classifier:
        """Load a run folder; UserError where it is none, or one that writes texts."""
        place = device_named(device)
        folder = RunFolder(Path(run))
        experiment = folder.experiment()
        data, config = experiment.data, experiment.model
        if not isinstance(data, AnswerDataConfig) or not isinstance(config, ClassifierConfig):
            raise UserError(f"{run} is no classifier: its task is to {data.task}")
        folder.check_files()
        reading = Reading.load(folder, data)
        sizes = reading.num_source, reading.reader.features, reading.answers.size
        model = load_model(partial(build_classifier, config, *sizes), folder.model)
        return cls(experiment, reading, model.to(place).eval())

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that it may give; none where it gives numbers."""
        answers = self.reading.answers
        return answers.names if isinstance(answers, Labels) else ()

    @property
    def attends(self) -> bool:
        """Whether answers look at the source."""
        config = self.experiment.model
        return isinstance(config, ClassifierConfig) and config.attends

    @overload  # of the two that fit a str the first is meant
    def classify(  # type: ignore[overload-overlap]
        self, source: str, *, attention: bool = True
    ) -> Answer: ...
    @overload
    def classify(self, source: Iterable[str], *, attention: bool = True) -> list[Answer]: ...
    def classify(
        self, source: str | Iterable[str], *, attention: bool = True
    ) -> Answer | list[Answer]:
        """Answer for one source or for many, in their order; a blank one gets a blank answer.

        They are worked on in batches of like lengths. `attention` False is faster. SourceError
        where one is not the numbers that it should be."""
        if isinstance(source, str):
            return self.classify([source], attention=attention)[0]
        texts = check_texts("source", source)
        results = [Answer(text, "") for text in texts]
        filled = [number for number, text in enumerate(texts) if text.strip()]
        try:
            encoded = self.reading.reader.encode([texts[number] for number in filled])
        except SourceError as error:
            raise SourceError(str(error), filled[error.place]) from error
        order = sorted(range(len(filled)), key=lambda place: len(encoded[place]))
        for first in range(0, len(order), SOURCES_AT_A_TIME):
            places = order[first : first + SOURCES_AT_A_TIME]
            numbers = [filled[place] for place in places]
            found = self._answer(
                [texts[number] for number in numbers],
                [encoded[place] for place in places],
                attention,
            )
            for number, answer in zip(numbers, found, strict=True):
                results[number] = answer
        return results

    @torch.inference_mode()
    def _answer(
        self, texts: Sequence[str], sources: Sequence[EncodedSource], attention: bool
    ) -> list[Answer]:
        device = next(self.model.parameters()).device
        output = self.model(pad_sources(sources).to(device), need_weights=attention)
        values = output.values.float().cpu()
        answers, ranked = self.reading.answers.decode(values), self._ranked(values)
        seen = by_sentence(output.attention, len(texts))
        return [
            Answer(
                text,
                answer,
                shares,
                source.is_cut,
                Looked(self.reading, text, answer, looked, shares) if attention else None,
            )
            for text, source, answer, shares, looked in zip(
                texts, sources, answers, ranked, seen, strict=True
            )
        ]

    def _ranked(self, values: Float[Tensor, "batch output"]) -> list[tuple[tuple[str, float], ...]]:
        """Every label with its probability, the likeliest first."""
        names = self.labels
        if not names:
            return [()] * len(values)
        shares, order = values.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
        return [
            tuple((names[place], share) for place, share in zip(*both, strict=True))
            for both in zip(order.tolist(), shares.tolist(), strict=True)
        ]
