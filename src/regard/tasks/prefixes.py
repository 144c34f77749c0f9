"""Prefixes that outputs have to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from regard.characters import is_blank_text
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError, listed
from regard.tasks.arguments import check_texts

SHOWN = 5
"""Number of unknown parts of a prefix in a message."""


class PrefixError(UserError, ValueError):
    """A prefix that the model cannot write."""


def check_prefix(prefix: Any, number: int) -> list[str]:
    """Return the prefix of each of this number of sources; "" for none. A str is the prefix of all
    of them. ValueError for another number of prefixes."""
    if prefix is None or isinstance(prefix, str):
        return check_texts("prefix", list(repeat(prefix or "", number)))
    prefixes = check_texts("prefix", prefix)
    if len(prefixes) != number:
        raise ValueError(
            f"prefix has {len(prefixes)} entries: expected a str for all, or one entry for each "
            f"of {number} sources"
        )
    return prefixes


def without_end(prefixes: Sequence[str], tokens: Sequence[list[int]], end: int) -> list[list[int]]:
    """Return the tokens of prefixes, encoded with this end, without it; none for a blank prefix."""
    return [
        [] if is_blank_text(prefix) else ids[:-1] if ids[-1:] == [end] else ids
        for prefix, ids in zip(prefixes, tokens, strict=True)
    ]


def problem_of_prefix(
    prefix: str, tokens: Sequence[int], tokenizer: Tokenizer, maximum: int
) -> str | None:
    """Return why the model cannot write a prefix with these tokens in an output of at most
    `maximum` tokens; None if it can."""
    if tokenizer.has_unknown(tokens):
        parts = dict.fromkeys(tokenizer.unknown_in(prefix))
        shown = listed([f'"{part}"' for part in parts], SHOWN)
        return f"a prefix with {shown}, which the vocabulary lacks"
    if len(tokens) > maximum:
        return (
            f"a prefix of {len(tokens)} tokens: expected at most {maximum}, the maximum length of "
            "the output (search.max_length)"
        )
    return None


def check_prefixes(problems: Sequence[str | None], name: str) -> None:
    """Raise a PrefixError for the first source whose prefix has a problem. `name` is that of the
    argument with the sources."""
    for place, problem in enumerate(problems):
        if problem:
            text = f"{name}[{place}]" if len(problems) > 1 else f"the {name}"
            raise PrefixError(f"{text} has {problem}")
