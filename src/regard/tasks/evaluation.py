"""Evaluation of a run: options, scored outputs and scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Data, SearchConfig
from regard.corpora.table_settings import settings_for
from regard.data.examples import Pair
from regard.data.files.tables import TableSettings
from regard.data.text.tokenizer import Tokenizer
from regard.metrics.classification import Confusion
from regard.metrics.metric import MetricScore
from regard.metrics.slices import Slice
from regard.runtime.progress import OnProgress

Item = TypeVar("Item")

MIN_WORDS = 4
"""Mean number of words of the references below which BLEU is not informative."""


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of `regard evaluate`. A task ignores those that are not among its
    `evaluation_options`."""

    search: SearchConfig = field(default_factory=SearchConfig)
    target_path: Path | None = None
    """File of the targets, if the pairs are in two files."""
    encoding: str | None = None
    """Encoding of the file. None: recognised."""
    delimiter: str | None = None
    """Character between columns. None: recognised."""
    header: bool | None = None
    """Whether the first row names the columns. None: recognised."""
    sheet: str | None = None
    """Sheet of a workbook. None: the first with a table."""
    source_column: str | None = None
    """Source column, by name or number. None: as in training."""
    target_column: tuple[str, ...] | None = None
    """Target columns, by name or number. None: as in training."""
    lowercase: bool = False
    """Whether to add the scores of lower-cased text."""
    tokenized: bool = False
    """Whether to add BLEU of tokenized text."""
    error_rates: bool = False
    """Whether to add word and character error rates."""
    ensemble: tuple[str, ...] = ()
    """Further runs of the ensemble."""
    held_out: bool = False
    """Whether the pairs are those that the run held out."""

    def table_settings(self, data: Data, path: Path) -> TableSettings | None:
        """Return the format and the columns of a file, as `settings_for` does; of held-out pairs,
        those in which the run wrote them."""
        return held_out_settings_of(data) if self.held_out else settings_for(path, data, self)


def held_out_settings_of(data: Data) -> TableSettings | None:
    """Return the columns of the held-out pairs of a run; None for source TAB target."""
    features = getattr(data, "feature_columns", None)
    return None if features is None else held_out_settings(len(features))


def held_out_settings(num_features: int) -> TableSettings:
    """Return the columns of held-out pairs with features: text, features, target."""
    columns = [str(number) for number in range(1, num_features + 3)]
    return TableSettings(
        "utf-8", "\t", False, None, (columns[0],), (columns[-1],), tuple(columns[1:-1])
    )


@dataclass(frozen=True)
class ScoredOutput:
    """A source, the model's output, and all references."""

    source: str
    text: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Scores of a run on pairs, and all outputs."""

    num_pairs: int
    scores: tuple[MetricScore, ...]
    outputs: tuple[ScoredOutput, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options that the scores depend on, by their names in results.json."""
    left_out: tuple[str, ...] = ()
    """Messages about pairs that were not scored."""
    slices: tuple[Slice, ...] = ()
    """Slices on which the outputs are worse than the other outputs."""

    @property
    def num_words(self) -> float:
        """Mean number of words of the references."""
        references = [text for output in self.outputs for text in output.references]
        return sum(len(text.split()) for text in references) / max(1, len(references))

    def confusion(self, labels: Sequence[str]) -> Confusion:
        """Return the number of predictions of each label for each true label."""
        texts = [output.text for output in self.outputs]
        return Confusion.of(texts, [output.references[0] for output in self.outputs], labels)

    def entry(self) -> dict[str, Any]:
        """Return the evaluation as an entry of results.json."""
        values = asdict(self)
        del values["left_out"]
        return {**values.pop("settings"), **values}

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> Evaluation | None:
        """Return an entry of results.json as an evaluation; None for an entry of another form."""
        try:
            scores = tuple(MetricScore(**score) for score in entry["scores"])
            outputs = tuple(
                ScoredOutput(output["source"], output["text"], tuple(output["references"]))
                for output in entry["outputs"]
            )
            names = ("num_pairs", "scores", "slices", "outputs", "environment")
            settings = {name: value for name, value in entry.items() if name not in names}
            return cls(entry["num_pairs"], scores, outputs, settings)
        except (KeyError, TypeError):
            return None


def is_informative(metric: str, num_words: float) -> bool:
    """Return whether a metric is printed for references with this mean number of words."""
    return metric != "BLEU" or num_words >= MIN_WORDS


def bleu_note(num_words: float, place: str) -> str:
    """Return the line about BLEU that is not printed but saved in the file `place`."""
    return (
        f"BLEU is only in {place}: it counts n-grams of {MIN_WORDS} words, and references have "
        f"{num_words:.1f} on average"
    )


def references_by_source(pairs: Sequence[Pair], tokenizer: Tokenizer) -> dict[str, list[str]]:
    """Return the targets of each distinct source, normalised as the model's outputs are."""
    references: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(tokenizer.normalise(pair.target))
    return references


def parts_of(
    items: Sequence[Item], size: int, label: str, on_progress: OnProgress | None
) -> Iterator[Sequence[Item]]:
    """Split items into parts of at most `size`, and report progress before each part."""
    for first in range(0, len(items), size):
        if on_progress:
            on_progress(label, first, len(items))
        yield items[first : first + size]


def scored_outputs(
    references: Mapping[str, Sequence[str]], texts: Sequence[str]
) -> tuple[ScoredOutput, ...]:
    """Return each source with its output and its references."""
    rows = zip(references.items(), texts, strict=True)
    return tuple(ScoredOutput(source, text, tuple(targets)) for (source, targets), text in rows)
