"""Which pairs are trained on and which are held out."""

from collections import Counter
from dataclasses import replace

import pytest

from regard.config import CaptionDataConfig, ClassificationDataConfig, DataConfig
from regard.corpora import splits
from regard.data.files.objects import table_of
from regard.data.splits import canonical_text, split_held_out
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import check_message, raises


def written(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def sources(pairs):
    return {canonical_text(pair.source) for pair in pairs}


@pytest.fixture
def twofold(tmp_path):
    """150 sources with two targets each: no part of odd size can be filled."""
    return written(tmp_path / "two.tsv", [f"s{n // 2}\tt{n}" for n in range(300)])


def test_default_sizes_are_maxima(twofold):
    split = splits.read(DataConfig(path=twofold))
    assert [len(part) for part in (split.train, split.dev, split.test)] == [272, 14, 14]
    parts = [sources(part) for part in (split.train, split.dev, split.test)]
    assert len(set.union(*parts)) == sum(map(len, parts)) == 150


def test_files_of_which_most_lines_cannot_be_read_are_named(tmp_path, monkeypatch):
    pairs, words = [f"s{n}\tt{n}" for n in range(40)], [f"word{n}" for n in range(41)]
    path = written(tmp_path / "half.tsv", [*pairs, *words])
    sentence = (
        f"only 40 of 81 lines can be read: left out 41 lines of {path}: 41 without a tab "
        "(lines 41, 42, 43, 44, 45 and 36 more); check --data.delimiter"
    )
    assert splits.read(DataConfig(path=path)).unusable == (sentence,)
    monkeypatch.setattr("regard.corpora.sources.LARGE", 0)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for _ in range(2):  # the second time from the cache
        assert splits.read(DataConfig(path=path)).unusable == (sentence,)
    good = written(tmp_path / "good.tsv", [*pairs, *words[1:], *["\t"] * 100])
    dev = splits.read(DataConfig(path=good, dev_path=path))
    assert dev.unusable == (sentence,)
    assert splits.read(DataConfig(path=good)).unusable == ()


def test_many_rows_with_further_cells_are_named(tmp_path):
    def sentences(every):
        lines = [f"s{n}\tt{n}" + ("\tmore" if n % every == 0 else "") for n in range(200)]
        return splits.read(DataConfig(path=written(tmp_path / "a.tsv", lines))).unusable

    (sentence,) = sentences(5)
    check_message(sentence)
    assert sentences(20) == ()


@pytest.mark.parametrize("is_large", [False, True])
def test_invisible_characters_are_counted_by_file(tmp_path, monkeypatch, is_large):
    texts = [f"w{n}\tv{n}" for n in range(200)]
    texts[3], texts[9], texts[11] = "a\xadb\tc", "a\tb\u200bc\u200b", "a\xad\td\u2066e"
    texts[20] = "\u200e \t x"
    path = written(tmp_path / "marks.tsv", texts)
    dev = written(tmp_path / "dev.tsv", ["x1\ty1", "z1\tq\u200f"])
    if is_large:
        monkeypatch.setattr("regard.corpora.sources.LARGE", 0)
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for _ in range(2):  # the second time from the cache
        blank, train, held_out = splits.read(DataConfig(path=path, dev_path=dev)).left_out
        assert blank == f"left out 1 line of {path}: 1 with a blank side (line 21)"
        check_message(train)
        assert held_out.startswith(f"invisible characters in 1 of 2 pairs of {dev} (line 2)")
        moved = tmp_path / "moved.tsv"
        path, dev = path.rename(moved) if path != moved else path, dev


def test_one_column_of_a_table_of_numbers_is_no_text(tmp_path):
    numbers = [f"{n * 7 % 17},{n * 5 % 13},{n * 3 % 19 / 10},{n % 3}" for n in range(60)]
    pairs = DataConfig(path=written(tmp_path / "digits.csv", numbers), delimiter="comma")
    (sentence,) = splits.read(pairs).unusable
    check_message(sentence)
    species = written(
        tmp_path / "iris.csv",
        ["a,b,c,d,class", *(f"{row},{'xyz'[n % 3]}" for n, row in enumerate(numbers))],
    )
    columns = dict(source_column="a", target_column=("class",))
    labels = ClassificationDataConfig(path=species, **columns)
    (sentence,) = splits.read(labels).unusable
    assert "one of 4 columns of numbers" in sentence
    assert splits.read(DataConfig(path=species, source_column="a", target_column="b")).unusable
    split = splits.read(replace(labels, source="series"))
    assert (split.unusable, sentence in split.left_out) == ((), True)
    table = table_of([dict(enumerate(row.split(","))) for row in numbers])
    assert (
        splits.read(DataConfig(source_column="1", target_column="2"), table=table)
        .unusable[0]
        .startswith("the data: the sources")
    )


@pytest.mark.parametrize(
    "row",
    [
        "{n},{square},{double}",  # row numbers
        "{square},word{n},{double}",
        "{square} {n},{double},{square}",
        "{square},{double}",
    ],
)
def test_one_number_beside_others_may_be_a_text(tmp_path, row):
    rows = [row.format(n=n, square=n * n % 37, double=2 * n) for n in range(60)]
    columns = dict(source_column="2", target_column="1") if row.startswith("{n}") else {}
    config = DataConfig(path=written(tmp_path / "pairs.csv", rows), **columns)
    assert splits.read(config).unusable == ()


def test_requested_sizes_are_exact_or_rejected_by_name(twofold):
    split = splits.read(DataConfig(path=twofold, dev_size=26, test_size=34))
    assert [len(part) for part in (split.dev, split.test)] == [26, 34]
    with raises(UserError, "--data.test-size"):
        splits.read(DataConfig(path=twofold, test_size=3))
    with pytest.raises(UserError, match=r"none to train on: lower --data.dev-size"):
        splits.read(DataConfig(path=twofold, dev_size=150, test_size=150))


def test_pairs_after_the_limit_fill_the_held_out_splits(tmp_path):
    lines = [f"s{n}\tt{n}" for n in range(7)] + [f"one\tu{n}" for n in range(50)]
    path = written(tmp_path / "late.tsv", lines + [f"r{n}\tt{n}" for n in range(5)])
    split = splits.read(DataConfig(path=path, limit=7, dev_size=3, test_size=2))
    assert sources(split.dev) | sources(split.test) == {f"r{n}" for n in range(5)}
    assert sources(split.train) == {f"s{n}" for n in range(7)}
    with pytest.raises(UserError, match=r"--data.test-size is 3, but only 2 of 55"):
        splits.read(DataConfig(path=path, limit=7, dev_size=3, test_size=3))


def test_dev_and_test_share_the_pairs_after_the_limit(tmp_path):
    path = written(tmp_path / "short.tsv", [f"s{n}\tt{n}" for n in range(300)])
    split = splits.read(DataConfig(path=path, limit=290))
    assert [len(part) for part in (split.train, split.dev, split.test)] == [290, 5, 5]


def test_dev_pairs_in_the_training_data_warn(tmp_path):
    path = written(tmp_path / "a.tsv", [f"s{n}\tt{n}" for n in range(41)])
    dev = written(tmp_path / "dev.tsv", ["s3\tt", "S7 \tt", "new\tt"])
    split = splits.read(DataConfig(path=path, dev_path=dev))
    assert [len(part) for part in (split.train, split.dev, split.test)] == [41, 3, 0]
    (warning,) = split.left_out
    check_message(warning)
    new_path = written(tmp_path / "other.tsv", ["new\tt"])
    assert splits.read(DataConfig(path=path, dev_path=new_path)).left_out == ()


def test_a_test_split_is_held_out_on_request_with_a_dev_file(tmp_path):
    path = written(tmp_path / "a.tsv", [f"s{n}\tt{n}" for n in range(41)])
    dev = written(tmp_path / "dev.tsv", ["new\tt"])
    config = DataConfig(path=path, dev_path=dev, dev_size=5, test_size=7)
    split = splits.read(config)
    assert [len(part) for part in (split.train, split.dev, split.test)] == [34, 1, 7]
    assert not sources(split.train) & sources(split.test)


@pytest.mark.parametrize("seed", [1, 3])
def test_the_split_depends_on_data_seed_only(tmp_path, seed):
    path = written(tmp_path / "a.tsv", [f"s{n}\tt{n}" for n in range(41)])
    split = splits.read(DataConfig(path=path, dev_size=5, test_size=7, seed=seed))
    expected = split_held_out(read_pairs(path).pairs, (5, 7), seed)
    assert (split.dev, split.test) == (expected.dev, expected.test)


@pytest.mark.parametrize(
    "config",
    [
        DataConfig(synthetic="copy", synthetic_size=41),
        ClassificationDataConfig(synthetic="drinks", synthetic_size=41),
        CaptionDataConfig(synthetic="shapes", synthetic_size=41),
    ],
)
def test_generated_data_depend_on_data_seed_only(config):
    first, again, different = (splits.read(replace(config, seed=seed)) for seed in (1, 1, 2))
    assert [*first.train] == [*again.train] != [*different.train]
    assert first.test == again.test != different.test


def test_scenes_are_held_out_by_number_of_shapes():
    config = CaptionDataConfig(synthetic="shapes", synthetic_size=400)
    split = splits.read(config)
    assert [len(part) for part in (split.train, split.dev, split.test)] == [1800, 100, 100]
    assert not sources(split.train) & (sources(split.dev) | sources(split.test))
    for part in (split.dev, split.test):
        num_shapes = Counter(source.count(";") + 1 for source in sources(part))
        assert sorted(num_shapes.values()) == [6, 7, 7]


@pytest.mark.parametrize(
    "sizes",
    [
        dict(dev_size=7),
        dict(dev_size=100, test_size=20),
    ],
)
def test_captions_that_cannot_be_held_out_are_refused(sizes):
    with raises(UserError):
        splits.read(CaptionDataConfig(synthetic="shapes", synthetic_size=24, **sizes))


@pytest.mark.parametrize("part", ["dev", "test"])
def test_held_out_examples_in_the_training_data_warn_in_every_split(tmp_path, part):
    lines = [f"s{n}\t{n % 2}" for n in range(41)]
    path = written(tmp_path / "a.tsv", lines)
    split = splits.read(ClassificationDataConfig(path=path, **{f"{part}_path": path}, dev_size=0))
    (warning,) = (line for line in split.left_out if f"{part} pairs" in line)
    assert warning.startswith("41 of 41")
