"""Large files give the same batches as small ones, again from the cache, and in little memory."""

import random
import re
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.config import DataConfig, TranslationModelConfig
from regard.corpora import held_out_files, splits
from regard.corpora import sources as corpora
from regard.corpora.table_settings import table_settings
from regard.data.splits import canonical_text
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from regard.tasks.translation import preparation, training_parts
from regard.tasks.translation.encoding import Tokenizers
from tests.data.text.pairs.test_encoded import same
from tests.messages import check_message


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def every_file_is_large(monkeypatch):
    monkeypatch.setattr(corpora, "LARGE", 0)


def written(path, lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def prepared(config, seed=1, on_progress=None):
    split = splits.read(replace(config, seed=seed), on_progress)
    tokenizers = preparation.train_tokenizers(config, split.train, on_progress)
    return (
        split,
        tokenizers,
        preparation.encode(
            config, tokenizers, split.train, seed, on_progress, model=TranslationModelConfig()
        ),
    )


words = st.lists(st.sampled_from("abcdeÄ"), min_size=1, max_size=4).map(" ".join)
good = st.tuples(words, words).map("\t".join).map(str.encode)
lines = st.lists(
    st.one_of(
        good, good, good, st.sampled_from([b"", b"no tab", b"a\t", b"\xff\tb", b"a\tb\tc\r"])
    ),
    max_size=31,
)
configs = st.builds(
    DataConfig,
    limit=st.sampled_from([None, None, 3, 7]),
    dev_size=st.sampled_from([None, 0, 2]),
    test_size=st.sampled_from([None, 0, 3]),
    max_length=st.sampled_from([3, 200]),
    shared_vocabulary=st.booleans(),
    min_count=st.sampled_from([1, 2]),
    batch_sentences=st.sampled_from([None, 2]),
    source_end=st.booleans(),
)


@given(lines, configs, st.integers(0, 5), st.booleans())
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_large_file_gives_the_pairs_of_a_small_one(
    monkeypatch, tmp_path, lines, config, seed, own
):
    """The splits are other random ones."""
    config = replace(config, path=written(tmp_path / "pairs.tsv", lines))
    if own:
        config = replace(config, dev_path=written(tmp_path / "dev.tsv", [b"a\tb", b"no tab"]))
    monkeypatch.setattr(corpora, "LARGE", 0)
    try:
        split, tokenizers, made = prepared(config, seed)
    except UserError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert re.search("no pairs|held out|longer than", message)
        return
    again = prepared(config, seed)
    assert (split.dev, split.test) == (again[0].dev, again[0].test)
    assert [*split.train] == [*again[0].train]
    assert made.batches.fingerprint() == again[2].batches.fingerprint()
    assert split.left_out + made.left_out == again[0].left_out + again[2].left_out

    pairs = read_pairs(config.path, settings=table_settings(config)).pairs
    train, held_out = [*split.train], [*split.test, *(() if own else split.dev)]
    first = len(pairs) if config.limit is None else min(config.limit, len(pairs))
    used = sorted([*train, *held_out], key=lambda pair: pair.line)
    assert set(train) <= set(pairs[:first])
    assert used == list(pairs) if first == len(pairs) else train == list(pairs[:first])
    sources = [{canonical_text(pair.source) for pair in part} for part in (train, held_out)]
    assert not sources[0] & sources[1]
    for size, part in ((config.dev_size, split.dev), (config.test_size, split.test)):
        assert size is None or len(part) == size or (own and part is split.dev)
    sides = zip(
        tokenizers.source.encode_batch([pair.source for pair in train]),
        tokenizers.target.encode_batch([pair.target for pair in train]),
        strict=True,
    )
    lengths = [max(len(one) + config.source_end, len(other) + 1) for one, other in sides]
    assert len(made.batches) == sum(length <= config.max_length for length in lengths)


def test_preparing_two_large_files_reports_and_caches_what_small_ones_have(monkeypatch, tmp_path):
    config = DataConfig(
        path=written(tmp_path / "a", [b"one", b"two", b"", b"four"] * 11),
        target_path=written(tmp_path / "b", [b"eins", b"zwei", b"drei", b"vier\0"] * 11),
    )
    expected = prepared(config)
    assert "left out 11 lines" in expected[0].left_out[0]
    monkeypatch.setattr(corpora, "LARGE", 0)
    first = prepared(config)
    assert first[0].left_out == expected[0].left_out
    for name in ("path", "target_path"):
        moved = getattr(config, name).rename(tmp_path / f"moved-{name}")
        config = replace(config, **{name: moved})
    split, _, made = prepared(config)
    assert str(tmp_path / "moved-path") in split.left_out[0]
    assert str(tmp_path / "moved-target_path") in split.left_out[1]
    assert made.batches.fingerprint() == first[2].batches.fingerprint()
    assert not made.cache_files


def numbered(count, letters="abcdefgh"):
    drawing = random.Random(5)
    draw = lambda: " ".join(drawing.choices(letters, k=drawing.randint(1, 9)))  # noqa: E731
    return [f"{draw()} {number}\t{draw()}".encode() for number in range(count)]


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "unigram"])
def test_cached_pairs_are_bit_equal(every_file_is_large, tmp_path, kind):
    config = DataConfig(
        path=written(tmp_path / "pairs.tsv", numbered(499)), tokenizer=kind, vocabulary_size=97
    )
    _, tokenizers, first = prepared(config)
    split, found, second = prepared(config)
    assert first.cache_files
    assert not second.cache_files
    assert found.to_json() == tokenizers.to_json()
    assert first.batches.fingerprint() == second.batches.fingerprint()
    pairs = zip(first.batches.epoch(3), second.batches.epoch(3), strict=True)
    assert all(same(one, other) for one, other in pairs)
    # A run that is resumed has its tokenizers from files.
    tokenizers = Tokenizers.from_json(tokenizers.to_json())
    model = TranslationModelConfig()
    assert not preparation.encode(config, tokenizers, split.train, 1, model=model).cache_files


