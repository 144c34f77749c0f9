"""Bad input, entrance by entrance: each ends in one clear line, quickly."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.files.tables import TableSettings
from regard.data.images.annotations import read_captions
from regard.data.images.images import ImageError, read_image
from regard.data.labels.numeric import parse_items, parse_series
from regard.data.text.features import load_source
from regard.data.text.parallel import read_pairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.data.text.vectors import read_external
from regard.errors import UserError
from regard.metrics.alignment import read_pharaoh
from regard.storage.weights import read_tensors
from regard.tasks.captioning.images import ImageSources
from regard.trace import Trace
from tests.messages import check_message

SECONDS = 2.0


def refused(read, argument, error=UserError) -> str:
    """The one line with which an entrance refuses this."""
    began = time.process_time()
    with pytest.raises(error) as caught:
        read(argument)
    assert time.process_time() - began < SECONDS
    line = str(caught.value)
    assert line
    assert "\n" not in line
    assert len(line) < 700
    return line


def coco(name="a.png", text="a dog") -> bytes:
    page = {
        "images": [{"id": 1, "file_name": name}],
        "annotations": [{"image_id": 1, "caption": text}],
    }
    return json.dumps(page).encode()


GOOD = coco()
DEEP = b'{"images": ' + b"[" * 100_000 + b"]" * 100_000 + b', "annotations": []}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'"images"',
        DEEP,
        b"[" * 100_000,
        coco(name=True),
        coco(name=3),
        coco(name=["a"]),
        coco(text=None),
        coco(text=7),
        b'{"images": [1], "annotations": []}',
        b'{"images": "ab", "annotations": []}',
        b'{"images": [{"id": [], "file_name": "a"}], "annotations": []}',
        b'{"images": [{"id": NaN, "file_name": "a"}], "annotations": [{"image_id": NaN}]}',
        b'{"images": [{"sentences": [], "filename": "a", "split": "none"}]}',
        b'{"images": [{"sentences": [{}], "filename": "a"}]}',
        b'{"images": [{"id": ' + b"9" * 5000 + b', "file_name": "a"}], "annotations": []}',
        b"\xff\xfe{",
        gzip.compress(GOOD, mtime=0)[:-9],
        coco(name="\ud800.png"),
        coco(text="\ud800"),
        coco(name="a\0b.png"),
        coco(text=""),
    ],
)
def test_invalid_json_captions_are_one_line(content, tmp_path):
    path = tmp_path / "captions.json"
    path.write_bytes(content)
    assert "captions.json" in refused(read_captions, path)


def test_unusable_captions_are_dropped_and_counted(tmp_path):
    path = tmp_path / "captions.json"
    page = json.loads(GOOD)
    page["images"] += [{"id": 2, "file_name": "b\ufeff\0.png"}, {"id": 3, "file_name": "\ufeffc"}]
    page["annotations"] += [
        {"image_id": 2, "caption": "a cat"},
        {"image_id": 1, "caption": "half \udc00"},
        {"image_id": 1, "caption": " "},
        {"image_id": 3, "caption": "\ufeffa bird"},
    ]
    path.write_text(json.dumps(page))
    captions = read_captions(path)
    assert [pair.target for pair in captions.train.pairs] == ["a dog", "a bird"]
    assert captions.train.pairs[1].source == str(tmp_path / "c")
    check_message(*captions.train.summary())
    table = tmp_path / "captions.csv"
    table.write_bytes(b"file,caption\na\0b.png,a dog\nb.png,a cat\n")
    assert len(read_captions(table).pairs) == 1
    check_message(*read_captions(table).train.summary())


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800.png", "gone.png", ".", "x" * 256, "/dev/zero", "pipe"]
)
def test_invalid_image_names_are_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    for sources in (ImageSources(8), ImageSources(8, scenes=True)):
        refused(sources.read, name, ImageError)
        refused(sources.show, name, ImageError)
        assert [type(each) for each in sources.contents([name])] == [str]
        line = refused(lambda name, sources=sources: sources.image_set([name]), name)
        assert "cannot read any of the 1 images" in line


def broken_pictures():
    """Bytes that made Pillow's plug-ins raise other things than OSError."""
    small = Image.new("RGB", (8, 8))
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "PPM", "WEBP", "ICO", "TGA"):
        yield kind, small, -5
        yield kind, small, 20
    yield "JPEG2000", small, -9


