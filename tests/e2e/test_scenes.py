"""The recipe of drawn scenes: does it say what is there, and look at what it speaks of?"""

from __future__ import annotations

import regard
from regard import recipes
from regard.data.text import read_pairs
from regard.pipeline.evaluation import evaluate_captions
from regard.pipeline.scene_scores import SceneScores
from regard.pipeline.training import train


def test_captions_are_true_and_attention_falls_on_the_shape_that_is_named(tmp_path):
    """At least 95 % of the captions of unseen scenes are true, for each number of shapes, and
    attention in the box of a described shape is at least three times the box's share of the
    picture.

    The training has the recipe's own settings, and takes several minutes on one core."""
    recipe = recipes.load(recipes.find("shapes-caption"))
    train(recipe, tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    pairs = read_pairs(tmp_path / "run" / "test.tsv").pairs
    found = evaluate_captions(captioner, pairs, captioner.experiment.search, scenes=SceneScores())
    scores = {score.name: score.value for score in found.scores}
    assert len(found.outputs) == 200
    for number in ("1 shape", "2 shapes", "3 shapes"):
        assert scores[f"true, {number}"] >= 95, scores
    assert scores["attention"] >= 3
