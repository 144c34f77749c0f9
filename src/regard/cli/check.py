"""`regard check`: inspect pairs of texts before training."""

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
    """Report on pairs of texts: counts, lengths, vocabulary, unknown words by cut-off, duplicates,
    overlap of splits, and warnings. Nothing is changed. For labels and captions, `regard train`
    reports problems."""

    data: tyro.conf.Positional[Path]
    """Training pairs: a file with source TAB target on each line, or the file of the sources."""
    target_path: Path | None = None
    """File of the targets, if the pairs are in two files."""
    dev: Path | None = None
    """Dev pairs, to report the overlap with the training pairs."""
    dev_target_path: Path | None = None
    """File of the dev targets, if the pairs are in two files."""
    test: Path | None = None
    """Test pairs, to report the overlap with the training pairs."""
    test_target_path: Path | None = None
    """File of the test targets, if the pairs are in two files."""
    tokenizer: TokenizerKind = "words"
    """Tokenizer of the sources."""
    target_tokenizer: TokenizerKind | None = None
    """Tokenizer of the targets (default: that of the sources)."""
    min_count: Count = 1
    """Number of occurrences below which a word becomes <unk>."""
    vocabulary_size: Count | None = None
    """Largest number of tokens in the vocabulary of a side."""
    source_language: str = "en"
    """Language of spaCy's tokenizer for the sources."""
    target_language: str = "de"
    """Language of spaCy's tokenizer for the targets."""
    lowercase: bool = False
    """Lower-case both sides."""
    max_length: Length = 200
    """Largest number of tokens on a side in training."""


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
