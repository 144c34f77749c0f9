"""The recipe of drawn scenes, made small: does it look at what it speaks of?"""

from __future__ import annotations

from dataclasses import replace

import regard
from regard import recipes
from regard.data.text import read_pairs
from regard.pipeline.evaluation import evaluate_captions
from regard.pipeline.training import train


def test_attention_falls_on_the_shape_that_is_named(tmp_path):
    """At least three times as much as lies in its box where all places have alike. The scenes are
    few, so that captions are still mostly wrong; attention learns first."""
    recipe = recipes.load(recipes.find("shapes-caption"))
    recipe = replace(
        recipe,
        data=replace(recipe.data, generated_size=1500, picture_size=32, dev_size=0, test_size=500),
        model=replace(
            recipe.model,
            channels=(24, 48),
            size=96,
            embedding=48,
            dropout=0.0,
            attention=replace(recipe.model.attention, size=48),
        ),
        training=replace(recipe.training, epochs=6, learning_rate=0.004, warmup=50),
    )
    train(recipe, tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    pairs = read_pairs(tmp_path / "run" / "test.tsv").pairs
    found = evaluate_captions(captioner, pairs, captioner.experiment.search)
    scores = {score.name: score.value for score in found.scores}
    assert len(found.outputs) == 100
    assert scores["attention"] >= 3
