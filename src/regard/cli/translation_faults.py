"""Lines and rows that were not translated as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.cli.lines import (
    MOSTLY,
    warn_of_cut,
    warn_of_long,
    warn_of_refused,
)
from regard.cli.source_faults import SourceFaults
from regard.data.files.lines import numbers_of

if TYPE_CHECKING:
    from regard.data.files.source_table import SourceTable
    from regard.tasks.generation import GeneratedText
    from regard.tasks.source_form import SourceForm
    from regard.tasks.translation.limits import LengthLimit
    from regard.tasks.translation.model import TranslationModel


@dataclass
class TranslationFaults(SourceFaults):
    """Faults of an input or of a part of it, by the numbers of their lines, from 1. As a dictionary
    they can be merged with those of other parts."""

    refused: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    """Lines of outputs that were cut at the maximum length, once for each output."""

    def without(
        self, problems: Sequence[str | None], sources: Sequence[Any], texts: Sequence[str]
    ) -> list[str]:
        """Add the lines of sources whose prefix has a problem, and return the texts with blank ones
        in their place."""
        for source, problem in zip(sources, problems, strict=True):
            if problem:
                self.form.unfit.setdefault(problem, []).append(source.line)
                self.num_refused += 1
        return ["" if problem else text for text, problem in zip(texts, problems, strict=True)]

    def add(self, number: int, translation: GeneratedText, translator: TranslationModel) -> None:
        """Add the line with this number, from 1, if its translation reports a fault, and count
        exceptions."""
        self.num_exceptions += translation.is_exception
        if translation.is_refused:
            self.refused.append(number)
            self.num_refused += 1
            return
        outputs = translation, *translation.alternatives
        self.cut += [number] * sum(output.is_cut for output in outputs)
        if translation.is_long:
            self.long.append(number)
        if translation.unknown > MOSTLY:
            self.unknown.add(number, translator.unknown_in(translation.source))

    def warn(
        self, max_length: int, limit: LengthLimit, form: SourceForm, table: SourceTable | None
    ) -> None:
        """Report the faults. Sources have at most `max_length` tokens in training, and at most
        those of the limit in decoding."""
        self.warn_of_form(form, table)
        warn_of_long(
            self.long,
            max_length,
            "they are longer than all training sources, so translations may be poor",
        )
        warn_of_refused(
            self.refused,
            limit.tokens,
            f"no output ({limit.field}); split the lines into sentences, or {limit.remedy}",
        )
        self.unknown.warn()
        warn_of_cut(len(self.cut), numbers_of(list(dict.fromkeys(self.cut))))

    def clear(self) -> None:
        super().clear()
        self.refused.clear()
        self.cut.clear()
