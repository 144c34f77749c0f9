"""Captions in the forms in which they are handed round."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.images.annotations import Lists, read_captions
from regard.errors import UserError
from tests.messages import check_message, raises


def told(pairs):
    return [(pair.source, pair.target) for pair in pairs]


def sizes(result):
    return tuple(len(part.pairs) for part in (result.train, result.dev, result.test))


def listed(path, names):
    path.write_text("".join(f"{name}.jpg\n" for name in names))
    return path


def karpathys(path, splits):
    """Pictures 0.jpg and so on, each with a caption, in these parts."""
    images = [
        {
            "filename": f"{n}.jpg",
            "filepath": "val",
            "split": split,
            "sentences": [{"raw": f"{n} ."}],
        }
        for n, split in enumerate(splits)
    ]
    path.write_text(json.dumps({"images": images}))
    return path


def test_tables_have_a_file_and_a_caption(tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text('image,caption\na.jpg,"a dog, running"\na.jpg,  one dog \n\nb.jpg,a cat\n')
    wanted = [("a.jpg", "a dog, running"), ("a.jpg", "one dog"), ("b.jpg", "a cat")]
    wanted = [(str(tmp_path / name), caption) for name, caption in wanted]
    assert told(read_captions(path).train.pairs) == wanted
    path.write_text("Caption,number,File\na cat,1,b.jpg\n")
    assert told(read_captions(path, tmp_path / "pictures").train.pairs) == [
        (str(tmp_path / "pictures" / "b.jpg"), "a cat")
    ]
    plain = tmp_path / "plain.tsv"
    plain.write_text("b.jpg\ta cat\n")
    assert told(read_captions(plain).train.pairs) == [(str(tmp_path / "b.jpg"), "a cat")]


def test_flickr8k_has_numbered_names_and_split_lists(tmp_path):
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text("".join(f"{n}.jpg#{k}\tcaption {n}{k} .\n" for n in "abc" for k in (0, 1)))
    train, dev = listed(tmp_path / "train.txt", "ab"), listed(tmp_path / "dev.txt", "c")
    result = read_captions(path, lists=Lists(train, dev))
    assert sizes(result) == (4, 2, 0)
    assert told(result.dev.pairs)[1] == (str(tmp_path / "c.jpg"), "caption c1 .")
    assert sizes(read_captions(path, lists=Lists(dev=dev))) == (4, 2, 0)
    assert sizes(read_captions(path)) == (6, 0, 0)


def test_lists_with_unknown_images_are_rejected(tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text("".join(f"{name}.jpg,a {name}\n" for name in "abc"))
    train, some = listed(tmp_path / "train.txt", "ab"), listed(tmp_path / "some.txt", "cxy")
    result = read_captions(path, lists=Lists(train, some))
    assert sizes(result) == (2, 1, 0)
    assert result.train.remarks == (
        f"2 of 3 names in {some} are not images of {path}, such as 'x.jpg'",
    )
    unrelated = listed(tmp_path / "other.txt", "x")
    with raises(UserError):
        read_captions(path, lists=Lists(dev=unrelated))
    with pytest.raises(UserError, match=r"none\.txt names no image of .*; it is empty"):
        read_captions(path, lists=Lists(test=listed(tmp_path / "none.txt", "")))
    both = listed(tmp_path / "both.txt", "cb")
    with pytest.raises(UserError, match=r"train\.txt and .*both\.txt both name 'b\.jpg'"):
        read_captions(path, lists=Lists(train, test=both))


def test_karpathys_files_have_the_split_of_each_image(tmp_path):
    path = karpathys(tmp_path / "dataset.json", ["train", "restval", "val", "test"])
    result = read_captions(path)
    assert sizes(result) == (2, 1, 1)
    assert told(result.dev.pairs) == [(str(tmp_path / "val" / "2.jpg"), "2 .")]


def test_lists_replace_the_splits_of_a_file_with_a_message(tmp_path):
    path = karpathys(tmp_path / "dataset.json", ["train", "restval", "val", "test"])
    result = read_captions(path, lists=Lists(dev=listed(tmp_path / "dev.txt", "03")))
    assert sizes(result) == (2, 2, 0)
    assert told(result.train.pairs)[1][1] == "2 ."
    check_message(*result.train.remarks)


@pytest.mark.parametrize(
    ("splits", "text", "said"),
    [
        (["train", "val", "test"], "2 .", ("scored on the test captions",)),
        (["train", "val"], "1 .", ("scored on the dev captions: no test captions",)),
        (["train"], "0 .", ()),
        (["test"], "0 .", ("scored on the test captions",)),
    ],
)
def test_evaluation_prefers_test_captions(tmp_path, splits, text, said):
    result = read_captions(karpathys(tmp_path / "dataset.json", splits)).to_score
    assert [pair.target for pair in result.pairs] == [text]
    assert result.summary() == said


def test_kaggles_flickr8k_is_a_table_with_suffix_txt(tmp_path):
    path = tmp_path / "captions.txt"
    path.write_text('image,caption\na.jpg,"a dog , running"\nb.jpg,a cat\n')
    wanted = [(str(tmp_path / "a.jpg"), "a dog , running"), (str(tmp_path / "b.jpg"), "a cat")]
    assert told(read_captions(path).train.pairs) == wanted
    zipped = tmp_path / "captions.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert told(read_captions(zipped).train.pairs) == wanted


def test_blank_captions_are_left_out_and_reported(tmp_path):
    pages = {"a.csv": "a.jpg, \nb.jpg,a cat\n\n", "a.txt": "a.jpg#0\t \nb.jpg#0\ta cat\n\n"}
    for name, text in pages.items():
        path = tmp_path / name
        path.write_text(text)
        train = read_captions(path).train
        assert [pair.target for pair in train.pairs] == ["a cat"]
        blank = "2 with a blank side (lines 1, 3)"
        assert train.summary() == (f"left out 2 lines of {path}: {blank}",)
    path = tmp_path / "a.json"
    images = [{"id": 7, "file_name": "x.jpg"}]
    captions = [{"image_id": 7, "caption": text} for text in ("  ", "a dog", "")]
    path.write_text(json.dumps({"images": images, "annotations": captions}))
    train = read_captions(path).train
    assert [pair.target for pair in train.pairs] == ["a dog"]
    assert train.summary() == (f"dropped 2 captions of {path}, which are blank",)


def test_images_are_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "captions.csv").write_text("a.jpg,a dog\n")
    monkeypatch.chdir(tmp_path)
    wanted = [(str(tmp_path / "a.jpg"), "a dog")]
    assert told(read_captions(Path("captions.csv")).train.pairs) == wanted
    assert told(read_captions(Path("captions.csv"), Path()).train.pairs) == wanted


def test_coco_has_images_and_annotations_in_separate_lists(tmp_path):
    path = tmp_path / "captions_train.json"
    images = [{"id": 7, "file_name": "x.jpg"}, {"id": 9, "file_name": "y.jpg"}]
    captions = [
        {"image_id": 9, "caption": "a\ncat"},
        {"image_id": 7, "caption": "a dog"},
        {"image_id": 9, "caption": "one cat"},
    ]
    path.write_text(json.dumps({"images": images, "annotations": captions}))
    result = [
        (source.rsplit("/", 1)[1], text) for source, text in told(read_captions(path).train.pairs)
    ]
    assert result == [("y.jpg", "a cat"), ("x.jpg", "a dog"), ("y.jpg", "one cat")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "file,caption\n", "has no captions"),
        ("a.csv", "file,caption\nlonely\n", r"no captions: .*1 with too few columns \(line 2\)"),
        ("a.txt", "x.jpg#0 a dog\n", r"no captions: .*1 without a tab \(line 1\)"),
        ("a.json", "[]", "Karpathy's JSON or COCO's captions; got an array without objects"),
        ("a.json", "{", "expected an array of objects, .*; it is not JSON: Expecting property"),
        ("a.json", '{"a": 1, "b": [2]}', "captions; got an object with the names a, b$"),
        ("a.json", '{"a": [{"x": 1}], "b": [{"y": 2}]}', "got an object with the names a, b$"),
        ("a.json", '{"images": 3}', "got an object with the names images"),
        ("a.json", '{"images": [{"id": 1}], "annotations": []}', "an entry has no 'file_name'"),
        ("a.json", '{"images": [{"id": 1}]}', "an entry has no 'file_name'"),
        ("a.json", '{"a": 1}\n{"a": 2}\n', "it has an object on each line: name it .jsonl"),
        ("a.json", "[" * 100_000, "it has too many brackets inside brackets"),
        ("a.json", '["\udcff"]', "it is not UTF-8, the encoding of JSON"),
    ],
)
def test_unreadable_annotations_are_one_line(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UserError, match=said):
        read_captions(path)
    with pytest.raises(UserError, match="cannot read"):
        read_captions(tmp_path / "gone.csv")


def test_quotes_must_close_in_csv_and_are_characters_in_tsv(tmp_path):
    table = tmp_path / "captions.csv"
    table.write_text('file, caption\na.png, "a dog,\nand its ball"\nb.png, "open\n')
    train = read_captions(table).train
    assert [pair.target for pair in train.pairs] == ["a dog, and its ball"]
    assert "1 with wrong quotes or line ends (line 4)" in train.summary()[0]
    table.write_text('file, caption\na.png, "a dog,\nand its ball"\n')
    (pair,) = read_captions(table).train.pairs
    assert (pair.target.split(), pair.line) == (["a", "dog,", "and", "its", "ball"], 2)
    lines = tmp_path / "captions.tsv"
    lines.write_text('a.png\tthe "small" dog\nb.png\t"so\n')
    assert [pair.target for pair in read_captions(lines).train.pairs] == ['the "small" dog', '"so']


def test_an_array_of_objects_is_read_by_its_names(tmp_path):
    path = tmp_path / "captions.json"
    path.write_text('[{"caption": "a cat", "image": "1.jpg"}, {"caption": "", "image": "2.jpg"}]')
    captions = read_captions(path)
    assert [(pair.source, pair.target) for pair in captions.pairs] == [
        (str(tmp_path / "1.jpg"), "a cat")
    ]
    assert len(captions.train.problems) == 1
