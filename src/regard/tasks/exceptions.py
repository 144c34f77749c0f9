"""Exceptions: an exact dictionary before a model, whose sources are not decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from regard.characters import composed, is_blank_text, quoted
from regard.data.examples import Pair
from regard.errors import UserError, listed
from regard.tasks.arguments import check_pairs
from regard.tasks.source_form import SourceForm

if TYPE_CHECKING:
    from regard.tasks.classification.model import ClassificationModel
    from regard.tasks.translation.model import TranslationModel

log = logging.getLogger(__name__)

SHOWN = 5
"""Number of sources in a message."""
LONGEST = 40
"""Number of characters of a source in a message."""


class ExceptionsError(UserError, ValueError):
    """Exceptions that are unreadable, or have several targets for a source."""


@dataclass(frozen=True)
class Exceptions:
    """Targets of sources that are not decoded."""

    targets: Mapping[str, str]
    """Targets by their normalised sources. They are in NFC with single spaces, as outputs are."""
    form: SourceForm = field(repr=False)

    @classmethod
    def of(cls, value: Any, model: TranslationModel | ClassificationModel) -> Exceptions:
        """Return the exceptions of a file in the formats of evaluation, or of a dictionary. Those
        that are read already are returned as they are. ExceptionsError, a ValueError, for a file
        that cannot be read, a source of another form than the training sources, and several targets
        of a source."""
        if isinstance(value, Exceptions):
            return value
        if isinstance(value, str | Path):
            return cls._of_pairs(_read(Path(value), model), model.source_form, f"{value}: ")
        if not isinstance(value, Mapping):
            raise TypeError(
                f"exceptions is of the type {type(value).__name__}: expected a file (str or Path), "
                "a dictionary of str, or Exceptions"
            )
        pairs = [Pair(*pair, 0) for pair in check_pairs(list(value.items()))]
        return cls._of_pairs(pairs, model.source_form, "exceptions: ")

    @classmethod
    def _of_pairs(cls, pairs: Iterable[Pair], form: SourceForm, place: str) -> Exceptions:
        exceptions, first = cls({}, form), dict[str, Pair]()
        conflicts = list[str]()
        for pair in pairs:
            if problem := form.problem(pair.source):
                name = f"line {pair.line}" if pair.line else quoted(pair.source, LONGEST)
                raise ExceptionsError(f"{place}{name} has {problem}")
            earlier = first.setdefault(exceptions._normalise(pair.source), pair)
            if composed(earlier.target) != composed(pair.target):
                lines = f" (lines {earlier.line} and {pair.line})" if pair.line else ""
                conflicts.append(f"{quoted(earlier.source, LONGEST)}{lines}")
        if conflicts:
            raise ExceptionsError(
                f"{place}several targets for {listed(conflicts, SHOWN)}: keep one target for each "
                "source"
            )
        targets = {source: composed(pair.target) for source, pair in first.items()}
        return cls(targets, form)

    def among(self, sources: Sequence[str], prefixes: Sequence[str] = ()) -> dict[int, str]:
        """Return the targets of the sources that are exceptions, by the places of the sources. A
        source with a prefix is no exception."""
        targets = {
            place: self.targets.get(self._normalise(source))
            for place, source in enumerate(sources)
            if not prefixes or is_blank_text(prefixes[place])
        }
        return {place: target for place, target in targets.items() if target is not None}

    def _normalise(self, source: str) -> str:
        """Return a source as the model reads it."""
        tokenizer = self.form.tokenizer
        return composed(source) if tokenizer is None else tokenizer.normalise(source)


ExceptionsOrFile: TypeAlias = Exceptions | Mapping[str, str] | str | Path


def _read(path: Path, model: TranslationModel | ClassificationModel) -> Sequence[Pair]:
    """Return the pairs of a file. Its columns, if it has others, and lines that are left out are in
    the log."""
    from regard.tasks.all_tasks import task_of
    from regard.tasks.evaluation import EvaluationOptions

    try:
        corpus = task_of(model.data).read(model, path, EvaluationOptions())
    except UserError as error:
        raise ExceptionsError(f"exceptions: {error}") from error
    if corpus.columns is not None:
        columns = corpus.columns.source, " ".join(corpus.columns.targets)
        log.warning("%s: sources in column %s, targets in column %s", path, *columns)
    for sentence in corpus.summary():
        log.warning("%s", sentence)
    return corpus.pairs
