"""The sample of a file: sorted rows give the same task and columns as the same rows shuffled."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from itertools import pairwise

import pytest

from regard.data.files import blocks, samples
from regard.data.files.samples import sample_of, sample_rows
from regard.data.files.tables import Quotes, TableSettings, rows_of
from regard.data.recognition.formats import recognise
from regard.data.recognition.inspection import inspect

WORDS = ("river", "stone", "cat", "dog", "walks", "blue", "green", "happy", "house", "over", "tree")


def sentence(draw, words=6):
    return " ".join(draw.choice(WORDS) for _ in range(words))


def reviews(labels, number=5600):
    draw = random.Random(1)
    return [(f"{sentence(draw)} {label}ish {n}", label) for label in labels for n in range(number)]


def sentiment140():
    draw = random.Random(2)
    return [
        (
            polarity,
            str(n),
            f"Mon Apr {n % 28 + 1:02d} 2009",
            "NO_QUERY",
            f"user{n}x",
            sentence(draw),
        )
        for polarity in "04"
        for n in range(146_000, 151_600)
    ]


def prices(number=5300):
    draw = random.Random(3)
    free = [(f"{sentence(draw)} gratis", "0") for _ in range(number)]
    return free + [(f"{sentence(draw)} euro", str(draw.randint(100, 900))) for _ in range(number)]


def unlabelled_first():
    draw = random.Random(4)
    return [(sentence(draw), "") for _ in range(12_000)] + reviews(["ham", "spam"], 3000)


def words_before_sentences():
    draw = random.Random(5)
    words = [(draw.choice(WORDS) + str(n), draw.choice(WORDS) + f"en{n}") for n in range(5200)]
    return words + [(sentence(draw, 9), sentence(draw, 9)) for _ in range(5200)]


def captions():
    draw = random.Random(6)
    first = [("1.jpg", f"{sentence(draw)} {n}") for n in range(5300)]
    return first + [(f"{n // 5}.jpg", sentence(draw)) for n in range(10, 6000)]


def dated():
    draw = random.Random(7)
    return [
        (f"2024-{1 + n // 6000:02d}-01", f"{sentence(draw)} {word}", word)
        for n, word in enumerate(["good"] * 6000 + ["bad"] * 6000)
    ]


def numbered():
    return [(str(n), *row) for n, row in enumerate(reviews(["neg", "pos"]))]


def written(path, rows, head=()):
    rows = [head, *rows] if head else rows
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(dict(zip(rows[0], row, strict=True))) + "\n" for row in rows[1:])
    elif path.suffix == ".json":
        text = json.dumps([dict(zip(rows[0], row, strict=True)) for row in rows[1:]])
    else:
        file = io.StringIO()
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows(rows)
        text = file.getvalue()
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


SORTED = [
    ("a.csv", reviews(["negative", "positive"]), ("review", "sentiment"), "labels", (0, 1)),
    ("a.csv", reviews(["neg", "pos"]), (), "labels", (0, 1)),
    ("a.tsv", [(b, a) for a, b in reviews(["neg", "pos"])], (), "labels", (1, 0)),
    ("a.jsonl", reviews(["0", "1"]), ("text", "label"), "labels", (0, 1)),
    ("a.json", reviews(["0", "1"]), ("text", "label"), "labels", (0, 1)),
    ("a.csv.gz", reviews(["0", "1"]), ("text", "label"), "labels", (0, 1)),
    ("a.csv", sentiment140(), (), "labels", (5, 0)),
    ("a.csv", prices(), ("offer", "price"), "values", (0, 1)),
    ("a.csv", prices(), ("text", "score"), "values", (0, 1)),
    ("a.csv", unlabelled_first(), ("text", "label"), "labels", (0, 1)),
    ("a.tsv", words_before_sentences(), (), "words", (0, 1)),
    ("a.csv", captions(), ("image", "caption"), "captions", (0, 1)),
    ("a.csv", dated(), (), "labels", (1, 2)),
    ("a.csv", numbered(), (), "labels", (1, 2)),
]


@pytest.mark.parametrize("case", SORTED)
@pytest.mark.parametrize("is_small", [True, False])
def test_a_sorted_file_is_recognised_as_the_same_rows_shuffled(
    tmp_path, monkeypatch, case, is_small
):
    name, rows, head, recipe, columns = case
    if not is_small:
        monkeypatch.setattr(blocks, "SMALL", 1 << 10)
    shuffled = random.Random(8).sample(rows, len(rows))
    for number, ordered in enumerate((rows, shuffled)):
        inspection = inspect(written(tmp_path / f"{number}{name}", ordered, head))
        roles = inspection.roles
        assert (roles.recipe, (roles.source, roles.target)) == (recipe, columns)
        assert inspection.header == (head or None)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_columns_that_begin_late_in_a_json_file_are_read(tmp_path, name):
    draw = random.Random(11)
    records = [{"text": sentence(draw)} for _ in range(9000)]
    records += [{"text": f"{sentence(draw)} {n}", "label": "ab"[n % 2]} for n in range(9000)]
    lines = map(json.dumps, records)
    text = "\n".join(lines) if name == "a.jsonl" else json.dumps(records)
    path = tmp_path / name
    path.write_text(text)
    inspection = inspect(path)
    assert inspection.header == ("text", "label")
    assert inspection.roles.recipe == "labels"


def test_workbooks_and_parquet_are_sampled(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = reviews(["neg", "pos"])
    frame = pandas.DataFrame(rows, columns=["review", "sentiment"])
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=3000)
    for path in (tmp_path / "a.parquet",):
        roles = inspect(path).roles
        assert (roles.recipe, roles.source, roles.target) == ("labels", 0, 1)


def test_a_sample_has_both_ends_and_equal_distances():
    rows = [(str(n),) for n in range(100_000)]
    for given in (rows, iter(rows)):
        sample = sample_of(given)
        numbers = [int(cell) for (cell,) in sample.rows]
        assert len(numbers) == samples.NUM_ROWS
        assert sample.num_rows == 100_000
        assert numbers == sorted(set(numbers))
        assert numbers[: samples.NUM_FIRST] == list(range(samples.NUM_FIRST))
        assert numbers[-samples.NUM_LAST :] == list(range(100_000 - samples.NUM_LAST, 100_000))
        assert max(second - first for first, second in pairwise(numbers)) <= 40
    for number in (0, 1, 99, 100, 101, 4999, 5000):
        sample = sample_of(iter(rows[:number]))
        assert (list(sample.rows), sample.num_rows) == (rows[:number], number)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv", "a.jsonl"])
def test_blocks_have_whole_rows(tmp_path, monkeypatch, encoding, name):
    monkeypatch.setattr(blocks, "SMALL", 1 << 10)
    draw = random.Random(9)
    rows = [(f"{n} é, {sentence(draw)} ", f'"{sentence(draw)}"\n{n}' * 3) for n in range(20_000)]
    if name == "a.tsv":
        rows = [(a, b.replace("\n", " ").replace('"', "")) for a, b in rows]
    if name == "a.jsonl" and encoding != "utf-8":
        pytest.skip("JSON lines are UTF-8")
    path = written(tmp_path / name, rows, ("source", "target"))
    content = path.read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    sample = sample_rows(path, recognise(path, TableSettings()), TableSettings())
    assert len(sample.rows) > 0.95 * samples.NUM_ROWS
    assert 0.9 < sample.num_rows / 20_000 < 1.1
    assert sample.rows[0] == ("source", "target")
    assert set(sample.rows[1:]) <= set(rows)
    assert len(set(sample.rows)) == len(sample.rows)


def test_rows_of_other_lengths_have_their_share(tmp_path):
    draw = random.Random(10)
    words = [(f"{draw.choice(WORDS)}{n}", "x") for n in range(190_000)]
    rows = words + [(sentence(draw, 30), "x") for _ in range(10_000)]
    path = written(tmp_path / "a.tsv", rows)
    sample = sample_rows(path, recognise(path, TableSettings()), TableSettings())
    share = sum(" " not in text for text, _ in sample.rows) / len(sample.rows)
    assert share == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("mark", ["", '"', " ", "\r", "\\"])
def test_rows_without_quotes_are_split_as_rows_with_quotes(mark):
    text = f"{mark}a{mark},b\nc,{mark}d{mark}\n\n,\ne,f,g\n{mark},h\n,i{mark}"
    for quotes in (Quotes(), Quotes(escape="\\")):
        rows = rows_of(text.split("\n"), ",", quotes)
        expected = [row.cells for row in rows if row.fault is None and len(row.cells) == 2]
        assert list(samples._of_quoted(text, ",", quotes, 2)) == expected
