"""Estimates of the memory of decoding: maps have at most their sizes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.config import SearchConfig
from regard.tasks import memory
from regard.tasks.memory import (
    MIB,
    MemoryLimitError,
    ResultMemory,
    batches_within,
    parts_within,
)
from tests.small_runs import RUNS

TRANSLATORS = ("transformer", "bahdanau", "luong-coverage", "plain", "extras")
CAPTIONERS = ("captioner", "captioner-hard", "captioner-transformer")
CLASSIFIERS = ("classifier", "classifier-transformer")
TEXT = "a b c d b b a"
STEPS = 23


def load(name):
    return regard.load(RUNS / name, device="cpu")


def long_search(model, beam=5, **changes):
    length = {"min_length": STEPS, "max_length": STEPS}
    return replace(model.experiment.search, beam=beam, **length, **changes)


def source_length(model, text):
    return len(model.tokenizers.source.encode_batch([text])[0]) + 1


@pytest.mark.parametrize("num_best", [1, 4])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_maps_of_searches_have_at_most_the_estimated_size(name, num_best):
    model = load(name)
    result = model.translate(TEXT, search=long_search(model), num_best=num_best)
    length = source_length(model, TEXT)
    estimate = model.memory.of_maps(length, STEPS + 1, num_best)
    assert result.num_bytes <= estimate
    assert estimate < model.memory.of_search(length, STEPS + 1, 5, num_best, attention=True)
    if name != "plain":  # which has no attention
        assert estimate < 4 * result.num_bytes
    size = model.memory.of_json(length, STEPS + 1, 5, attention=True)
    assert len(result.trace.to_json()) <= size


@pytest.mark.parametrize("name", TRANSLATORS)
def test_maps_of_scores_have_at_most_the_estimated_size(name):
    model = load(name)
    (result,) = model.score([(TEXT, "b a b a")])
    length = source_length(model, TEXT)
    assert result.num_bytes <= model.memory.of_maps(length, 5)
    assert result.num_bytes <= model.memory.of_forced(length, 5, attention=True)


@pytest.mark.parametrize("name", CAPTIONERS)
def test_maps_of_captions_have_at_most_the_estimated_size(name):
    model = load(name)
    side = model.data.image_size
    image = np.random.default_rng(0).integers(0, 256, (3, side, side), dtype=np.uint8)
    search = long_search(model, max_memory=1000)
    (result,) = model.generate([("image", image)], search=search, num_best=2)
    assert result.num_bytes <= model.memory.of_maps(model.num_cells, STEPS, 2)
    with pytest.raises(MemoryLimitError, match=r"image\[0\]: decoding may take"):
        model.generate([("image", image)], search=replace(search, beam=100, max_memory=1))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_maps_of_predictions_have_at_most_the_estimated_size(name, monkeypatch):
    model = load(name)
    result = model.classify(TEXT)
    trace = result.lazy_trace
    length = len(trace.source.pieces)
    size = sum(block.weights.nbytes + block.scores.nbytes for block in trace.maps)
    assert 0 < size <= model.memory.of_maps(length, 1)
    assert size <= model.bytes_of_prediction(length, attention=True)
    monkeypatch.setattr(memory, "free_ram", lambda: 0)
    model.bytes_of_prediction = lambda _length, attention: (1 << 40) * attention
    assert model.classify(TEXT, attention=False).text == result.text
    with pytest.raises(MemoryLimitError, match=r"source\[1\]: decoding may take"):
        model.classify(["", TEXT])


def test_estimates_grow_with_each_size():
    estimate = load("transformer").memory.of_search
    first = estimate(10, 10, 2, 1, attention=True)
    for sizes in ((11, 10, 2, 1), (10, 11, 2, 1), (10, 10, 3, 1), (10, 10, 2, 2)):
        assert estimate(*sizes, attention=True) > first
    assert first > estimate(10, 10, 2, 1, attention=False)


def test_an_ensemble_needs_the_memory_of_its_members():
    paths = [RUNS / "transformer"] * 2
    one, two = load("transformer"), regard.load(*paths, device="cpu")
    assert two.memory.of_maps(10, 10) == 2 * one.memory.of_maps(10, 10)


def test_a_text_beyond_the_memory_is_named_with_the_option():
    model = load("transformer")
    search = replace(long_search(model, 100), max_length=1000, max_source=1000, max_memory=20)
    with pytest.raises(MemoryLimitError) as caught:
        model.translate(["a b", "", TEXT], search=search, num_best=100)
    assert str(caught.value).startswith("text[0]: decoding may take ")
    assert str(caught.value).endswith("or raise search.max_memory (--max-memory)")
    assert isinstance(caught.value, ValueError)
    assert model.translate(["a b", TEXT], search=search, attention=False)[1].text


def test_a_pair_beyond_the_memory_is_named():
    model = load("bahdanau")
    search = replace(model.experiment.search, max_memory=1, max_source=1000)
    model.experiment = replace(model.experiment, search=search)
    pairs = [("a", "b"), (" ".join([TEXT] * 60), " ".join([TEXT] * 60))]
    with pytest.raises(MemoryLimitError, match=r"pairs\[1\]: decoding may take"):
        model.score(pairs)
    assert model.score(pairs, attention=False)[1].score < 0


def test_all_results_of_a_call_have_a_bound():
    model = load("transformer")
    search = replace(long_search(model), max_memory=8)
    texts = [TEXT] * 6000
    with pytest.raises(MemoryLimitError, match="the attention of all results may take"):
        model.translate(texts, search=search, num_best=5)
    assert len(model.translate(texts[:8], search=search)) == 8


def test_smaller_batches_have_the_same_results(monkeypatch):
    model = load("transformer")
    texts = [TEXT, "a", "b b", TEXT + " c", "c a d"]
    expected = model.translate(texts, num_best=2)
    pairs = [(each.source, each.text or "a") for each in expected]
    scores = model.score(pairs)
    monkeypatch.setattr(memory, "BATCH_BYTES", 1)
    for before, after in zip(expected, model.translate(texts, num_best=2), strict=True):
        assert after.text == before.text
        assert after.score == pytest.approx(before.score, abs=1e-5)
        assert np.allclose(after.attention, before.attention, atol=1e-5)
        assert after.trace.steps[0].token == before.trace.steps[0].token
    for before, after in zip(scores, model.score(pairs), strict=True):
        assert after.score == pytest.approx(before.score, abs=1e-5)


def test_batches_and_parts(monkeypatch):
    monkeypatch.setattr(memory, "BATCH_BYTES", 12)
    sizes = [1, 2, 3, 4, 9, 30, 1]
    assert list(batches_within(sizes, int, 3)) == [[1, 2, 3], [4], [9], [30], [1]]
    assert list(parts_within(sizes, int)) == [[1, 2, 3, 4], [9], [30], [1]]
    assert list(batches_within([], int, 3)) == list(parts_within([], int)) == []


def test_results_are_counted():
    results = ResultMemory(SearchConfig(max_memory=3))
    results.add(2 * MIB)
    with pytest.raises(MemoryLimitError, match=r"may take 4 MiB of memory: expected at most 3 MiB"):
        results.add(2 * MIB)


def test_parts_keep_the_order_of_texts(monkeypatch):
    model = load("transformer")
    texts = [TEXT, "", "a b"] * 4
    assert list(model.parts(texts)) == [texts]
    monkeypatch.setattr(memory, "BATCH_BYTES", 50_000)
    parts = list(model.parts(texts))
    assert len(parts) > 2
    assert [text for part in parts for text in part] == texts


@pytest.mark.parametrize("changes", [{}, {"max_ratio": 1.7}, {"max_length": 9}, {"min_length": 30}])
def test_outputs_are_as_long_as_estimated(changes):
    for name in ("transformer", "bahdanau"):
        model = load(name)
        search = replace(model.experiment.search, **changes)
        lengths = [0, 1, 2, 7, 10, 29]
        maxima = model._maximum(torch.tensor(lengths), search).tolist()
        for maximum, estimate in zip(maxima, model.longest_outputs(lengths, search), strict=True):
            assert maximum <= estimate <= maximum + 1