@pytest.mark.parametrize(("kind", "picture", "cut"), list(broken_pictures()))
def test_truncated_images_are_one_line(kind, picture, cut, tmp_path):
    path = tmp_path / "cut"
    picture.save(path, kind)
    path.write_bytes(path.read_bytes()[:cut])
    try:
        values = read_image(str(path), 8)  # all dots may be there
    except ImageError:
        assert "cannot read the image" in refused(lambda path: read_image(path, 8), str(path))
    else:
        assert values.shape == (3, 8, 8)


@pytest.mark.parametrize("error", [RuntimeError, NotImplementedError, AttributeError, KeyError])
def test_any_image_decoder_error_is_one_line(error, tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(path)

    def fail(*arguments, **keywords):
        raise error("in the\ndecoder")

    monkeypatch.setattr(Image, "open", fail)
    assert "in the" in refused(lambda path: read_image(path, 8), str(path), ImageError)


def test_images_of_too_many_pixels_are_rejected_before_decoding(tmp_path):
    path = tmp_path / "large.png"
    Image.new("1", (13_300, 13_300)).save(path)
    line = refused(lambda path: read_image(path, 8), str(path), ImageError)
    check_message(line)
    small = tmp_path / "small.png"
    Image.new("RGB", (30, 20)).save(small)
    assert read_image(str(small), 8, max_pixels=600).shape == (3, 8, 8)
    with pytest.raises(ImageError, match="30 x 20 pixels, more than 599"):
        read_image(str(small), 8, max_pixels=599)
    image_set, left_out = ImageSources(8, max_pixels=600).image_set([str(path), str(small)])
    assert image_set.names == (str(small),)
    assert "left out 1 image: cannot read the image" in left_out[0]


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(tmp_path):
    picture = Image.new("RGB", (320, 160), (255, 0, 0))
    picture.paste((0, 0, 255), (160, 0, 320, 160))
    path = tmp_path / "a.jpg"
    picture.save(path, quality=95)
    whole = read_image(str(path), 8).astype(int)
    part = read_image(str(path), 8, max_pixels=320 * 160 // 4).astype(int)
    assert abs(whole - part).max() <= 40  # the border between the halves
    assert abs(whole - part)[:, :, [0, -1]].max() <= 4
    with pytest.raises(ImageError, match="320 x 160 pixels"):
        read_image(str(path), 8, max_pixels=320 * 160 // 5)
    picture.save(path, progressive=True)
    with pytest.raises(ImageError, match="320 x 160 pixels"):
        read_image(str(path), 8, max_pixels=320 * 160 // 4)


@pytest.mark.parametrize(
    "line", ["0-" + "9" * 5000, "9" * 4301 + "p1", "0-1 1", "a-b", "-1-2", "٣-٣", "1--2", "0-1,2-3"]
)
def test_invalid_alignment_links_are_one_line(line):
    assert "is not a link" in refused(read_pharaoh, line)


@pytest.mark.parametrize(
    "text", ["", " ", "nan", "inf", "1e999", "x", "1,,2", "0x10", "1" * 5000 + "e400"]
)
def test_invalid_series_are_one_line(text):
    refused(parse_series, text)
    refused(parse_items, f"a {text}")


def header(shape: str, descr: str = "'<f4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\xff\xff{",
        header("(2, 2)")[:-9],
        header("(1000000000000, 1000000000000)"),
        header("(99, 99)") + bytes(16),
        header("(-1, 2)") + bytes(16),
        header("(2,)") + bytes(8),
        header("(1, 2)", "[('a', '<f4')]") + bytes(8),
        header("(1, 1)", "'|O'") + pickle.dumps(np.array([[object]])),
        header("(1, 1)", "'<c8'") + bytes(8),
        header("((((((1, 1)") + bytes(8),
        header("(1, 1), 'shape': '''") + bytes(8),
        header("(1, 2)") + np.array([1, np.nan], "<f4").tobytes(),
        header("(0, 2)"),
        b"PK\x03\x04no archive",
        pickle.dumps([1.0]),
    ],
)
def test_invalid_npy_vectors_are_one_line(content, tmp_path):
    path = tmp_path / "vectors.npy"
    path.write_bytes(content)
    assert "vectors.npy" in refused(read_external, path)


@pytest.mark.parametrize("content", [b"", b"1 2\n3\n", b"a b\n", b"nan 1\n", b"\xff\n", b"1 2\0\n"])
def test_invalid_text_vectors_are_one_line(content, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    assert "vectors.txt" in refused(read_external, path)


@pytest.mark.filterwarnings("ignore:loadtxt")
def test_endless_vector_files_are_rejected():
    assert "it is a device" in refused(read_external, Path("/dev/zero"))


def tokenizer(**changes) -> str:
    """A saved tokenizer of subwords with some fields of its model changed."""
    text = Tokenizer.train(["low lower lowest"] * 3, TokenizerSettings(kind="bpe", size=40))
    page = json.loads(text.to_json())
    page["tokenizer"]["model"] |= changes
    return json.dumps(page)


UNIGRAM = Tokenizer.train(
    ["low lower lowest"] * 3, TokenizerSettings(kind="unigram", size=30)
).to_json()


def test_a_saved_tokenizer_is_loaded(tmp_path):
    path = tmp_path / "source.tokenizer.json"
    path.write_text(tokenizer())
    assert Tokenizer.load(path).decode(Tokenizer.load(path).encode("lower").ids) == "lower"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        '{"settings": {}}',
        "[" * 100_000,
        tokenizer(continuing_subword_prefix="##########"),
        tokenizer(end_of_word_suffix="##########"),
        tokenizer(unk_token="[UNK]"),
        tokenizer(unk_token=None),
        tokenizer().replace('"unk_token"', '"unk_tokem"'),
        UNIGRAM.replace('"unk_id"', '"unk_ie"'),
        UNIGRAM.replace('"unk_id": 3,', ""),
        tokenizer(type="WordLevel"),
        tokenizer(dropout=0.5),
        tokenizer(byte_fallback=True),
        tokenizer(vocab={}),
        tokenizer(vocab={"<pad>": 0, "<sos>": 1, "<eos>": 2, "<unk>": 3, "a": 9}),
        tokenizer(vocab={"<pad>": 0, "<sos>": 1, "<eos>": 2, "<unk>": 3, "a": 3}),
        tokenizer(vocab={"<pad>": 0, "<sos>": 1, "<eos>": 2, "a": 3, "<unk>": 4}),
        tokenizer(vocab={"<pad>": 0, "<sos>": 1, "<eos>": 2, "<unk>": "3"}),
        tokenizer(vocab={"<pad>": 0, "<sos>": 1, "<eos>": 2, "<unk>": 2**70}),
        tokenizer(vocab=["a"]),
        tokenizer(merges=[["x", "y"]]),
        tokenizer(merges=[["x"]]),
        tokenizer(merges=7),
        tokenizer().replace('"bpe"', '"words"'),
        tokenizer().replace('"bpe"', '"none"'),
        tokenizer().replace('"lowercase": false', '"lowercase": "no"'),
        tokenizer().replace('"size": 40', '"size": "many"'),
    ],
)
def test_invalid_tokenizers_are_one_line(content, tmp_path):
    path = tmp_path / "source.tokenizer.json"
    path.write_text(content)
    assert "is not a tokenizer that regard wrote" in refused(Tokenizer.load, path)


@pytest.mark.parametrize(
    "content", [b"", b"\x08", b"\xff" * 8, (2**62).to_bytes(8, "little"), b"\2" + bytes(7) + b"{}"]
)
def test_invalid_weights_are_one_line(content, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    if content.endswith(b"{}"):
        assert read_tensors(path) == {}
    else:
        assert "cannot be read as weights" in refused(read_tensors, path)


@pytest.mark.parametrize(
    "read", [Tokenizer.load, load_source, read_tensors, Trace.load, read_captions]
)
def test_devices_pipes_and_folders_are_rejected(read, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("pipe.json", "."):
        refused(read, tmp_path / name)
    refused(read, Path("/dev/zero"))


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"{}", b"\xff", b'{"format": 1}'])
@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_invalid_traces_are_one_line(content, suffix, tmp_path):
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(content)
    assert "is not a trace" in refused(Trace.load, path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"\xff\xfe\0",
        "source;target\n".encode("utf-16"),
        b'"never;ends\n' * 9,
        b"\0" * 1000,
        b";" * 100_000,
        b"x" * (1 << 21),
        "word;form\n".encode("utf-32")[:-3],
        b"\xff\xa4\xa4\xa4\n" * 20,
    ],
)
def test_tables_of_pairs(content, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(content)
    assert "pairs.csv" in refused(lambda path: read_pairs(path, settings=TableSettings()), path)
