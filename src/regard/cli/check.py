"""`regard check`: look at data before training on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class Options:
    """Counts, lengths, vocabulary, unknown words at each cut-off, duplicates, overlap, and warnings
    of what will go wrong. Nothing is changed."""

    data: tyro.conf.Positional[Path]
    """Pairs: a file with tabs, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    dev: Path | None = None
    """Dev pairs, to see how they overlap with these."""
    test: Path | None = None
    """Test pairs, likewise."""
    tokenizer: Literal["words", "spaces", "characters", "bpe", "unigram", "spacy"] = "words"
    """How text would be cut."""
    source_language: str = "en"
    """For spaCy."""
    target_language: str = "de"
    """For spaCy."""
    lowercase: bool = False
    """Lower-case both sides."""
    max_length: int = 200
    """The longest side that training would take, in tokens."""


def run(arguments: list[str]) -> None:
    """Print the report."""
    options = tyro.cli(Options, args=arguments, prog="regard check")
    from regard.data.checking import CheckSettings, check
    from regard.data.text import read_pairs
    from regard.data.tokenizer import TokenizerSettings

    settings = CheckSettings(
        TokenizerSettings(options.tokenizer, options.source_language, options.lowercase),
        TokenizerSettings(options.tokenizer, options.target_language, options.lowercase),
        options.max_length,
    )
    report = check(
        read_pairs(options.data, target_path=options.target_path),
        dev=read_pairs(options.dev) if options.dev else None,
        test=read_pairs(options.test) if options.test else None,
        settings=settings,
    )
    print("\n".join(report.lines()))
