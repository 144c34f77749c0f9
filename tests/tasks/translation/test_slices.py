"""Slices of a translation model, with outputs of a fake model."""

from __future__ import annotations

import pytest

from regard.tasks.evaluation import ScoredOutput
from regard.tasks.translation.model import TranslationModel
from regard.tasks.translation.slices import features_of, worse_slices

LETTERS = "abcdefghij"


@pytest.fixture(scope="module")
def translator(run):
    return TranslationModel.load(run)


def outputs(is_wrong):
    """Return outputs of a model that copies, except for some sources."""
    sources = [" ".join(LETTERS[: 1 + number % 9]) for number in range(135)]
    return [
        ScoredOutput(source, "z" if is_wrong(source) else source, (source,)) for source in sources
    ]


def test_a_model_that_is_worse_on_long_sources_is_reported(translator):
    result = worse_slices(translator, outputs(lambda source: len(source.split()) > 6))
    slices = {each.name: each for each in result}
    assert slices["sources of 7 to 9 tokens"].num == 45
    assert slices["sources of 7 to 9 tokens"].others == 100


def test_a_perfect_model_and_few_outputs_have_no_slices(translator):
    assert worse_slices(translator, outputs(lambda source: False)) == ()
    assert worse_slices(translator, outputs(lambda source: len(source) > 6)[:59]) == ()


def test_features_are_those_of_each_source(translator):
    texts = [("a b", "b a b"), ("b zzz", "a b"), ("", "a"), ("a", "")]
    rows = [ScoredOutput(source, text, ("x",)) for source, text in texts]
    features = {each.description: each.values for each in features_of(translator, rows)}
    assert list(features["sources of {} tokens"]) == [2, 2, 0, 1]
    rarest = features["sources whose rarest token has number {} of the vocabulary"]
    tokenizer = translator.tokenizers.source
    assert list(rarest) == [max(tokenizer.encode("a b").ids), len(tokenizer), None, rarest[3]]
    crossing = features["outputs with {} % crossing links"]
    assert 0 <= crossing[0] <= 100
    assert all(each != each for each in crossing[2:])  # NaN: no links
    weights = translator.score([texts[0]])[0].trace.map().weights[0, 0]
    places = weights.argmax(axis=1)
    assert (crossing[0] == 0) == bool((places[1:] >= places[:-1]).all())
