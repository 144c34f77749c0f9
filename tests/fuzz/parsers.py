"""The parsers to fuzz, each with the files that its inputs are made of."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow  # type: ignore[import-untyped]
import torch
from PIL import Image
from pyarrow import parquet  # type: ignore[import-untyped]
from safetensors.torch import save

from regard import recipes
from regard.data.files.tables import TableSettings
from regard.data.images.annotations import read_captions
from regard.data.images.images import decode_image, read_image
from regard.data.labels.numeric import parse_items, parse_series
from regard.data.labels.readers import read_labelled
from regard.data.text.features import load_source
from regard.data.text.parallel import read_pairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.data.text.vectors import read_external
from regard.errors import UserError
from regard.metrics.alignment import read_pharaoh
from regard.runs.folder import RunFolder
from regard.storage.weights import read_tensors
from tests.data.files.test_workbooks import cells_of, workbook

FORMATS = ("PNG", "JPEG", "GIF", "TIFF", "BMP", "PPM", "WEBP", "ICO", "TGA", "PCX", "SGI", "DDS")


@dataclass(frozen=True)
class Parser:
    """An entrance for bytes of other people."""

    read: Callable[[Path], object]
    """Reads a file; UserError for anything that it cannot read."""
    seeds: Callable[[], Iterator[bytes]]
    """Good inputs, which are mutated."""
    name: str = "input"
    """Name of the file that is read."""
    words: tuple[bytes, ...] = ()
    """Parts of the format, which mutations put in."""


def _pairs() -> Iterator[bytes]:
    content = "hello\thallo\nlo\tla\tCC\r\n\nλόγος\tlogos\n".encode()
    yield content
    yield b"\xef\xbb\xbf" + content * 3
    yield gzip.compress(content, mtime=0)


def _tables() -> Iterator[bytes]:
    text = 'source;target;id\nKäse;cheese;1\n"a; ""b""";c;2\nὕδωρ;water;3\n'
    yield text.encode()
    yield text.encode("utf-16")
    yield text.replace(";", "\t").replace("ὕδωρ", "Öl").encode("cp1252") * 3


def _workbooks() -> Iterator[bytes]:
    yield workbook([("source", "target"), ("λόγος", "logos")], [("other", "sheet")])
    yield bomb()


def bomb() -> bytes:
    """A workbook of a few kilobytes that unpacks to 4 MiB."""
    file = io.BytesIO(workbook([("source", "target")]))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/image1.bin", bytes(1 << 22))
    return file.getvalue()


def _in_workbook(path: Path) -> None:
    """Read a workbook with this content as the cells of its sheet."""
    content = path.read_bytes().decode("utf8", "replace")
    path.write_bytes(workbook([("source", "target")], last=content))
    read_pairs(path, settings=TableSettings())


def _parquet() -> Iterator[bytes]:
    columns = {"source": ["a", "b", None] * 9, "target": [1.5, 2.0, float("nan")] * 9}
    nested = {"source": ["a", "b"], "more": [{"target": [b"x"]}, {"target": [b"\xff", None]}]}
    for table, compression in ((columns, "none"), (columns, "zstd"), (nested, "snappy")):
        file = io.BytesIO()
        parquet.write_table(pyarrow.table(table), file, compression=compression)
        yield file.getvalue()


def _labelled() -> Iterator[bytes]:
    yield b'text,label\ngood,1\n"a, b",0\nbad,1\n'
    yield b'id,question,answer\n1,who,A\n2,"wh""at\nnow",B\n3,why,A\n'
    yield b"who,A\nwhat,B\nwhy,A\n"


def _captions() -> Iterator[bytes]:
    image = {"id": 1, "file_name": "a.png"}
    annotation = {"image_id": 1, "caption": "a dog"}
    yield json.dumps({"images": [image], "annotations": [annotation]}).encode()
    sentence = {"raw": "a dog"}
    image = {"filename": "a.png", "filepath": "x", "split": "val", "sentences": [sentence]}
    yield json.dumps({"images": [image, image]}).encode()
    yield gzip.compress(json.dumps({"images": [image]}).encode(), mtime=0)


def _arrays() -> Iterator[bytes]:
    for values in (np.ones((3, 4), np.float32), np.arange(6).reshape(2, 3), np.ones((1, 1), "<f8")):
        file = io.BytesIO()
        np.save(file, values)
        yield file.getvalue()


def _weights() -> Iterator[bytes]:
    yield save({"a": torch.ones(3, 4), "b.c": torch.zeros(2)}, {"regard": "{}"})
    yield save({"a": torch.ones(1, dtype=torch.bfloat16)})


def _tokenizers() -> Iterator[bytes]:
    for kind, size in (("words", None), ("characters", None), ("bpe", 30), ("unigram", 30)):
        settings = TokenizerSettings(kind=kind, size=size)
        yield Tokenizer.train(["low lower lowest"] * 3, settings).to_json().encode()


def _use_tokenizer(path: Path) -> None:
    tokenizer = load_source(path)
    encoding = tokenizer.encode("the lowest ▁ λ")
    tokenizer.decode(encoding.ids)


def _recipes() -> Iterator[bytes]:
    for path in sorted(recipes.FOLDER.glob("*.yaml")):
        yield path.read_bytes()


