"""`regard check`: look at pairs of texts before training on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from regard.cli.options import parse
from regard.config.checks import Count, Length
from regard.names import TokenizerKind

if TYPE_CHECKING:
    from regard.data.examples import Corpus


@dataclass(frozen=True)
class Options:
    """Counts, lengths, vocabulary, unknown words at each cut-off, duplicates, overlap, and warnings
    of what will go wrong, of pairs of texts. What is wrong with labelled texts or with captions is
    said by `regard train`. Nothing is changed."""

    data: tyro.conf.Positional[Path]
    """Pairs: a file with tabs, or the source side of two files."""
    target_path: Path | None = None
    """The target side, where the pairs are in two files."""
    dev: Path | None = None
    """Dev pairs, to see how they overlap with these."""
    dev_target_path: Path | None = None
    """Their target side, where they are in two files."""
    test: Path | None = None
    """Test pairs, likewise."""
    test_target_path: Path | None = None
    """Their target side, where they are in two files."""
    tokenizer: TokenizerKind = "words"
    """How text would be cut."""
    target_tokenizer: TokenizerKind | None = None
    """The same for the target, where it is another."""
    min_count: Count = 1
    """Words that occur less often in training would become <unk>."""
    vocabulary_size: Count | None = None
    """The largest vocabulary a side."""
    source_language: str = "en"
    """For spaCy."""
    target_language: str = "de"
    """For spaCy."""
    lowercase: bool = False
    """Lower-case both sides."""
    max_length: Length = 200
    """The longest side that training would take, in tokens."""


def run(arguments: list[str]) -> None:
    """Print the report."""
    options = parse(Options, arguments, "regard check")
    from regard.data.text.parallel import read_pairs
    from regard.data.text.report import CheckSettings, check
    from regard.data.text.tokenizer import TokenizerSettings

    cut = TokenizerSettings(
        options.tokenizer,
        options.source_language,
        options.lowercase,
        options.min_count,
        options.vocabulary_size,
    )
    target = replace(
        cut, kind=options.target_tokenizer or cut.kind, language=options.target_language
    )
    report = check(
        read_pairs(options.data, target_path=options.target_path),
        dev=_pairs(options.dev, options.dev_target_path),
        test=_pairs(options.test, options.test_target_path),
        settings=CheckSettings(cut, target, options.max_length),
    )
    print("\n".join(report.lines()))


def _pairs(path: Path | None, target_path: Path | None) -> Corpus | None:
    from regard.data.text.parallel import read_pairs

    return read_pairs(path, target_path=target_path) if path else None
