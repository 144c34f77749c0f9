"""Models that were used are copied, pickled, sent to other processes and shared by threads."""

import copy
import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import torch

from regard.compiled.freeze import freeze
from regard.config import SearchConfig
from regard.numerics.linear import is_packed
from regard.pipeline.load import load
from regard.tasks.counting import counting
from regard.tasks.counting.settings import CountingSettings
from tests.tasks.captioning.test_training import SCENE

TEXTS = ["a b c", "b", "", "c a a"]
SEARCHES = [SearchConfig(max_length=3), SearchConfig(beam=3, max_length=3, precision="bfloat16")]


def outputs(model):
    """Texts and scores of all that a model can do."""
    if hasattr(model, "translate"):
        written = [each for how in SEARCHES for each in model.translate(TEXTS, search=how)]
        return [(each.text, each.score) for each in written]
    if hasattr(model, "caption"):
        written = model.caption([SCENE, SCENE])
        return [(each.text, each.score) for each in written]
    return [(each.text, each.probabilities) for each in model.classify(["so hot", "", "so cold"])]


@pytest.mark.parametrize("names", [["translation"], ["translation"] * 2, ["captions"], ["labels"]])
def test_a_used_model_is_copied_and_pickled(trained, names):
    model = load(*map(trained, names))
    expected = outputs(model)
    assert outputs(copy.deepcopy(model)) == expected
    assert outputs(pickle.loads(pickle.dumps(model))) == expected
    assert outputs(model) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_a_frozen_model_is_copied_and_pickled(run, dtype):
    frozen = freeze(load(run).model, dtype)
    again = [copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen)]
    stored = io.BytesIO()
    torch.save(again[0], stored)
    stored.seek(0)
    again.append(torch.load(stored, weights_only=False))
    for other in again:
        for ours, theirs in zip(other.parameters(), frozen.parameters(), strict=True):
            assert is_packed(ours) == is_packed(theirs)
            ours, theirs = (each.plain() if is_packed(each) else each for each in (ours, theirs))
            assert torch.equal(ours, theirs)


def test_a_used_counting_model_is_copied_and_pickled():
    settings = CountingSettings(steps=1, hidden=4)
    model = counting.build_counter(settings, 0).eval()
    counter = counting.Counter(model, settings, 1)
    letters = torch.tensor([1, 2, 3, 1, 1, 2, 3, 1, 0, 0])
    expected = counting.count_letters(counter, letters).counts
    for other in (copy.deepcopy(counter), pickle.loads(pickle.dumps(counter))):
        assert counting.count_letters(other, letters).counts == expected


def test_threads_share_a_model(run):
    """Each makes the packed weights that nobody has made yet."""
    model = load(run)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: outputs(model), range(16)))
    assert results == [outputs(load(run))] * 16


def test_a_spawned_process_gives_the_same_output(run):
    model = load(run)
    expected = outputs(model)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(outputs, model).result(timeout=120) == expected
