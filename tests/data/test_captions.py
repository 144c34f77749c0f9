"""Captions in the forms in which they are handed round."""

from __future__ import annotations

import json

import pytest

from regard.data.captions import read_captions
from regard.errors import UserError


def told(pairs):
    return [(pair.source, pair.target) for pair in pairs]


def test_tables_have_a_file_and_a_caption(tmp_path):
    path = tmp_path / "captions.csv"
    path.write_text('image,caption\na.jpg,"a dog, running"\na.jpg,  one dog \n\nb.jpg,a cat\n')
    wanted = [("a.jpg", "a dog, running"), ("a.jpg", "one dog"), ("b.jpg", "a cat")]
    wanted = [(str(tmp_path / name), caption) for name, caption in wanted]
    assert told(read_captions(path).train) == wanted
    path.write_text("Caption,number,File\na cat,1,b.jpg\n")
    assert told(read_captions(path, tmp_path / "pictures").train) == [
        (str(tmp_path / "pictures" / "b.jpg"), "a cat")
    ]
    plain = tmp_path / "plain.tsv"
    plain.write_text("b.jpg\ta cat\n")
    assert told(read_captions(plain).train) == [(str(tmp_path / "b.jpg"), "a cat")]


def test_flickr8k_has_numbers_behind_names_and_lists_of_parts(tmp_path):
    path = tmp_path / "Flickr8k.token.txt"
    path.write_text("".join(f"{n}.jpg#{k}\tcaption {n}{k} .\n" for n in "abc" for k in (0, 1)))
    lists = {}
    for part, names in {"train": "ab", "dev": "c", "test": ""}.items():
        lists[part] = tmp_path / f"{part}.txt"
        lists[part].write_text("".join(f"{name}.jpg\n" for name in names))
    parts = read_captions(path, lists=lists).parts
    assert [len(parts[part]) for part in ("train", "dev", "test")] == [4, 2, 0]
    assert told(parts["dev"])[1] == (str(tmp_path / "c.jpg"), "caption c1 .")
    rest = read_captions(path, lists={"dev": lists["dev"]}).parts
    assert [len(rest[part]) for part in ("train", "dev")] == [4, 2]
    assert len(read_captions(path).train) == 6


def test_karpathys_pages_say_the_part_of_each_picture(tmp_path):
    path = tmp_path / "dataset.json"
    images = [
        {
            "filename": f"{n}.jpg",
            "filepath": "val",
            "split": split,
            "sentences": [{"raw": f"{n} ."}],
        }
        for n, split in enumerate(["train", "restval", "val", "test"])
    ]
    path.write_text(json.dumps({"images": images}))
    parts = read_captions(path).parts
    assert {part: len(pairs) for part, pairs in parts.items()} == {"train": 2, "dev": 1, "test": 1}
    assert told(parts["dev"]) == [(str(tmp_path / "val" / "2.jpg"), "2 .")]


def test_coco_has_pictures_and_annotations_apart(tmp_path):
    path = tmp_path / "captions_train.json"
    images = [{"id": 7, "file_name": "x.jpg"}, {"id": 9, "file_name": "y.jpg"}]
    captions = [
        {"image_id": 9, "caption": "a\ncat"},
        {"image_id": 7, "caption": "a dog"},
        {"image_id": 9, "caption": "one cat"},
    ]
    path.write_text(json.dumps({"images": images, "annotations": captions}))
    found = [(source.rsplit("/", 1)[1], text) for source, text in told(read_captions(path).train)]
    assert found == [("y.jpg", "a cat"), ("x.jpg", "a dog"), ("y.jpg", "one cat")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "file,caption\n", "holds no captions to train on"),
        ("a.csv", "x.jpg,a dog\nlonely\n", "line 2: expected a file and a caption"),
        ("a.txt", "x.jpg#0 a dog\n", "line 1: expected a picture's name, a tab"),
        ("a.json", "[]", "is neither Karpathy's JSON nor COCO's"),
        ("a.json", "{", "is neither Karpathy's JSON nor COCO's"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_captions(path)
    with pytest.raises(UserError, match="cannot read"):
        read_captions(tmp_path / "gone.csv")


def test_quotes_of_a_table_have_to_close_but_are_letters_in_a_tsv(tmp_path):
    table = tmp_path / "captions.csv"
    table.write_text('file, caption\na.png, "a dog,\nand its ball"\nb.png, "open\n')
    with pytest.raises(UserError, match=r"captions.csv at line 4: unexpected end of data"):
        read_captions(table)
    table.write_text('file, caption\na.png, "a dog,\nand its ball"\n')
    (pair,) = read_captions(table).train
    assert (pair.target.split(), pair.line) == (["a", "dog,", "and", "its", "ball"], 2)
    lines = tmp_path / "captions.tsv"
    lines.write_text('a.png\tthe "small" dog\nb.png\t"so\n')
    assert [pair.target for pair in read_captions(lines).train] == ['the "small" dog', '"so']
