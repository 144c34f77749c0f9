"""`regard check`: inspect data before training."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.output import say
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    DataConfig,
    Experiment,
)
from regard.config.checks import Count, Length
from regard.config.corpora import is_pattern
from regard.errors import UserError
from regard.names import FORMAT, DecimalMark, TargetKind, TaskName, TokenizerKind
from regard.storage.files import check_input, exists

if TYPE_CHECKING:
    from regard.corpora.sources import DataSources
    from regard.data.examples import Corpus
    from regard.data.files.tables import TableSettings
    from regard.data.text.pairs.streamed import PairFiles


PREFIX = "--data."
"""Prefix of the options of `regard train`, which the printed lines name."""
PAIR_OPTIONS = (
    *("dev_target_path", "test_target_path", "tokenizer", "target_tokenizer", "min_count"),
    *("vocabulary_size", "source_language", "target_language", "lowercase", "max_length"),
)
"""Options that only pairs of texts have."""


@dataclass(frozen=True)
class Options:
    """Report on data before training: the task and the columns that are recognised, counts, and
    reasons why little can be learned, with the option that helps. For pairs of texts also lengths,
    vocabulary, unknown words by cut-off, duplicates and overlap of splits. Nothing is changed. The
    exit status is 1 if training would stop."""

    data: Positional[Path | None] = None
    """Data to train on: a file of pairs, labels, captions or values, a folder of labelled texts,
    the file of the sources, or a pattern of files of pairs, such as 'shards/*.tsv.gz'."""
    mix: tuple[str, ...] = ()
    """Several corpora of pairs in place of the data, each FILE:WEIGHT or SOURCES,TARGETS:WEIGHT, as
    of --data.mix in training."""
    task: TaskName | None = None
    """Task of the data (default: recognised)."""
    target: TargetKind | None = None
    """Kind of the targets of the classification task (default: recognised)."""
    source_column: str | None = None
    """Source column, by name or by number from 1 (default: recognised)."""
    target_column: str | None = None
    """Target column, by name or by number from 1 (default: recognised)."""
    feature_columns: tuple[str, ...] = ()
    """Columns of features of the source, by name or by number from 1."""
    encoding: str | None = None
    """Encoding of the file, such as cp1253 (default: recognised)."""
    delimiter: str | None = None
    """Delimiter of columns (default: recognised)."""
    header: bool | None = None
    """Whether the first row names the columns (default: recognised)."""
    sheet: str | None = None
    """Sheet of a workbook (default: the first with a table)."""
    decimal_mark: DecimalMark | None = None
    """Decimal mark of target numbers, if the file does not decide it (default: recognised)."""
    images: Path | None = None
    """Captions: folder of the images (default: the folder of the captions)."""
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
    tokenizer: TokenizerKind | None = None
    """Tokenizer of the sources (default: that of the recipe that suits the file, otherwise
    words)."""
    target_tokenizer: TokenizerKind | None = None
    """Tokenizer of the targets (default: that of the recipe, otherwise that of the sources)."""
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


def run(arguments: list[str]) -> int:
    """Print the report; return 1 if training would stop."""
    names = [
        f"--{word.removeprefix(PREFIX)}" if word.startswith(PREFIX) else word for word in arguments
    ]
    options = parse(Options, names, "regard check")
    several = _several_files(options)
    experiment, problem = _experiment(options, several)
    from regard.corpora.sources import LARGE, read_sources

    if experiment is None:
        sources = None if several is None else read_sources(several)
        _print_report(options, several or DataConfig(), sources)
        return 0
    _check_options(options, experiment.data.task)
    if problem:
        say(f"training would stop: {problem}")
    stops = 1 if problem else 0
    if not isinstance(experiment.data, DataConfig):
        return _print_check(experiment) or stops
    sources = read_sources(experiment.data)
    _print_report(options, experiment.data, sources)
    # Encoding as for training would take long.
    is_large = sum(path.stat().st_size for path in _files(experiment.data)) >= LARGE
    return stops if is_large else _print_check(experiment, sources) or stops


def _several_files(options: Options) -> DataConfig | None:
    """Return the data of several files: those of --mix, or those that match a pattern; None for
    other data. UserError unless either --mix or the data is set, and for another task than
    translate."""
    path = options.data
    if (path is None) == (not options.mix):
        came = "neither came" if path is None else f"{path} and --mix came"
        raise UserError(f"expected either a file, folder or pattern, or --mix CORPUS ...; {came}")
    if path is not None and (not is_pattern(path) or exists(path)):
        return None
    if options.task not in (None, "translate"):
        raise UserError(
            f"{path or '--mix'} names several files, which can only have pairs of texts, but "
            f"--task is {options.task}: leave it out, or name one file"
        )
    return DataConfig(
        path=path,
        target_path=options.target_path,
        mix=options.mix or None,
        feature_columns=options.feature_columns or None,
        **{name: getattr(options, name) for name in (*FORMAT, "source_column", "target_column")},
    )


def _files(data: DataConfig) -> list[Path]:
    """Return the files of pairs, or of the sources and targets. UserError if a pattern has none."""
    from regard.corpora.sources import matching_files

    pairs = chain.from_iterable(map(matching_files, data.corpora))
    return [path for path in chain.from_iterable(pairs) if path is not None]


def _experiment(options: Options, several: DataConfig | None) -> tuple[Experiment | None, str]:
    """Return the experiment that suits the data, and the choice of columns that the user has to
    make, if any. Print what is recognised, of several files in the first. No experiment for pairs
    that are not inspected: those of two files and of a pipe."""
    from regard.cli.parsing.experiments import find_experiment, inspect_file

    path = options.data
    if several is not None:
        path = None if several.corpora[0].target_path else _files(several)[0]
    if path is None or options.target_path is not None:
        return None, ""
    name = str(path)
    if path.is_dir():
        if (path / "config.yaml").exists():
            raise UserError(f"{name} is a run folder: expected data to train on")
        labels = find_experiment("labels", {})
        return replace(labels, data=replace(labels.data, path=path)), ""
    check_input(path)
    if not path.is_file():
        return None, ""
    form = {name: getattr(options, name) for name in FORMAT}
    fields = (*FORMAT, "target", "source_column", "target_column", "decimal_mark")
    named: dict[str, Any] = {f"data.{name}": getattr(options, name) for name in fields}
    named["data.task"] = options.task if several is None else "translate"
    named["data.feature_columns"] = options.feature_columns or None
    inspection = inspect_file(name, named)
    if several is not None:
        print(f"{len(_files(several))} files; recognised in the first:")
    if inspection is not None:
        say("\n".join(inspection.lines()))
    problem = "" if inspection is None or several is not None else inspection.problem
    experiment = find_experiment(name, named)
    data = replace(experiment.data, **form)
    if isinstance(data, CaptionDataConfig):
        data = replace(data, images=options.images)
    else:
        data = replace(data, feature_columns=options.feature_columns or None)
    if isinstance(data, DataConfig):
        data = replace(data, dev_path=options.dev, dev_target_path=options.dev_target_path)
        if options.tokenizer is not None:
            data = replace(data, tokenizer=options.tokenizer)
        if several is not None:
            same = ("path", "mix", "source_column", "target_column")
            data = replace(data, **{name: getattr(several, name) for name in same})
    if isinstance(data, ClassificationDataConfig):
        mark = options.decimal_mark or data.decimal_mark
        data = replace(data, dev_path=options.dev, test_path=options.test, decimal_mark=mark)
    return replace(experiment, data=data), problem


def _check_options(options: Options, task: TaskName) -> None:
    """Raise a UserError for an option of pairs of texts with other data."""
    defaults = {field.name: field.default for field in fields(Options)}
    names = list[str]() if task == "translate" else [*PAIR_OPTIONS]
    names += ("dev", "test") if task == "caption" else ("images",)
    names += () if task == "classify" else ("decimal_mark",)
    names += ("feature_columns",) if task == "caption" else ()
    unused = [name for name in names if getattr(options, name) != defaults[name]]
    if unused:
        raise UserError(
            f"--{unused[0].replace('_', '-')} has no effect on {options.data}, data for data.task "
            f"{task}: leave it out"
        )


def _print_check(experiment: Experiment, sources: DataSources | None = None) -> int:
    """Print findings as training has them, and counts unless the pairs were read for the report;
    return 1 if training would stop."""
    from regard.cli.progress import PreparationView
    from regard.pipeline.check import check_data

    with PreparationView() as on_progress:
        result = check_data(experiment, on_progress, sources)
    if sources is None:
        say("\n".join((*result.counts, *(f"warning: {line}" for line in result.left_out))))
    for finding in result.findings:
        label = "training would stop" if finding.severity == "stop" else "warning"
        say(f"{label}: {finding.text}")
    return 1 if any(finding.severity == "stop" for finding in result.findings) else 0


def _print_report(options: Options, data: DataConfig, sources: DataSources | None) -> None:
    """Print the report on pairs of texts, by default with the tokenizers of the recipe. Without
    sources, the pairs are those of a pipe or of two files."""
    from regard.corpora.table_settings import table_settings
    from regard.data.text.report import CheckSettings, check
    from regard.data.text.tokenizer import TokenizerSettings

    settings = None if data.path is None and data.mix is None else table_settings(data)
    if sources is None:
        pairs = _pairs(options.data, options.target_path, settings)
    else:
        pairs = _all_pairs(sources.train, data)
    cut = TokenizerSettings(
        options.tokenizer or data.tokenizer,
        options.source_language,
        options.lowercase,
        options.min_count,
        options.vocabulary_size or (None if options.tokenizer else data.vocabulary_size),
    )
    target_kind = None if options.tokenizer else data.target_tokenizer
    target = replace(
        cut,
        kind=options.target_tokenizer or target_kind or cut.kind,
        language=options.target_language,
    )
    if pairs is None:
        return
    report = check(
        pairs,
        dev=_pairs(options.dev, options.dev_target_path, settings),
        test=_pairs(options.test, options.test_target_path, settings),
        settings=CheckSettings(cut, target, options.max_length),
    )
    say("\n".join(report.lines()))


def _all_pairs(source: PairFiles | Corpus, data: DataConfig) -> Corpus:
    """Return the pairs of the training data. UserError if there is no pair."""
    from regard.data.examples import Corpus
    from regard.data.text.parallel import no_pairs

    corpus = source if isinstance(source, Corpus) else source.read()
    if not corpus.pairs:
        raise no_pairs((_files(data)[0], None), corpus.left_out)
    return corpus


def _pairs(
    path: Path | None, target_path: Path | None, settings: TableSettings | None
) -> Corpus | None:
    from regard.data.text.parallel import read_pairs

    return read_pairs(path, target_path=target_path, settings=settings) if path else None
