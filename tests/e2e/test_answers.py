"""Recipes for labels and numbers, trained completely: their accuracy and their attention."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import regard
from regard import recipes
from regard.data.generated.drinks import DRINKS, baskets
from regard.pipeline.evaluate import evaluate
from regard.pipeline.train import train


def recipe(name, **training):
    experiment = recipes.load(recipes.find(name))
    return replace(experiment, training=replace(experiment.training, **training))


def test_attention_is_uniform_over_the_drinks(tmp_path):
    """The catalogue that explains attention: keys are names, values are prices."""
    train(recipe("drinks"), tmp_path / "run")
    classifier = regard.load(tmp_path / "run")
    unseen = baskets(200, seed=77)
    scores = evaluate(classifier, unseen).scores
    errors = {score.name: score.value for score in scores}
    assert errors["mean error"] < 0.01
    for pair, answer in zip(unseen, classifier.classify([p.source for p in unseen]), strict=True):
        names = [piece.rsplit(" ", 1)[0] for piece in answer.trace.source.pieces]
        drinks = np.array([name in DRINKS for name in names])
        np.testing.assert_allclose(answer.attention[0, 0, 0], drinks / drinks.sum(), atol=0.01)
        assert float(answer.text) == pytest.approx(float(pair.target), abs=0.05)


def test_sigmoid_weights_of_drinks_are_one(tmp_path):
    """A context that is a sum: the total price of the drinks."""
    experiment = recipe("drinks-total", epochs=12)
    train(replace(experiment, data=replace(experiment.data, synthetic_size=3000)), tmp_path / "run")
    classifier = regard.load(tmp_path / "run")
    unseen = baskets(100, seed=77, total=True)
    for pair, answer in zip(unseen, classifier.classify([p.source for p in unseen]), strict=True):
        names = [piece.rsplit(" ", 1)[0] for piece in answer.trace.source.pieces]
        drinks = np.array([name in DRINKS for name in names], dtype=float)
        np.testing.assert_allclose(answer.attention[0, 0, 0], drinks, atol=0.01)
        assert float(answer.text) == pytest.approx(float(pair.target), abs=0.1)
    answer = classifier.classify("cola 0.69; noodles 0.34; lemonade 0.32")
    assert float(answer.text) == pytest.approx(1.01, abs=0.01)


def test_attention_is_on_the_marked_value(tmp_path):
    experiment = recipe("series", epochs=8)
    train(replace(experiment, data=replace(experiment.data, synthetic_size=4000)), tmp_path / "run")
    answer = regard.load(tmp_path / "run").classify("0.10,0 -0.70,0 0.40,1 0.90,0 -0.20,0")
    assert float(answer.text) == pytest.approx(0.4, abs=0.05)
    results = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert results["score"] > 95
