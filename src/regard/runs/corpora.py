"""Where a task's pairs come from: files in the forms that its data have, or rules that make
them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.config import AnswerDataConfig, CaptionDataConfig, Data, DataConfig
from regard.data.examples import Corpus
from regard.data.generated import generate
from regard.data.generated.scenes import NUM_WORDINGS, captioned, split_scenes
from regard.data.images.annotations import Lists, read_captions
from regard.data.labels.readers import Columns, read_labelled, split_files
from regard.data.splits import MOST_HELD_OUT
from regard.data.text.parallel import read_pairs
from regard.data.text.streamed import PairFiles
from regard.errors import UserError

LARGE = 1 << 25
"""Bytes of files from which on the pairs are not held, and what is made of them is kept."""


@dataclass(frozen=True)
class DataSources:
    """The pairs that are trained on, or dealt out, and those that are for dev and test alone."""

    train: PairFiles | Corpus
    dev: Corpus | None = None
    test: Corpus | None = None


def read_sources(config: Data) -> DataSources:
    """UserError where there are none, or files cannot be read."""
    check_paths(config)
    match config:
        case DataConfig():
            return _translations(config)
        case AnswerDataConfig():
            return _answers(config)
        case CaptionDataConfig():
            return _captions(config)


def check_paths(config: Data) -> None:
    """UserError for a path that nothing reads: a path is never ignored."""
    for name in ("path", "target_path", "pictures", "train_list", "dev_list", "test_list"):
        path = getattr(config, name, None)
        if path is not None and config.generated is not None:
            raise UserError(
                f"data.{name} is {path}, but data.generated {config.generated} makes the data: set "
                "data.generated to None, or leave the path out"
            )
    for name, needed in (("target_path", "path"), ("dev_target_path", "dev_path")):
        path = getattr(config, name, None)
        if path is not None and getattr(config, needed) is None:
            raise UserError(
                f"data.{name} is {path}, the targets of pairs whose sources are missing: set "
                f"data.{needed} too, or leave it out"
            )
    if isinstance(config, AnswerDataConfig) and config.generated is not None:
        for name in ("text_column", "label_column"):
            if getattr(config, name) and config.dev_path is None and config.test_path is None:
                raise UserError(
                    f"data.{name} names a column of a table, but data.generated "
                    f"{config.generated} makes the data: leave it out"
                )


def _translations(config: DataConfig) -> DataSources:
    """Large files are read anew each time. What is no file, a pipe say, can be read only once."""
    dev = None
    if config.generated is not None:
        train: PairFiles | Corpus = Corpus(
            generate(config.generated, config.generated_size, config.seed)
        )
    elif config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE (source, tab, target on each line), "
            "or --data.path SOURCES --data.target-path TARGETS"
        )
    else:
        paths = [path for path in (config.path, config.target_path) if path is not None]
        is_large = sum(path.stat().st_size for path in paths if path.is_file()) >= LARGE
        if is_large and all(path.is_file() for path in paths):
            train = PairFiles.of(config.path, config.target_path)
        else:
            train = read_pairs(config.path, target_path=config.target_path)
    if config.dev_path is not None:
        dev = read_pairs(config.dev_path, target_path=config.dev_target_path)
    return DataSources(train, dev)


def _answers(config: AnswerDataConfig) -> DataSources:
    """A folder may say by its names which files are for dev and test."""
    columns = Columns(config.text_column, config.label_column)

    def read(path: Path | None, train: Corpus) -> Corpus | None:
        if path is None:
            return None
        labels = {pair.target for pair in train.pairs}
        return read_labelled(path, columns, labels if config.answer == "label" else None)

    if config.generated is not None:
        train = Corpus(generate(config.generated, config.generated_size, config.seed))
        return DataSources(train, read(config.dev_path, train), read(config.test_path, train))
    if config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE (text, tab, label on each line; .csv; "
            "or the label first), or a folder with a folder for each label"
        )
    parts = split_files(config.path)
    known: frozenset[str] | None = frozenset() if config.answer == "label" else None
    train = read_labelled(parts["train"], columns, known)
    return DataSources(
        train,
        read(config.dev_path or parts.get("dev"), train),
        read(config.test_path or parts.get("test"), train),
    )


def _captions(config: CaptionDataConfig) -> DataSources:
    """Data may say themselves which pictures are for dev and test."""
    if config.generated is not None:
        return _scenes(config)
    if config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE, a .csv of pictures and captions, "
            "Flickr8k's captions.txt or token.txt, Karpathy's JSON or COCO's"
        )
    lists = Lists(config.train_list, config.dev_list, config.test_list)
    found = read_captions(config.path, config.pictures, lists)
    if not found.train.pairs:
        raise UserError(
            f"{config.path} holds no captions to train on: all are for dev or test. Deal them out "
            "with --data.train-list and the like"
        )
    dev, test = (part if part.pairs else None for part in (found.dev, found.test))
    return DataSources(found.train, dev, test)


def _scenes(config: CaptionDataConfig) -> DataSources:
    """Scenes that are split by number of shapes."""
    usual = min(config.generated_size // 20, MOST_HELD_OUT // NUM_WORDINGS)
    num_dev = _num_scenes("dev_size", config.dev_size, usual)
    num_test = _num_scenes("test_size", config.test_size, usual)
    if num_dev + num_test >= config.generated_size:
        raise UserError(
            f"all {config.generated_size} scenes are held out, which leaves none to train on: "
            "lower --data.dev-size or --data.test-size"
        )
    split = split_scenes(config.generated_size, (num_dev, num_test), config.seed)
    train, dev, test = (Corpus(captioned(part)) for part in (split.train, split.dev, split.test))
    return DataSources(train, dev, test)


def _num_scenes(name: str, num_captions: int | None, usual: int) -> int:
    """Number of scenes with this number of captions. UserError unless it is whole."""
    if num_captions is None:
        return usual
    if num_captions % NUM_WORDINGS:
        raise UserError(
            f"data.{name} is {num_captions}: expected a multiple of {NUM_WORDINGS}, the number of "
            "captions of a scene"
        )
    return num_captions // NUM_WORDINGS
