"""Texts with labels, in the forms in which they are handed round."""

from __future__ import annotations

import pytest

from regard.data.files.tables import TableSettings
from regard.data.labels.readers import read_labelled, split_files
from regard.errors import UserError
from tests.messages import check_message, raises


def columns(source=None, target=None):
    return TableSettings(source_columns=source, target_columns=target)


def read(path, settings=None):
    corpus = read_labelled(path, settings)
    return [(pair.source, pair.target, pair.line) for pair in corpus.pairs], corpus.summary()


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_label_may_come_first_as_in_trec_and_fasttext(tmp_path):
    path = written(tmp_path / "TREC.train.all", "0 How far ?\n\nlonely\n__label__x  What  is it\n")
    pairs, left_out = read(path)
    assert pairs == [("How far ?", "0", 1), ("What is it", "x", 4)]
    assert left_out == (f"left out 2 lines of {path}: 2 with a blank side (lines 2, 3)",)


def test_lines_that_are_not_utf8_are_legacy_and_reported(tmp_path):
    pairs, left_out = read(written(tmp_path / "a", b"1 sister\xf0city\n2 na\xc3\xafve\n"))
    assert pairs == [("sisterðcity", "1", 1), ("naïve", "2", 2)]
    note = f"read 1 line of {tmp_path / 'a'} as cp1252, because it is not UTF-8 (line 1)"
    assert left_out == (note,)


def test_tables_with_and_without_a_header(tmp_path):
    plain = written(tmp_path / "a.tsv", 'good "one\tyes\nbad one\tno\n')
    assert read(plain)[0] == [('good "one', "yes", 1), ("bad one", "no", 2)]
    named = written(tmp_path / "b.csv", '\ufeffLabel,id,Text\nyes,1,"good,\none"\nno,2,bad\n')
    pairs = [("good, one", "yes", 2), ("bad", "no", 4)]
    assert read(named) == (pairs, (f"columns of {named} that are not read: id",))
    assert read(named, columns(("Text",), ("Label",))) == (pairs, ())
    table = written(tmp_path / "c.csv", "mood,said\nyes,good\n")
    assert read(table, columns(("said",), ("mood",)))[0] == [("good", "yes", 2)]
    tabs = written(tmp_path / "d.txt", "good\tyes\n")
    assert read(tabs)[0] == [("good", "yes", 1)]


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("review,sentiment\ngood,yes\n", ("good", "yes", 2)),
        ("sentiment,review\nyes,good\n", ("good", "yes", 2)),
        ("id,Tweet,Intent\n1,good,yes\n", ("good", "yes", 2)),
        ("stars,title,body\n5,fine,so good\n", ("so good", "5", 2)),
    ],
)
def test_columns_are_found_by_common_names(tmp_path, text, pair):
    assert read(written(tmp_path / "a.csv", text))[0] == [pair]


def test_a_header_with_one_known_name_is_read_if_there_are_two_columns(tmp_path):
    path = written(tmp_path / "a.csv", "review,feeling\ngood,yes\n")
    assert read(path)[0] == [("good", "yes", 2)]
    path = written(tmp_path / "c.csv", "mood,said\nfine,so good\n")
    assert read(path, columns(("said",)))[0] == [("so good", "fine", 2)]
    plain = written(tmp_path / "d.tsv", "who ?\tquestion\nyes\tanswer\nwhere ?\tquestion\n")
    assert read(plain)[0][0] == ("who ?", "question", 1)


def test_several_columns_are_several_numbers_and_unread_ones_are_reported(tmp_path):
    path = written(tmp_path / "a.csv", "text,y1,Y2,id\ngood,1,2.5,7\nbad,3,,8\n")
    pairs, (left_out, unused) = read(path, columns(target=("y1", "y2")))
    assert pairs == [("good", "1 2.5", 2)]
    assert "1 with a blank side (line 3)" in left_out
    assert unused == f"columns of {path} that are not read: id"
    plain = written(tmp_path / "b.tsv", "good\t1\t2\n")
    assert read(plain)[1][0].startswith(f"{plain} has 3 columns and no header: column 1")


def test_folders_are_labels(tmp_path):
    for label, texts in {"pos": ["very\ngood", " "], "neg": ["bad"]}.items():
        (tmp_path / label).mkdir()
        for number, text in enumerate(texts):
            written(tmp_path / label / f"{number}.txt", text)
    pairs, left_out = read(tmp_path)
    assert pairs == [("bad", "neg", 1), ("very good", "pos", 1)]
    assert len(left_out) == 1


def test_folders_may_have_other_files(tmp_path):
    texts = {
        "a.txt": "sehr schön\r\nund gut\r\n",
        "b.txt": "später",
        "c.txt": "süß",
        "d.txt": "gut",
    }
    for label in ("neg", "pos", "__MACOSX", ".git"):
        folder = tmp_path / label
        folder.mkdir()
        for encoding, (name, text) in zip(
            ("utf-8", "utf-16", "utf-16-le", "latin-1"), texts.items(), strict=True
        ):
            (folder / name).write_bytes(text.encode(encoding))
        for name in (".DS_Store", "Thumbs.db", "desktop.ini"):
            (folder / name).write_bytes(b"\0\1\0\0")
        (folder / "scan.pdf").write_bytes(b"%PDF-1.4\n")
    (tmp_path / "pos" / "data.bin").write_bytes(b"a" * 50 + b"\0")
    corpus = read_labelled(tmp_path)
    words = ["sehr schön und gut", "später", "süß", "gut"]
    assert [(pair.source, pair.target) for pair in corpus.pairs] == [
        (word, label) for label in ("neg", "pos") for word in words
    ]
    check_message(*corpus.remarks)