def test_training_and_batch_settings_reuse_the_cache(every_file_is_large, tmp_path):
    config = DataConfig(path=written(tmp_path / "pairs.tsv", numbered(97)))
    first = prepared(config)[2]
    changed = replace(config, batch_tokens=97, equal_lengths=True)
    second = prepared(changed)[2]
    assert second.cache_files == ()
    assert second.batches.fingerprint() != first.batches.fingerprint()


@pytest.mark.parametrize(
    "changes", [{"max_length": 7}, {"target_end": False}, {"dev_size": 3}, {"lowercase": True}]
)
def test_data_settings_do_not_reuse_the_cache(every_file_is_large, tmp_path, changes):
    config = DataConfig(path=written(tmp_path / "pairs.tsv", numbered(97)))
    prepared(config)
    assert prepared(replace(config, **changes))[2].cache_files


def test_a_changed_file_is_prepared_again(every_file_is_large, tmp_path):
    lines = numbered(97)
    config = DataConfig(path=written(tmp_path / "pairs.tsv", lines))
    first = prepared(config)[2]
    written(config.path, [*lines[:-1], b"other\tpair"])
    second = prepared(config)[2]
    assert not set(second.cache_files) & set(first.cache_files)
    assert second.batches.fingerprint() != first.batches.fingerprint()


def test_small_files_and_generated_pairs_are_not_cached(tmp_path):
    prepared(DataConfig(path=written(tmp_path / "pairs.tsv", numbered(97))))
    prepared(DataConfig(synthetic="copy", synthetic_size=97))
    assert not (tmp_path / "cache").exists()


def test_progress_is_reported(every_file_is_large, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.runtime.progress.EVERY", 40)
    reports = []
    config = DataConfig(path=written(tmp_path / "pairs.tsv", numbered(97)), dev_size=3, test_size=0)
    prepared(config, on_progress=lambda *report: reports.append(report))
    assert [report for report in reports if report[0] != "holding out"] == [
        ("reading (first run only)", 40, 97),
        ("reading (first run only)", 80, 97),
        ("learning the source vocabulary", 40, 94),
        ("learning the source vocabulary", 80, 94),
        ("learning the target vocabulary", 40, 94),
        ("learning the target vocabulary", 80, 94),
        ("encoding (first run only)", 40, 94),
        ("encoding (first run only)", 80, 94),
    ]


@pytest.mark.parametrize(
    ("stage", "note"),
    [
        ("reading", "this pass over the data is not complete, so the next run repeats it; "),
        ("learning the source vocabulary", "this pass over the data is not complete, so the next "),
        ("encoding", "0 encoded pairs are kept; "),
    ],
)
def test_an_interruption_leaves_no_unfinished_file(
    every_file_is_large, tmp_path, monkeypatch, stage, note
):
    monkeypatch.setattr("regard.runtime.progress.EVERY", 40)
    config = DataConfig(path=written(tmp_path / "pairs.tsv", numbered(97)))

    def interrupt(label, done, total):
        if label.startswith(stage):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        prepared(config, on_progress=interrupt)
    assert caught.value.__notes__[0].startswith(note)
    check_message(caught.value.__notes__[0])
    assert not list(tmp_path.rglob("*.unfinished"))
    assert not list(tmp_path.rglob("*.pairs-*.safetensors"))
    assert prepared(config)[2].cache_files


def test_memory_does_not_grow_with_the_file(every_file_is_large, tmp_path, monkeypatch):
    """Memory has sizes of length groups, almost one for each pair of this file, and no texts of 500
    bytes."""
    monkeypatch.setattr(training_parts, "AT_A_TIME", 64)
    monkeypatch.setattr(training_parts, "TOKENS_OF_A_PART", 4096)
    monkeypatch.setattr(held_out_files, "AT_A_TIME", 64)

    def peak(count):
        path = written(tmp_path / f"{count}.tsv", [line * 3 for line in numbered(count)])
        tracemalloc.start()
        prepared(DataConfig(path=path, tokenizer="characters", dev_size=7, test_size=7))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak(101)  # what is imported or made once
    few, many = peak(199), peak(997)
    assert (many - few) / (997 - 199) < 150


def test_bpe_dropout_is_on_the_sides_with_merges(tmp_path):
    path = written(tmp_path / "pairs.tsv", [b"lower tower\tlower tower"] * 30)
    config = DataConfig(path=path, target_tokenizer="bpe", vocabulary_size=20, dev_size=0)
    _, tokenizers, made = prepared(config)
    assert preparation.resampled(config, tokenizers, made, 1) is made.batches
    dropped = replace(config, bpe_dropout=1.0)
    batch = next(preparation.resampled(dropped, tokenizers, made, 1).epoch(1))
    plain = next(made.batches.epoch(1))
    assert batch.source.ids.tolist() == plain.source.ids.tolist()
    assert batch.outputs.size(1) == len("_lower_tower") + 1 > plain.outputs.size(1)

    loaded = Tokenizers(tokenizers.source, tokenizers.source)  # of another run, both of words
    with pytest.raises(UserError, match="no tokenizer is bpe"):
        preparation.resampled(dropped, loaded, made, 1)
