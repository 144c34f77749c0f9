"""The corpus of all contestants, as text and as subwords."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.text.parallel import read_pairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings

PARTS = {"train": "train", "val": "val", "test": "test_2016_flickr"}
VOCABULARY = 8000


@dataclass(frozen=True)
class Corpus:
    """Folder with the text (`train.en`) and the subwords (`train.pieces.en`) of each split and
    `vocabulary.txt`; for real text also `tokenizer.json`."""

    folder: Path


def prepare(data: Path, folder: Path) -> Corpus:
    """Read Multi30k (`train`, `val` and `test_2016_flickr`, `.en` and `.de`, also as `.gz`), learn
    joint subwords from the train split, and tokenize all splits."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "tokenizer.json"
    if done.exists():
        return Corpus(folder)
    read = {part: _read(data, name) for part, name in PARTS.items()}
    settings = TokenizerSettings("bpe", size=VOCABULARY)
    sides = {side: [pair[side] for pair in read["train"]] for side in (0, 1)}
    tokenizer = Tokenizer.train([*sides[0], *sides[1]], settings)
    for part, pairs in read.items():
        for side, language in enumerate(("en", "de")):
            texts = [pair[side] for pair in pairs]
            pieces = [" ".join(tokenizer.encode(text).pieces) for text in texts]
            _write(folder / f"{part}.{language}", texts)
            _write(folder / f"{part}.pieces.{language}", pieces)
    _write(folder / "vocabulary.txt", list(tokenizer.vocabulary))
    tokenizer.save(done)
    return Corpus(folder)


def _read(data: Path, name: str) -> list[tuple[str, str]]:
    paths = [_existing(data, f"{name}.{language}") for language in ("en", "de")]
    return [(pair.source, pair.target) for pair in read_pairs(paths[0], target_path=paths[1]).pairs]


def _existing(data: Path, name: str) -> Path:
    for path in (data / name, data / f"{name}.gz"):
        if path.exists():
            return path
    raise SystemExit(f"{data} has neither {name} nor {name}.gz: expected Multi30k's files")


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