def test_folders_of_documents_are_one_line(tmp_path):
    (tmp_path / "pos").mkdir()
    written(tmp_path / "pos" / "a.txt", "good")
    for name in ("b.pdf", "c.pdf"):
        written(tmp_path / "pos" / name, "%PDF-1.4\n")
    with raises(UserError):
        read_labelled(tmp_path)


def test_files_of_a_folder_are_splits_by_name(tmp_path):
    for name in ("TREC.train.all", "TREC.val", "TREC.test.all", "latest.txt", ".train"):
        written(tmp_path / name, "1 a b\n")
    result = {part: path.name for part, path in split_files(tmp_path).items()}
    assert result == {"train": "TREC.train.all", "dev": "TREC.val", "test": "TREC.test.all"}
    written(tmp_path / "my_train.csv", "a,b\n")
    with raises(UserError):
        split_files(tmp_path)


def test_columns_of_features_follow_the_text(tmp_path):
    named = written(tmp_path / "a.csv", "year,label,text\n1990;x,yes,a  b\n,no,c\n")
    features = TableSettings(feature_columns=("year",))
    assert [source for source, _, _ in read(named, features)[0]] == ["a b\t1990;x", "c\t"]
    bare = written(tmp_path / "b.tsv", "a\t1\tno\nb\t2\tyes\nc\t1\tno\n")
    settings = TableSettings(target_columns=("3",), feature_columns=("2",))
    pairs, remarks = read(bare, settings)
    assert pairs == [("a\t1", "no", 1), ("b\t2", "yes", 2), ("c\t1", "no", 3)]
    assert not remarks
    (tmp_path / "folder" / "yes").mkdir(parents=True)
    with pytest.raises(UserError, match=r"folder of texts, which have no features"):
        read(tmp_path / "folder", features)


def test_unreadable_files_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"no examples in .*: it is empty"):
        read(written(tmp_path / "empty.csv", ""))
    with pytest.raises(UserError, match="has no columns: expected"):
        read(written(tmp_path / "b", "1 2\n"), columns(target=("mood",)))
    with raises(UserError, "line 2"):
        read(written(tmp_path / "c.csv", 'text,label\n"never ends,yes\n'))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match="has no folder with files"):
        read(tmp_path / "nothing")


def test_a_first_row_with_a_label_of_no_other_row_is_a_header(tmp_path: Path) -> None:
    rows = "wer kam,PERSON\nwo war das,ORT\nwer ging,PERSON\n"
    path = tmp_path / "fragen.csv"
    path.write_text(f"Frage,Klasse\n{rows}")
    assert len(read_labelled(path).pairs) == 3
    assert len(read_labelled(path, TableSettings(header=False)).pairs) == 4
    named = read_labelled(path, columns(("Frage",), ("Klasse",)))
    assert {pair.target for pair in named.pairs} == {"PERSON", "ORT"}
    assert len(read_labelled(path, known={"Klasse"}).pairs) == 4
    with raises(UserError, "--data.target-column"):
        read_labelled(path, known=None)
    path.write_text(f"ein Satz,ORT\n{rows}")
    assert len(read_labelled(path).pairs) == 4
    path.write_text(f"text,label\nein Satz,ZEIT\n{rows}")
    assert len(read_labelled(path).pairs) == 4
    path.write_text("first,5\nsecond,3\nthird,3\n")  # numbers are no names
    assert len(read_labelled(path).pairs) == 3


def test_a_long_first_row_is_shortened_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "fragen.csv"
    path.write_text('"Frage\n' + "x" * 5000 + '",Klasse,title\na,b,c\nb,b,c\n')
    with pytest.raises(UserError) as caught:
        read_labelled(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("Artikel;Preis\nMilch;14,03\nBrot;1.234,50\nKäse;1,234\nEi;2\n", "14.03 1234.50 1.234 2"),
        ("Milch;14,03\nBrot;0,5\n", "14.03 0.5"),
        ("Milch;1,234\nBrot;2,345\n", "1.234 2.345"),
        ("Milch;14,03\nBrot;0.5\n", "0.5"),
        ('Milch,"14,03"\nBrot,"0,5"\n', "14.03 0.5"),
        ("0.1,0 0.52,1;0.5\n0.2,0 0.3,1;0.7\n", "0.5 0.7"),
        ("Artikel;Preis\nMilch;14,03 €\nBrot;1.234,50 €\n", "14.03 1234.50"),
        ("Milch;$14.03\nBrot;$0.5\n", "14.03 0.5"),
        ("Milch;14kg\nBrot;0.5g\n", "14"),
    ],
)
def test_decimal_commas_of_numbers_become_points_and_units_are_left_out(tmp_path, text, targets):
    path = written(tmp_path / "a.csv", text)
    corpus = read_labelled(path, TableSettings(header=text.startswith("Artikel")), None)
    assert [pair.target for pair in corpus.pairs] == targets.split()
    labels = [pair.target for pair in read_labelled(path, TableSettings()).pairs]
    assert not {"14.03", "1.234"} & set(labels)


def test_files_of_a_folder_that_are_not_utf8_have_one_encoding_and_are_reported(tmp_path):
    texts = {"gut": "хорошо молоко сегодня", "schlecht": "плохая погода, холодно и темно"}
    for label, text in texts.items():
        (tmp_path / label).mkdir()
        for number in range(6):
            (tmp_path / label / f"{number}.txt").write_bytes(text.encode("koi8_r"))
    (tmp_path / "gut" / "x.txt").write_text("день")
    corpus = read_labelled(tmp_path)
    assert {pair.source for pair in corpus.pairs} == {*texts.values(), "день"}
    (summary,) = corpus.summary()
    assert summary.startswith(f"read 12 files of {tmp_path} as koi8_r, which are not UTF-8: gut/0")
