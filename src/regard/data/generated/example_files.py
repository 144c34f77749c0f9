"""Example files for the recipes of each task, which `regard train FILE` learns.

    letters    number;word;transliteration;notes    Greek words in Latin letters
    words      sentence TAB sentence                dates and times as they are spoken
    labels     id,text,intent,language              requests to an assistant
    values     day;readings;highest                 series with their largest number
    inflection lemma,case,number,form               forms of nouns, with features of the source

The tables have a header, several delimiters, and columns that no model should read.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import date, timedelta

from regard.data.generated.dates import spoken_dates
from regard.data.generated.inflection import forms
from regard.data.generated.intents import requests
from regard.data.generated.readings import readings
from regard.data.generated.transliteration import transliterations
from regard.names import ExampleTable

FIRST_DAY = date(2021, 1, 1)
NUM_DAYS = 3652
"""Number of days after which the days of the readings begin again."""


@dataclass(frozen=True)
class ExampleFile:
    """Contents of an example file."""

    suffix: str
    """Suffix of its name."""
    delimiter: str
    rows: tuple[tuple[str, ...], ...]
    """Rows, the header first if there is one."""
    has_header: bool = True

    @property
    def num_examples(self) -> int:
        """Number of rows without the header."""
        return len(self.rows) - self.has_header

    def text(self, delimiter: str | None = None) -> str:
        """Return the text of the file, with this delimiter or its own."""
        output = io.StringIO()
        csv.writer(output, delimiter=delimiter or self.delimiter, lineterminator="\n").writerows(
            self.rows
        )
        return output.getvalue()


def example_file(name: ExampleTable, count: int, seed: int) -> ExampleFile:
    """Generate an example file of `count` rows. UserError if there are fewer distinct rows."""
    match name:
        case "letters":
            return ExampleFile(
                ".csv",
                ";",
                (
                    ("number", "word", "transliteration", "notes"),
                    *(
                        (str(pair.line), pair.source, pair.target, _note(pair.source))
                        for pair in transliterations(count, seed)
                    ),
                ),
            )
        case "words":
            pairs = spoken_dates(count, seed)
            rows = tuple((pair.source, pair.target) for pair in pairs)
            return ExampleFile(".tsv", "\t", rows, has_header=False)
        case "labels":
            return ExampleFile(
                ".csv",
                ",",
                (
                    ("id", "text", "intent", "language"),
                    *(
                        (f"r{pair.line}", pair.source, pair.target, "en")
                        for pair in requests(count, seed)
                    ),
                ),
            )
        case "values":
            return ExampleFile(
                ".csv",
                ";",
                (
                    ("day", "readings", "highest"),
                    *(
                        (_day(pair.line), pair.source, pair.target)
                        for pair in readings(count, seed)
                    ),
                ),
            )
        case "inflection":
            return ExampleFile(
                ".csv",
                ",",
                (
                    ("lemma", "case", "number", "form"),
                    *((*pair.source.split("\t"), pair.target) for pair in forms(count, seed)),
                ),
            )


def _day(number: int) -> str:
    return (FIRST_DAY + timedelta(number % NUM_DAYS)).isoformat()


def _note(word: str) -> str:
    return "μπ begins the word: b" if word.startswith("μπ") else ""
