"""Pairs that are held out of files: their number, their sources, and the training pairs."""

from collections import Counter
from itertools import chain

import pytest

from regard.config import DataConfig
from regard.corpora import held_out_files, splits
from regard.corpora import sources as corpora
from regard.errors import UserError


@pytest.fixture(autouse=True)
def large(monkeypatch, tmp_path):
    monkeypatch.setattr(corpora, "LARGE", 0)
    monkeypatch.setattr(held_out_files, "AT_A_TIME", 16)
    monkeypatch.setattr(held_out_files, "SPARE", 2)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def split_of(tmp_path, sources, **settings):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\tzwei {n}\n" for n, source in enumerate(sources)))
    return splits.read(DataConfig(path=path, **settings))


def lines(pairs):
    return [pair.line - 1 for pair in pairs]


def test_pairs_with_one_source_stay_together(tmp_path):
    sources = [f"source {n % 40}" for n in range(120)]
    split = split_of(tmp_path, sources, dev_size=6, test_size=9)
    assert (len(split.dev), len(split.test), len(split.train)) == (6, 9, 105)
    places = [lines(part) for part in (split.dev, split.test, split.train)]
    assert sorted(chain.from_iterable(places)) == list(range(120))
    groups = [{sources[place] for place in part} for part in places]
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]


def test_a_source_with_many_pairs_is_trained_on_and_others_are_held_out(tmp_path):
    sources = ["usual"] * 500 + [f"source {n}" for n in range(20)]
    split = split_of(tmp_path, sources, dev_size=5, test_size=5)
    assert "usual" not in {pair.source for pair in split.dev + split.test}
    assert (len(split.dev), len(split.test)) == (5, 5)


def test_more_sources_are_sampled_if_many_are_too_large(tmp_path):
    """Nineteen of twenty sources have more pairs than a part may have."""
    sources = [f"often {n % 95}" for n in range(950)] + [f"once {n}" for n in range(5)]
    split = split_of(tmp_path, sources, dev_size=2, test_size=2)
    assert {pair.source[:4] for pair in split.dev + split.test} == {"once"}
    with pytest.raises(UserError, match="only 3 of 955 pairs can be held out for it"):
        split_of(tmp_path, sources, dev_size=2, test_size=4)


def test_after_a_limit_the_nearest_pairs_with_other_sources_are_held_out(tmp_path):
    sources = [f"source {n}" for n in range(60)] + [f"source {n}" for n in range(80)] * 2
    split = split_of(tmp_path, sources, limit=60, dev_size=4, test_size=4)
    assert lines(split.train) == list(range(60))
    assert {sources[place] for place in lines(split.dev + split.test)} <= {
        f"source {n}" for n in range(60, 80)
    }
    assert (len(split.dev), len(split.test)) == (4, 4)
    large = split_of(tmp_path, sources, limit=1000)
    assert len(large.dev) > 3
    assert len(large.train) + len(large.dev) + len(large.test) == len(sources)


def test_default_sizes_are_upper_bounds(tmp_path):
    split = split_of(tmp_path, ["one source"] * 30 + ["another"] * 30)
    assert (len(split.dev), len(split.test), len(split.train)) == (0, 0, 60)
    with pytest.raises(UserError, match="leaves none to train on"):
        split_of(tmp_path, ["a", "b"], dev_size=1, test_size=1)


def test_shared_sources_of_a_dev_file_are_counted(tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("source 1\tx\nsource 2\tx\nnew\tx\n")
    split = split_of(tmp_path, [f"source {n}" for n in range(40)], dev_path=dev, test_size=0)
    assert any("2 of 3 dev pairs" in line for line in split.left_out)


def test_every_seed_holds_out_other_pairs(tmp_path):
    sources = [f"source {n}" for n in range(50)]
    counts = Counter(
        place for seed in range(20) for place in lines(split_of(tmp_path, sources, seed=seed).dev)
    )
    assert len(counts) > 20
