"""Sources of a task's pairs: files in the formats of the task, or generated data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from regard.characters import composed
from regard.config import CaptionDataConfig, ClassificationDataConfig, Data, DataConfig
from regard.config.corpora import CorpusPaths, is_pattern
from regard.corpora.table_settings import table_settings
from regard.data.examples import Corpus
from regard.data.files.lines import LineProblem
from regard.data.files.objects import corpus_of
from regard.data.generated import generate
from regard.data.generated.scenes import NUM_WORDINGS, captioned, split_scenes
from regard.data.images.annotations import Lists, read_captions
from regard.data.labels.numeric import NamedSeries, Series, parse_items, parse_series
from regard.data.labels.readers import read_labelled, split_files
from regard.data.recognition.decimals import NEARLY_ALL
from regard.data.recognition.table import Table
from regard.data.splits import MAX_HELD_OUT
from regard.data.text.pairs.streamed import PairFiles
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from regard.names import SourceKind
from regard.runtime.progress import OnProgress
from regard.storage.files import exists

LARGE = 1 << 25
"""Size of files in bytes above which pairs are not held in memory and their encoding is cached."""


@dataclass(frozen=True)
class DataSources:
    """Pairs to train on, from which held-out pairs may be taken, and dev and test pairs of files of
    their own."""

    train: PairFiles | Corpus
    dev: Corpus | None = None
    test: Corpus | None = None


def read_sources(
    config: Data, table: Table | None = None, on_progress: OnProgress | None = None
) -> DataSources:
    """Read or generate the pairs of a configuration, or take the rows of a table to train on.
    UserError if there is no data, or if a file cannot be read."""
    check_paths(config)
    has_numbers = getattr(config, "target", None) == "number"
    corpus = None
    if table is not None:
        corpus = corpus_of(table, table_settings(config), config.task, has_numbers=has_numbers)
    match config:
        case DataConfig():
            return _translations(config, corpus)
        case ClassificationDataConfig():
            return _labelled(config, corpus, on_progress)
        case CaptionDataConfig():
            return _captions(config) if corpus is None else _images(corpus, config.images)


def check_paths(config: Data) -> None:
    """Raise a UserError for a path that would be ignored."""
    for name in ("path", "target_path", "images", "train_list", "dev_list", "test_list"):
        path = getattr(config, name, None)
        if path is not None and config.synthetic is not None:
            raise UserError(
                f"data.{name} is {path}, but data.synthetic {config.synthetic} makes the data: set "
                "data.synthetic to None, or leave the path out"
            )
    for name, needed in (("target_path", "path"), ("dev_target_path", "dev_path")):
        path = getattr(config, name, None)
        if path is not None and getattr(config, needed) is None:
            raise UserError(
                f"data.{name} is {path}, the targets of pairs whose sources are missing: set "
                f"data.{needed} too, or leave it out"
            )
    if isinstance(config, ClassificationDataConfig) and config.synthetic is not None:
        for name in ("source_column", "target_column"):
            if getattr(config, name) and config.dev_path is None and config.test_path is None:
                raise UserError(
                    f"data.{name} names a column of a table, but data.synthetic "
                    f"{config.synthetic} makes the data: leave it out"
                )


def _translations(config: DataConfig, corpus: Corpus | None) -> DataSources:
    """Return the pairs of texts. Large files, and several files, are read in every pass; other
    paths, such as pipes, can be read only once and are held in memory."""
    dev, settings = None, table_settings(config)
    if corpus is not None:
        train: PairFiles | Corpus = corpus
    elif config.synthetic is not None:
        train = Corpus(generate(config.synthetic, config.synthetic_size, config.seed))
    elif not config.corpora:
        raise UserError(
            "this recipe needs data: give --data.path FILE (source, tab, target on each line), "
            "or --data.path SOURCES --data.target-path TARGETS"
        )
    else:
        corpora = [matching_files(corpus) for corpus in config.corpora]
        files = [path for pairs in corpora for pair in pairs for path in pair if path is not None]
        is_large = sum(path.stat().st_size for path in files if path.is_file()) >= LARGE
        is_divided = config.mix is not None or len(corpora[0]) > 1
        if is_divided or (is_large and all(path.is_file() for path in files)):
            train = PairFiles.of(corpora, settings)
        else:
            (path, target_path), *_ = corpora[0]
            train = read_pairs(path, target_path=target_path, settings=settings)
    if config.dev_path is not None:
        dev = read_pairs(config.dev_path, target_path=config.dev_target_path, settings=settings)
    return DataSources(train, dev)


def matching_files(corpus: CorpusPaths) -> list[tuple[Path, Path | None]]:
    """Return the files of a corpus: the files of pairs, or the files of sources with those of their
    targets. UserError if no file matches a pattern, or if the numbers of files differ."""
    paths = _matching(corpus.path)
    if corpus.target_path is None:
        return [(path, None) for path in paths]
    targets = _matching(corpus.target_path)
    if len(paths) != len(targets):
        raise UserError(
            f"{corpus.path} names {len(paths)} files and {corpus.target_path} {len(targets)}: "
            "expected a file of targets for each file of sources, in the order of their names"
        )
    return list(zip(paths, targets, strict=True))


def _matching(path: Path) -> list[Path]:
    """Return the files whose names match a pattern, in the order of their names; a file that exists
    is no pattern. Hidden files, such as incomplete copies of rsync, match no pattern that begins
    with another character than a full stop."""
    if not is_pattern(path) or exists(path):
        return [path]
    root = Path(path.anchor)
    try:
        paths = sorted(root.glob(str(path.relative_to(root))))
    except ValueError as error:
        raise UserError(
            f"{path} is no pattern of file names: {error}; use * for any part of a name"
        ) from error
    if not path.name.startswith("."):
        paths = [file for file in paths if not file.name.startswith(".")]
    if not paths:
        raise UserError(f"no file matches {path}")
    return paths


def _labelled(
    config: ClassificationDataConfig, corpus: Corpus | None, on_progress: OnProgress | None
) -> DataSources:
    """Return the labelled sources. A folder may have dev and test files, recognised by their
    names."""
    settings = table_settings(config)

    def read(path: Path | None, train: Corpus) -> Corpus | None:
        if path is None:
            return None
        labels = {pair.target for pair in train.pairs}
        known = labels if config.target == "label" else None
        corpus = read_labelled(path, settings, known)
        return _with_form(corpus.with_units_compared(str(path), train.units), config.source)

    if corpus is not None:
        corpus = _with_form(corpus, config.source)
        if config.target == "label":
            labels = (replace(pair, target=composed(pair.target)) for pair in corpus.pairs)
            corpus = replace(corpus, pairs=tuple(labels))
        return DataSources(corpus, read(config.dev_path, corpus), read(config.test_path, corpus))
    if config.synthetic is not None:
        train = Corpus(generate(config.synthetic, config.synthetic_size, config.seed))
        return DataSources(train, read(config.dev_path, train), read(config.test_path, train))
    if config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE (text, tab, label on each line; .csv; "
            "or the label first), or a folder with a folder for each label"
        )
    files = split_files(config.path)
    known: frozenset[str] | None = frozenset() if config.target == "label" else None
    train = read_labelled(files["train"], settings, known, on_progress)
    train = _with_form(train, config.source)
    return DataSources(
        train,
        read(config.dev_path or files.get("dev"), train),
        read(config.test_path or files.get("test"), train),
    )


def _with_form(corpus: Corpus, kind: SourceKind) -> Corpus:
    """Return a corpus without the few sources that are no series or list of items, or have another
    number of features than the others; they are listed. More of them are an error in training."""
    if kind == "text":
        return corpus
    parse = parse_items if kind == "items" else parse_series
    counts = [_num_features(parse, pair.source) for pair in corpus.pairs]
    usual = Counter(filter(None, counts)).most_common(1)
    if not usual or usual[0][1] == len(counts) or usual[0][1] < NEARLY_ALL * len(counts):
        return corpus
    pairs = zip(corpus.pairs, counts, strict=True)
    result = Corpus.of(
        pair
        if count == usual[0][0]
        else LineProblem(pair.path, pair.line, "no source", pair.source)
        for pair, count in pairs
    )
    return replace(corpus, pairs=result.pairs, problems=(*corpus.problems, *result.problems))


def _num_features(parse: Callable[[str], NamedSeries | Series], text: str) -> int:
    """Return the number of features of a source; 0 if it cannot be parsed."""
    try:
        parsed = parse(text)
    except UserError:
        return 0
    series = parsed.series if isinstance(parsed, NamedSeries) else parsed
    return int(series.values.shape[1])


def _captions(config: CaptionDataConfig) -> DataSources:
    """Return the captioned images. The data may define their dev and test images."""
    if config.synthetic is not None:
        return _scenes(config)
    if config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE, a .csv of images and captions, "
            "Flickr8k's captions.txt or token.txt, Karpathy's JSON or COCO's"
        )
    lists = Lists(config.train_list, config.dev_list, config.test_list)
    captions = read_captions(config.path, config.images, lists, table_settings(config))
    if not captions.train.pairs:
        raise UserError(
            f"{config.path} has no training captions: all are for dev or test. Set the splits with "
            "--data.train-list, --data.dev-list and --data.test-list"
        )
    dev, test = (corpus if corpus.pairs else None for corpus in (captions.dev, captions.test))
    return DataSources(captions.train, dev, test)


def _images(corpus: Corpus, images: Path | None) -> DataSources:
    """Return captions with the absolute paths of their images, which are in the folder `images` or
    in the working directory."""
    folder = (images or Path()).absolute()
    pairs = tuple(replace(pair, source=str(folder / pair.source)) for pair in corpus.pairs)
    return DataSources(replace(corpus, pairs=pairs))


def _scenes(config: CaptionDataConfig) -> DataSources:
    """Return generated scenes, split evenly by number of shapes."""
    default = min(config.synthetic_size // 20, MAX_HELD_OUT // NUM_WORDINGS)
    num_dev = _num_scenes("dev_size", config.dev_size, default)
    num_test = _num_scenes("test_size", config.test_size, default)
    if num_dev + num_test >= config.synthetic_size:
        raise UserError(
            f"all {config.synthetic_size} scenes are held out, which leaves none to train on: "
            "lower --data.dev-size or --data.test-size"
        )
    split = split_scenes(config.synthetic_size, (num_dev, num_test), config.seed)
    train, dev, test = (
        Corpus(captioned(scenes)) for scenes in (split.train, split.dev, split.test)
    )
    return DataSources(train, dev, test)


def _num_scenes(name: str, num_captions: int | None, default: int) -> int:
    """Return the number of scenes with this number of captions. UserError unless it is an
    integer."""
    if num_captions is None:
        return default
    if num_captions % NUM_WORDINGS:
        raise UserError(
            f"data.{name} is {num_captions}: expected a multiple of {NUM_WORDINGS}, the number of "
            "captions of a scene"
        )
    return num_captions // NUM_WORDINGS
