"""Comparison of tokenizers."""

from __future__ import annotations

from regard.data.text.features import FeatureTokenizer
from regard.data.text.tokenizer import Tokenizer

AnyTokenizer = Tokenizer | FeatureTokenizer
"""Tokenizer of a text, with or without columns of features."""


def tokenizer_difference(ours: AnyTokenizer, theirs: AnyTokenizer, side: str = "") -> str:
    """Return the difference between two tokenizers, in words. Empty if both encode every text as
    the same token numbers. `side` stands before the noun, such as "source "."""
    if ours.vocabulary != theirs.vocabulary:
        return f"their {side}vocabularies differ ({_difference(ours, theirs)})"
    if _described(ours) != _described(theirs):
        return f"their {side}tokenizers differ ({_described(ours)} and {_described(theirs)})"
    return ""


def _described(tokenizer: AnyTokenizer) -> str:
    """Return the kind of a tokenizer and whether it lower-cases, in words."""
    settings = tokenizer.settings
    words = [settings.kind, settings.language if settings.kind == "spacy" else ""]
    return " ".join([*filter(None, words), "lower-cased" if settings.lowercase else "cased"])


def _difference(ours: AnyTokenizer, theirs: AnyTokenizer) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours):,} and {len(theirs):,} pieces"
    pairs = enumerate(zip(ours.vocabulary, theirs.vocabulary, strict=True))
    number, (first, second) = next(pair for pair in pairs if len(set(pair[1])) > 1)
    return f"number {number} is {first!r} and {second!r}"
