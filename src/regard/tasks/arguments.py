"""Checks of the arguments of public methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Data, Experiment, SearchConfig
from regard.config.checks import format_value
from regard.data.files.lines import SURROGATE
from regard.errors import UserError

AnyData = TypeVar("AnyData", bound=Data)


def sections_of(experiment: Experiment, kind: type[AnyData], name: str) -> tuple[AnyData, Any]:
    """Return the sections data and model of an experiment of the task that has this kind of data.
    UserError for another task, with the name of the experiment's run."""
    data = experiment.data
    if not isinstance(data, kind):
        raise UserError(wrong_task(data.task, kind.task, name))
    return data, experiment.model


def wrong_task(task: str, expected: str, name: str) -> str:
    """Return the message about a run of another task."""
    return f"data.task of {name} is {task}: expected a run with data.task {expected}"


def check_single(run: str | Path, others: Sequence[str | Path]) -> None:
    """Raise a UserError if there are other runs: the task has no ensembles."""
    if others:
        raise UserError(
            f"{run} and {others[0]} cannot be an ensemble: expected runs that translate. Name one "
            "run"
        )


def check_texts(name: str, values: Any, kinds: tuple[type, ...] = (str,)) -> list[Any]:
    """Return the texts (or paths) of an argument as a list. TypeError for anything else."""
    expected = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(values, Iterable) or isinstance(values, bytes | bytearray):
        raise TypeError(_wrong(name, values, f"{expected}, or an iterable of them"))
    entries = list(values)
    for number, entry in enumerate(entries):
        if not isinstance(entry, kinds):
            raise TypeError(_wrong(f"{name}[{number}]", entry, expected))
        if isinstance(entry, str) and SURROGATE.search(entry):
            raise UserError(
                f"{name}[{number}] is {ascii(entry)[:80]}: it has half of a surrogate pair; "
                "correct it"
            )
    return entries


def check_pairs(pairs: Any) -> list[tuple[str, str]]:
    """Return pairs of texts as a list. TypeError for anything else."""
    expected = "a pair of str: source and target"
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes | bytearray):
        raise TypeError(_wrong("pairs", pairs, "an iterable of pairs of str"))
    entries = list(pairs)
    for number, entry in enumerate(entries):
        is_pair = isinstance(entry, tuple | list) and len(entry) == 2
        if not is_pair or not all(isinstance(text, str) for text in entry):
            raise TypeError(_wrong(f"pairs[{number}]", entry, expected))
    return [(source, target) for source, target in entries]


def search_of(
    experiment: Experiment, search: Any, beam: Any = None, num_best: Any = 1
) -> SearchConfig:
    """Return the search of a call: `search`, or the run's own search with this beam. Its beam has
    at least `num_best` hypotheses.

    TypeError for an argument of another type. UserError for a number below 1, and for a beam
    beside a search."""
    if search is not None and not isinstance(search, SearchConfig):
        raise TypeError(_wrong("search", search, "a regard.config.SearchConfig or None"))
    for name, number in (("beam", 1 if beam is None else beam), ("num_best", num_best)):
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(_wrong(name, number, "a whole number"))
    if num_best < 1:
        raise UserError(f"num_best (--nbest) is {num_best}: expected 1 or more")
    if search is not None and beam is not None:
        raise UserError(
            f"beam is {beam} and search has a beam of {search.beam}: leave beam out, or set it in "
            "search"
        )
    result: SearchConfig = search or experiment.search
    if beam is not None:
        result = replace(result, beam=beam)
    return result if result.beam >= num_best else replace(result, beam=num_best)


def check_path(name: str, value: Any) -> None:
    """TypeError unless the value is a str or a Path."""
    if not isinstance(value, str | Path):
        raise TypeError(_wrong(name, value, "str or Path"))


def _wrong(name: str, value: object, expected: str) -> str:
    return f"{name} is {format_value(value)} ({type(value).__name__}): expected {expected}"
