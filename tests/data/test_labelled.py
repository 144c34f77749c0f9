"""Texts with labels, in the forms in which they are handed round."""

from __future__ import annotations

import gzip

import pytest

from regard.data.labelled import Columns, parts_of, read_labelled
from regard.errors import UserError


def read(path, columns=None):
    corpus = read_labelled(path, columns)
    return [(pair.source, pair.target, pair.line) for pair in corpus.pairs], corpus.summary()


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_label_may_come_first_as_in_trec_and_fasttext(tmp_path):
    path = written(tmp_path / "TREC.train.all", "0 How far ?\n\nlonely\n__label__x  What  is it\n")
    pairs, left_out = read(path)
    assert pairs == [("How far ?", "0", 1), ("What is it", "x", 4)]
    assert left_out == (
        f"left out 2 lines of {path}: 1 with a blank side (line 2), 1 without a tab (line 3)",
    )


def test_lines_that_are_not_utf8_are_latin_1(tmp_path):
    pairs, left_out = read(written(tmp_path / "a", b"1 sister\xf0city\n2 na\xc3\xafve\n"))
    assert pairs == [("sisterðcity", "1", 1), ("naïve", "2", 2)]
    assert left_out == ()


def test_tables_with_and_without_names_above(tmp_path):
    plain = written(tmp_path / "a.tsv", 'good "one\tyes\nbad one\tno\n')
    assert read(plain)[0] == [('good "one', "yes", 1), ("bad one", "no", 2)]
    named = written(tmp_path / "b.csv", '\ufeffLabel,id,Text\nyes,1,"good,\none"\nno,2,bad\n')
    assert read(named)[0] == [("good, one", "yes", 2), ("bad", "no", 4)]
    other = written(tmp_path / "c.csv", "mood,said\nyes,good\n")
    assert read(other, Columns("said", "mood"))[0] == [("good", "yes", 2)]
    tabs = written(tmp_path / "d.txt", "good\tyes\n")
    assert read(tabs)[0] == [("good", "yes", 1)]


def test_zipped_files_are_read(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\ngood,yes\n"))
    assert read(path)[0] == [("good", "yes", 2)]


def test_a_folder_for_each_label(tmp_path):
    for label, texts in {"pos": ["very\ngood", " "], "neg": ["bad"]}.items():
        (tmp_path / label).mkdir()
        for number, text in enumerate(texts):
            written(tmp_path / label / f"{number}.txt", text)
    pairs, left_out = read(tmp_path)
    assert pairs == [("bad", "neg", 1), ("very good", "pos", 2)]
    assert len(left_out) == 1


def test_parts_of_a_folder_go_by_their_names(tmp_path):
    for name in ("TREC.train.all", "TREC.test.all", "latest.txt", ".train"):
        written(tmp_path / name, "1 a b\n")
    found = {part: path.name for part, path in parts_of(tmp_path).items()}
    assert found == {"train": "TREC.train.all", "test": "TREC.test.all"}
    written(tmp_path / "my_train.csv", "a,b\n")
    with pytest.raises(UserError, match=r"two files for train: TREC.train.all and my_train.csv"):
        parts_of(tmp_path)


def test_what_cannot_be_read_is_said_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no examples in .*: it is empty"):
        read(written(tmp_path / "empty.csv", ""))
    with pytest.raises(UserError, match=r"no column 'mood' .*first row is a, b"):
        read(written(tmp_path / "a.csv", "a,b\n1,2\n"), Columns(label="mood"))
    with pytest.raises(UserError, match="has no columns to be named"):
        read(written(tmp_path / "b", "1 2\n"), Columns(label="mood"))
    with pytest.raises(UserError, match=r"cannot read .*c.csv at line 2"):
        read(written(tmp_path / "c.csv", 'text,label\n"never ends,yes\n'))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="holds no folder with files"):
        read(tmp_path / "nothing")