def _run_configs() -> Iterator[bytes]:
    for name in ("copy", "drinks", "g2p", "captions"):
        path = recipes.FOLDER / f"{name}.yaml"
        if path.exists():
            yield recipes.dump(recipes.load(path)).encode()


def _pictures() -> Iterator[bytes]:
    for kind in FORMATS:
        for mode in ("RGB", "L", "P", "RGBA", "1"):
            picture = Image.effect_noise((23, 17), 60).convert(mode)
            file = io.BytesIO()
            try:
                picture.save(file, kind)
            except (OSError, ValueError, KeyError):
                continue  # this format has no such mode
            yield file.getvalue()


def _received() -> Iterator[bytes]:
    """Images of all formats, still and moving, of which a service decodes some."""
    for kind in FORMATS:
        file = io.BytesIO()
        Image.effect_noise((23, 17), 60).convert("RGB").save(file, kind)
        yield file.getvalue()
    frames = [Image.effect_noise((11, 13), 60) for _ in range(3)]
    for kind in ("GIF", "PNG", "WEBP"):
        file = io.BytesIO()
        frames[0].save(file, kind, save_all=True, append_images=frames[1:])
        yield file.getvalue()
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    frames[0].save(file, "JPEG", progressive=True, exif=exif)
    yield file.getvalue()


def _per_line(reader: Callable[[str], object]) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        text = path.read_bytes().decode("utf8", errors="replace")
        errors = []
        for line in text.split("\n"):
            try:
                reader(line)
            except UserError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    return read


JSON = (b"[", b"{", b"null", b"true", b"1e999", b"NaN", b'"\\ud800"', b'"\\u0000"', b"-1", b'"":')
YAML = (b"!!int ", b"!!float ", b"!!python/object:os.system ", b"&a ", b"*a", b"- ", b"? ", b"<<: ")
NUMBERS = (b"nan", b"inf", b"1e999", b"-0", b"0x1", b"1_0", b"9" * 5000, b",", b";")

PARSERS: dict[str, Parser] = {
    "captions": Parser(read_captions, _captions, "captions.json", JSON),
    "links": Parser(
        _per_line(read_pharaoh), lambda: iter([b"0-0 1-2 3p4 5?6", b"10-20"]), "links", NUMBERS
    ),
    "pairs": Parser(read_pairs, _pairs, "pairs.tsv", (b"\t", b"\r", b"\xef\xbb\xbf", b"\xff\xfe")),
    "tables": Parser(
        lambda path: read_pairs(path, settings=TableSettings()),
        _tables,
        "pairs.csv",
        (b'"', b";", b"\t", b"\0", b"\xff\xfe", b"\xe4"),
    ),
    "json-lines": Parser(
        lambda path: read_pairs(path, settings=TableSettings()),
        lambda: iter([b'{"source": "a", "target": 1.5}\n{"target": ["b"], "source": null}\n']),
        "pairs.jsonl",
        JSON,
    ),
    "workbooks": Parser(
        lambda path: read_pairs(path, settings=TableSettings()),
        _workbooks,
        "pairs.xlsx",
        (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"xl/workbook.xml"),
    ),
    "sheets": Parser(
        _in_workbook,
        lambda: iter(
            [cells_of(("a", "b"), 2).encode(), b'<row r="3"><c r="A3"><v>1</v></c></row>']
        ),
        "pairs.xlsx",
        (
            b'r="XFD1048576"',
            b't="s"',
            b't="d"',
            b"<v>1e999</v>",
            b"&#x0;",
            b"<row r='0'>",
            b"</row>",
        ),
    ),
    "parquet": Parser(
        lambda path: read_pairs(path, settings=TableSettings()),
        _parquet,
        "pairs.parquet",
        (b"PAR1",),
    ),
    "labels": Parser(read_labelled, _labelled, "labels.csv", (b'"', b",", b"\r", b"\xef\xbb\xbf")),
    "series": Parser(
        _per_line(parse_series), lambda: iter([b"0.3,0 0.5,1", b"7 -2e3"]), "series", NUMBERS
    ),
    "items": Parser(
        _per_line(parse_items),
        lambda: iter([b"orange juice 1.20; bread 0.80", b"a 1 2; b 3 4"]),
        "items",
        NUMBERS,
    ),
    "vectors": Parser(read_external, _arrays, "vectors.npy", (b"'<f4'", b"'|O'", b"(", b"'''")),
    "vectors-text": Parser(read_external, lambda: iter([b"1 2\n3 4\n"]), "vectors.txt", NUMBERS),
    "weights": Parser(read_tensors, _weights, "model.safetensors", JSON),
    "recipes": Parser(recipes.load, _recipes, "recipe.yaml", YAML),
    "tokenizers": Parser(_use_tokenizer, _tokenizers, "source.tokenizer.json", JSON),
    "pictures": Parser(lambda path: read_image(str(path), 16), _pictures, "picture"),
    "received": Parser(lambda path: decode_image(path.read_bytes(), "image", 16), _received),
    "configs": Parser(
        lambda path: RunFolder(path.parent).experiment(), _run_configs, "config.yaml", YAML
    ),
}
