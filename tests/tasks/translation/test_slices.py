"""Slices of a translation model, with outputs of a fake model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from regard.tasks.evaluation import ScoredOutput
from regard.tasks.generation import GeneratedText
from regard.tasks.translation.model import TranslationModel
from regard.tasks.translation.slices import features_of, worse_slices
from regard.trace import AttentionMap

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


CROSSING = "outputs with {} % crossing links"


def values_by_description(translator, texts):
    """Return the features of outputs, each with its source."""
    rows = [ScoredOutput(source, text, ("x",)) for source, text in texts]
    return {each.description: each.values for each in features_of(translator, rows)}


def test_features_are_those_of_each_source(translator):
    texts = [("a b", "b a b"), ("b zzz", "a b"), ("", "a"), ("a", ""), ("a b", "a")]
    features = values_by_description(translator, texts)
    assert list(features["sources of {} tokens"]) == [2, 2, 0, 1, 2]
    rarest = features["sources whose rarest token has number {} of the vocabulary"]
    tokenizer = translator.tokenizers.source
    numbers = {text: max(tokenizer.encode(text).ids) for text in ("a b", "a")}
    expected = [numbers["a b"], len(tokenizer), None, numbers["a"], numbers["a b"]]
    assert list(rarest) == expected
    crossing = features[CROSSING]
    assert 0 <= crossing[0] <= 100
    assert np.isnan(crossing[2:]).all()  # no links, or a single one
    weights = translator.score([texts[0]])[0].trace.map().weights[0, 0]
    assert weights.shape == (4, 3)  # END is the last row and the last column
    places = weights[:3, :2].argmax(axis=1)
    assert (crossing[0] == 0) == bool((places[1:] >= places[:-1]).all())


@dataclass(frozen=True)
class Reversed(GeneratedText):
    """Output whose pieces attend to the source pieces in reverse order, with smaller weights than
    to the end of the source. END attends to the end of the source."""

    ends: tuple[bool, bool] = (True, True)

    @property
    def maps(self):
        """Attention of one layer and one head."""
        num, num_source = len(self.text.split()), len(self.source.split())
        source_end, target_end = self.ends
        weights = np.zeros((num + target_end, num_source + source_end))
        weights[range(num), [max(num_source - 1 - row, 0) for row in range(num)]] = 0.4
        if source_end:
            weights[:, -1] = 0.6
        return (AttentionMap("cross", weights[None, None].astype(np.float32)),)


@pytest.mark.parametrize("ends", [(True, True), (True, False), (False, True), (False, False)])
def test_end_tokens_have_no_links_that_cross(translator, monkeypatch, ends):
    data = replace(translator.data, source_end=ends[0], target_end=ends[1])
    monkeypatch.setattr(translator, "data", data)
    monkeypatch.setattr(
        translator, "score", lambda pairs: [Reversed(*pair, 0.0, ends=ends) for pair in pairs]
    )
    texts = [("a b c d", "d c b a"), ("a b", "b a"), ("a", "a"), ("a b", "a"), ("a", "a b")]
    one, two, *single, repeated = values_by_description(translator, texts)[CROSSING]
    assert (one, two, repeated) == (100, 100, 0)
    assert np.isnan(single).all()


def test_sources_without_pieces_have_no_links(translator, monkeypatch):
    monkeypatch.setattr(translator, "score", lambda pairs: [Reversed(*pair, 0) for pair in pairs])
    assert np.isnan(values_by_description(translator, [(" ", "a b")])[CROSSING]).all()


def test_slices_report_progress(translator):
    calls = []
    worse_slices(translator, outputs(len), on_progress=lambda *call: calls.append(call))
    outputs_done = [("scoring outputs", 0, 135), ("computing attention", 0, 135)]
    assert calls[:2] == outputs_done
    assert {label for label, _, _ in calls[2:]} == {"testing slices"}
