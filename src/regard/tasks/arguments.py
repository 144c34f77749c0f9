"""Checks of the arguments of public methods."""

from __future__ import annotations

import operator
import warnings
from collections.abc import ItemsView, Iterable, KeysView, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Data, Experiment, SearchConfig
from regard.config.checks import MAX_VALUE_LENGTH, format_value
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
    """Return the texts (or paths) of an argument as a list: those of a list, an iterator, an array,
    a series, or a data frame of one column. TypeError for anything else."""
    expected = " or ".join(kind.__name__ for kind in kinds)
    columns = columns_of(values)
    if columns is not None:
        if len(columns) != 1:
            raise TypeError(
                f"{name} is a data frame of {len(columns)} columns: expected one column, such as "
                'frame["text"]'
            )
        values = values[columns[0]]
    if isinstance(values, Mapping) and any(value is not None for value in values.values()):
        wrong = _wrong(name, values, f"{expected}, or an iterable of them")
        raise TypeError(f"{wrong}; for the values of a dictionary: list(x.values())")
    entries = _entries(name, values, f"{expected}, or an iterable of them")
    for number, entry in enumerate(entries):
        if not isinstance(entry, kinds):
            raise TypeError(_wrong(f"{name}[{number}]", entry, expected))
        if isinstance(entry, str):
            _check_surrogates(f"{name}[{number}]", entry)
            entries[number] = str(entry)  # texts of NumPy are of a type of their own
    return entries


def check_pairs(pairs: Any) -> list[tuple[str, str]]:
    """Return pairs of texts as a list: those of a list, an iterator, an array of two columns, a
    data frame or dictionaries. TypeError for anything else."""
    expected = "a pair of str: source and target"
    columns = columns_of(pairs)
    if columns is not None:
        names = _sides("pairs", columns)
        pairs = zip(*(_entries("pairs", pairs[name], expected) for name in names), strict=True)
    entries = _entries("pairs", pairs, "an iterable of pairs of str")
    result = []
    for number, entry in enumerate(entries):
        place = f"pairs[{number}]"
        if isinstance(entry, Mapping):
            sides = [entry[name] for name in _sides(place, list(entry))]
        else:
            has_order = isinstance(entry, tuple | list) or hasattr(entry, "tolist")
            sides = _entries(place, entry, expected) if has_order else []
        if len(sides) != 2 or not all(isinstance(text, str) for text in sides):
            raise TypeError(_wrong(place, entry, expected))
        source, target = map(str, sides)
        _check_surrogates(f"{place}[0]", source)
        _check_surrogates(f"{place}[1]", target)
        result.append((source, target))
    return result


def columns_of(values: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame; None for anything else."""
    names = getattr(values, "column_names", None)
    names = getattr(values, "columns", None) if names is None else names
    if not isinstance(names, Iterable) or isinstance(values, Mapping):
        return None
    return list(names) if hasattr(values, "__getitem__") else None


def _sides(place: str, names: Sequence[Any]) -> Sequence[Any]:
    """Return the names of source and target: these, or both of two names. TypeError for other
    names."""
    if {"source", "target"} <= set(names):
        return ("source", "target")
    if len(names) != 2:
        shown = ", ".join(map(str, names))[:MAX_VALUE_LENGTH]
        raise TypeError(f"{place} has the columns {shown}: expected source and target")
    return names


def _entries(name: str, values: Any, expected: str) -> list[Any]:
    """Return the entries of an argument in their order. TypeError without an order."""
    if isinstance(values, Set) and not isinstance(values, KeysView | ItemsView):
        raise TypeError(f"{_wrong(name, values, expected)}; it has no order: make it a list")
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | bytearray):
        raise TypeError(_wrong(name, values, expected))
    # an array of NumPy, a series of pandas, or an array of Arrow
    to_list = getattr(values, "tolist", getattr(values, "to_pylist", None))
    entries = list(values) if to_list is None else to_list()
    if not isinstance(entries, list):  # an array without an axis
        raise TypeError(_wrong(name, values, expected))
    return entries


def _check_surrogates(place: str, text: str) -> None:
    """Raise a UserError for half of a surrogate pair."""
    if SURROGATE.search(text):
        raise UserError(
            f"{place} is {ascii(text)[:80]}: it has half of a surrogate pair; correct it"
        )


def search_of(
    experiment: Experiment, search: Any, beam: Any = None, num_best: Any = 1
) -> SearchConfig:
    """Return the search of a call: `search`, or the run's own search with this beam. Its beam has
    at least `num_best` hypotheses.

    TypeError for an argument of another type. UserError for a number below 1, and for a beam
    beside a search."""
    if search is not None and not isinstance(search, SearchConfig):
        raise TypeError(_wrong("search", search, "a regard.config.SearchConfig or None"))
    beam = None if beam is None else _whole_number("beam", beam)
    num_best = _whole_number("num_best", num_best)
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
    if result.beam >= num_best:
        return result
    warnings.warn(
        f"num_best {num_best} searches with a beam of {num_best} in place of {result.beam}, so the "
        f"best outputs may differ; a beam of {num_best} has the same best outputs",
        stacklevel=3,
    )
    return replace(result, beam=num_best)


def _whole_number(name: str, value: Any) -> int:
    """Return a whole number, such as one of NumPy, as int. TypeError for anything else."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(_wrong(name, value, "a whole number"))


def check_path(name: str, value: Any) -> None:
    """TypeError unless the value is a str or a Path."""
    if not isinstance(value, str | Path):
        raise TypeError(_wrong(name, value, "str or Path"))


def _wrong(name: str, value: object, expected: str) -> str:
    return f"{name} is {format_value(value)} ({type(value).__name__}): expected {expected}"
