"""A trained classifier or regressor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch

from regard import trace
from regard.building.classifiers import build_classifier
from regard.characters import is_blank_text
from regard.config import ClassificationDataConfig, Experiment
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.data.labels.targets import Labels
from regard.models.heads import HeadModel
from regard.runs.folder import RunFolder
from regard.runtime.device import cpu_by_default, device_named, float32_by_default
from regard.runtime.wanted import check_wanted
from regard.search import HypothesisAttention
from regard.shapes import Float, Tensor
from regard.storage.weights import load_model
from regard.tasks.arguments import check_texts, sections_of
from regard.tasks.classification.inputs import (
    InputsAndTargets,
    SeriesInputs,
    TextInputs,
    source_form_of,
)
from regard.tasks.display import describe_model, describe_result
from regard.tasks.feature_maps import text_feature_maps
from regard.tasks.gradients import prediction_gradients
from regard.tasks.memory import (
    DecodingMemory,
    ResultMemory,
    batches_within,
    check_each,
)
from regard.tasks.source_form import SourceError
from regard.tasks.tracing import TOP, LazyTrace, as_map, by_sentence, bytes_of_attention
from regard.trace import AttentionMap, Step, Trace, of_kind
from regard.viewing.feature_maps import FeatureMaps

SOURCES_AT_A_TIME = 64


@dataclass(frozen=True)
class Prediction:
    """Prediction for one source: a label, or numbers, as text.

    `probabilities` has all labels, the most probable first; it is empty for numbers. `is_long` is
    true if the source has more than `data.max_length` tokens: the rest was not read. Predictions
    with equal texts and probabilities are equal."""

    source: str
    text: str
    probabilities: tuple[tuple[str, float], ...] = ()
    is_long: bool = False
    unknown: float = field(default=0.0, compare=False)
    """Share of unknown words, or of unknown tokens, in a source that is a text."""
    lazy_trace: LazyTrace | None = field(default=None, repr=False, compare=False)

    @property
    def probability(self) -> float:
        """Probability of the predicted label; NaN for numbers and for a blank source."""
        return self.probabilities[0][1] if self.probabilities else float("nan")

    @property
    def trace(self) -> Trace | None:
        """Trace of the prediction; None for a blank source, or without attention."""
        return None if self.lazy_trace is None else self.lazy_trace.full

    @property
    def attention(self) -> np.ndarray:
        """Attention weights on the source, with axes layer, head, target and source, and one
        target. ValueError for a blank source, a model without attention, or attention=False."""
        if self.lazy_trace is None:
            raise ValueError(
                "there is no attention: the source is blank, or the call had attention=False"
            )
        return of_kind(self.lazy_trace.maps, "cross")[0].weights

    def __repr__(self) -> str:
        share = [f"{100 * self.probability:.1f}%"] if self.probabilities else []
        return describe_result("Prediction", self.source, self.text, share + self._notes())

    def _repr_html_(self) -> str:
        """Return source, prediction and a figure of the attention, for notebooks."""
        from regard.viewing import notebook

        figure = None if self.lazy_trace is None else self.lazy_trace.figure
        labels = [f"{name} {100 * share:.1f}%" for name, share in self.probabilities[:TOP]]
        return notebook.page(self.source, self.text, labels + self._notes(), figure)

    def _notes(self) -> list[str]:
        notes = {
            "longer than data.max_length: the rest was not read": self.is_long,
            f"{100 * self.unknown:.0f}% of the source unknown": self.unknown,
        }
        return [note for note, applies in notes.items() if applies]


@dataclass(frozen=True)
class _Parts:
    """Trace of one prediction, which is one piece and one step."""

    inputs: InputsAndTargets
    text: str
    prediction: str
    attention: tuple[HypothesisAttention, ...]
    probabilities: tuple[tuple[str, float], ...]
    gradient: Callable[[], AttentionMap]
    feature_maps: Callable[[], FeatureMaps]

    @property
    def score(self) -> float:
        """Log probability of the label; 0 for numbers."""
        probability = self.probabilities[0][1] if self.probabilities else 1.0
        return math.log(probability) if probability else -math.inf

    @property
    def is_cut(self) -> bool:
        return False

    @property
    def copies(self) -> bool:
        return False

    def source(self) -> trace.TokenSequence:
        return self.inputs.reader.sequence(self.text)

    def target(self) -> trace.TokenSequence:
        return trace.TokenSequence(self.prediction, (self.prediction,), (0,))

    def maps(self) -> tuple[AttentionMap, ...]:
        source_length = len(self.source().pieces)
        return tuple(as_map(each, 1, source_length) for each in self.attention)

    def steps(self) -> tuple[Step, ...]:
        if not self.probabilities:
            return ()
        logs = tuple(
            (name, math.log(probability) if probability else -math.inf)
            for name, probability in self.probabilities
        )
        entropy = -sum(p * math.log(p) for _, p in self.probabilities if p)
        return (Step(self.prediction, self.score, logs[:TOP], entropy),)

    def lattice(self) -> None:
        return None


class ClassificationModel:
    """A trained model that predicts a label or numbers. `regard.load` returns it for runs that
    classify."""

    def __init__(self, experiment: Experiment, inputs: InputsAndTargets, model: HeadModel) -> None:
        self.experiment = experiment
        self.data, config = sections_of(experiment, ClassificationDataConfig, experiment.name)
        self.attends: bool = config.head.attends
        """Whether the classification head attends to the source."""
        self.inputs = inputs
        self.model = model
        self.memory = DecodingMemory([config], inputs.targets.size)
        self.source_form = source_form_of(inputs.reader, self.data)

    @classmethod
    @cpu_by_default()
    @float32_by_default()
    def load(cls, run: str | Path, *, device: str = "auto") -> ClassificationModel:
        """Load a run folder. UserError if it is no run, or a run of another task."""
        place = device_named(device)
        folder = RunFolder(Path(run))
        experiment = folder.experiment()
        data, config = sections_of(experiment, ClassificationDataConfig, str(run))
        folder.check_files()
        inputs = InputsAndTargets.load(folder, data)
        sizes = inputs.vocabulary_size, inputs.reader.features, inputs.targets.size
        model = load_model(partial(build_classifier, config, *sizes), folder.model)
        return cls(experiment, inputs, model.to(place).eval())

    def __repr__(self) -> str:
        reader = self.inputs.reader
        source = f"vocabulary {self.inputs.vocabulary_size:,}"
        if isinstance(reader, SeriesInputs):
            source = f"{reader.features} numbers a step"
        targets = (
            f"{len(self.labels)} labels" if self.labels else f"{self.inputs.targets.size} numbers"
        )
        sizes = f"{source}, {targets}"
        return describe_model("ClassificationModel", self.experiment, self.model, sizes)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the model; empty if it predicts numbers."""
        targets = self.inputs.targets
        return targets.names if isinstance(targets, Labels) else ()

    @property
    def units(self) -> tuple[str, ...] | None:
        """Units of the training targets, blank for none; None for labels and if not known."""
        targets = self.inputs.targets
        return None if isinstance(targets, Labels) else targets.units

    @overload  # a str matches both overloads; this one applies
    def classify(  # type: ignore[overload-overlap]
        self, source: str, *, attention: bool = True
    ) -> Prediction: ...
    @overload
    def classify(self, source: Iterable[str], *, attention: bool = True) -> list[Prediction]: ...
    @cpu_by_default()
    def classify(
        self, source: str | Iterable[str], *, attention: bool = True
    ) -> Prediction | list[Prediction]:
        """Classify one source or several sources. A blank source has a blank prediction.

        Sources are sorted by length, classified in batches and returned in their order.
        `attention=False` is faster. SourceError, which is a ValueError, for a source that should be
        numbers and is not, or has another number of features than the training sources."""
        if isinstance(source, str):
            return self.classify([source], attention=attention)[0]
        texts = check_texts("source", source)
        self.source_form.check("source", texts)
        results = [Prediction(text, "") for text in texts]
        filled = [number for number, text in enumerate(texts) if not is_blank_text(text)]
        try:
            encoded = self.inputs.reader.encode([texts[number] for number in filled])
        except SourceError as error:
            raise SourceError(error.reason, filled[error.place], "source") from error
        order = sorted(range(len(filled)), key=lambda place: len(encoded[place]))
        needs = [self.bytes_of_prediction(len(each), attention=attention) for each in encoded]
        check_each(zip(filled, needs, strict=True), self.experiment.search, "source")
        memory = ResultMemory(self.experiment.search)
        for places in batches_within(order, needs.__getitem__, SOURCES_AT_A_TIME):
            check_wanted()
            numbers = [filled[place] for place in places]
            predictions = self._predict(
                [texts[number] for number in numbers],
                [encoded[place] for place in places],
                attention,
            )
            for number, prediction in zip(numbers, predictions, strict=True):
                results[number] = prediction
                if prediction.lazy_trace is not None:
                    memory.add(bytes_of_attention([prediction.lazy_trace]))
        return results

    def bytes_of_prediction(self, length: int, *, attention: bool) -> int:
        """Estimate the memory of a prediction for a source of this length."""
        return self.memory.of_forced(length, 1, attention=attention)

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Return the share of unknown tokens in sources that are texts; 0 for numbers."""
        reader = self.inputs.reader
        if not isinstance(reader, TextInputs):
            return 0.0
        filled = [text for text in texts if not is_blank_text(text)]
        return reader.tokenizer.unknown_share_of(filled)

    def unknown_in(self, text: str) -> tuple[str, ...]:
        """Return the parts of a text that are unknown to the model."""
        reader = self.inputs.reader
        return reader.tokenizer.unknown_in(text) if isinstance(reader, TextInputs) else ()

    def _unknown_share_of(self, source: EncodedSource) -> float:
        """Return the share of unknown tokens in a text; 0 for numbers."""
        reader = self.inputs.reader
        if not isinstance(reader, TextInputs):
            return 0.0
        return reader.tokenizer.unknown_share(source.ids or ())

    @torch.inference_mode()
    def _predict(
        self, texts: Sequence[str], sources: Sequence[EncodedSource], attention: bool
    ) -> list[Prediction]:
        device = next(self.model.parameters()).device
        output = self.model(pad_sources(sources).to(device), need_weights=attention)
        outputs = output.predictions.float().cpu()
        predictions, ranked = self.inputs.targets.decode(outputs), self._ranked(outputs)
        maps = by_sentence(output.attention, len(texts))
        return [
            Prediction(
                text,
                predicted,
                ranking,
                source.is_cut,
                self._unknown_share_of(source),
                LazyTrace(
                    _Parts(
                        self.inputs,
                        text,
                        predicted,
                        weights,
                        ranking,
                        partial(self._gradient, source),
                        partial(self._feature_maps, text, source),
                    )
                )
                if attention
                else None,
            )
            for text, source, predicted, ranking, weights in zip(
                texts, sources, predictions, ranked, maps, strict=True
            )
        ]

    @cpu_by_default()
    def _gradient(self, source: EncodedSource) -> AttentionMap:
        """Return the gradient of the prediction with respect to the source."""
        return prediction_gradients(self.model, pad_sources([source]), is_label=bool(self.labels))

    @cpu_by_default()
    def _feature_maps(self, text: str, source: EncodedSource) -> FeatureMaps:
        """Return the outputs of all layers of the encoder for a source."""
        sequence = self.inputs.reader.sequence(text)
        return text_feature_maps(self.model.encoder, pad_sources([source]), sequence)

    def _ranked(self, values: Float[Tensor, "batch output"]) -> list[tuple[tuple[str, float], ...]]:
        """Return all labels with their probabilities, the most probable first."""
        names = self.labels
        if not names:
            return [()] * len(values)
        probabilities, order = values.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
        return [
            tuple((names[place], probability) for place, probability in zip(*row, strict=True))
            for row in zip(order.tolist(), probabilities.tolist(), strict=True)
        ]
