"""Diagnosis of trainings that learned nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from regard import recipes
from regard.config import TrainingConfig
from regard.pipeline.diagnosis import diagnose, diagnose_run
from regard.runs.folder import RunFolder
from regard.training.log import EndLine

TARGETS = [str(number) for number in range(20)]
"""Dev targets, as many as a sure diagnosis needs."""

TRAINING = TrainingConfig(warmup=0)


def end(score, update=1000, reason="finished"):
    return EndLine(update=update, epoch=1, reason=reason, score=score, seconds=1.0)


def log(metric="chrF", train=(5.0, 2.0), dev=(5.0, 3.0)):
    return [
        *({"kind": "train", "loss": loss} for loss in train),
        *({"kind": "dev", "metric": metric, "loss": loss} for loss in dev),
    ]


@pytest.mark.parametrize(
    ("line", "records", "cause"),
    [
        (end(0.0, update=4), log(), r"dev chrF 0.00.: only 4 updates; raise --training.epochs"),
        (end(9.0), log(dev=(3.0, 5.0)), r"memorises the training data; add data"),
        (end(9.0), log(train=(5.0, 4.9)), r"loss does not fall; lower --training.learning-rate"),
        (end(0.5), log("exact match"), r"dev exact match 0.50.: check the columns"),
        (end(-0.1), log("R2"), r"dev R2 -0.10.: check"),
        (end(0.0), log("BLEU"), r"BLEU was 0 at every validation"),
        (end(0.02), log("BLEU"), r"perhaps .* .dev BLEU 0.02.: BLEU counts .*metric chrf"),
        (end(0.02, update=9), log("BLEU"), r"perhaps .* .dev BLEU 0.02.: only 9 updates"),
    ],
)
def test_a_low_score_has_a_likely_cause(line, records, cause):
    import re

    assert re.search(cause, diagnose(line, records, TARGETS, TRAINING) or "")


def test_an_end_within_the_warm_up_is_the_cause():
    sentence = diagnose(end(4.45, update=212), log(), TARGETS, TrainingConfig(warmup=400)) or ""
    assert sentence.endswith(
        "only 212 updates, fewer than the 400 of the warm-up; raise --training.epochs, or lower "
        "--data.batch-tokens or --data.batch-sentences"
    )
    training = TrainingConfig(warmup=400, updates=212)
    sentence = diagnose(end(4.45, update=212), log(), TARGETS, training) or ""
    assert sentence.endswith("of the warm-up; raise --training.updates")
    assert "check the columns" in (diagnose(end(4.45, update=212), log(), TARGETS, TRAINING) or "")


def test_the_most_frequent_label_is_no_success():
    targets = ["A"] * 14 + ["B"] * 6
    diagnosis = diagnose(end(70.0), log("accuracy"), targets, TRAINING) or ""
    reason = "dev accuracy 70.00, not above 70.00 for always answering 'A'"
    assert diagnosis.startswith(f"nothing was learned ({reason}): ")
    assert diagnose(end(71.0), log("accuracy"), targets, TRAINING) is None
    assert diagnose(end(100.0), log("accuracy"), ["A"] * 29, TRAINING) is None


@pytest.mark.parametrize(
    ("line", "records", "sentence"),
    [
        (end(0.0), log(), "(dev chrF 0.00 on 4 examples): too few dev examples to be "),
        (end(0.0, update=30), log(), "(dev chrF 0.00 on 4 examples): only 30 updates; raise "),
        (
            end(25.0),
            log("accuracy"),
            "(dev accuracy 25.00 on 4 examples, not above 25.00 for always answering 'a'): too ",
        ),
    ],
)
def test_few_dev_examples_make_it_uncertain(line, records, sentence):
    diagnosis = diagnose(line, records, ["a", "b", "c", "d"], TRAINING) or ""
    assert diagnosis.startswith(f"perhaps nothing was learned {sentence}")


def test_the_dev_targets_are_beside_the_features(tmp_path):
    (tmp_path / "dev.tsv").write_text("warm\tsummer\ta\n" * 10 + "cold\tsummer\tb\n" * 10)
    lines = "".join(f"{json.dumps(line)}\n" for line in log("accuracy"))
    (tmp_path / "log.jsonl").write_text(lines)
    recipe = recipes.load(recipes.find("labels"))
    recipe = replace(recipe, data=replace(recipe.data, feature_columns=("season",)))
    diagnosis = diagnose_run(end(50.0), RunFolder(tmp_path), recipe) or ""
    assert "dev accuracy 50.00, not above 50.00 for always answering 'a'" in diagnosis


def test_good_interrupted_and_unscored_trainings_have_no_diagnosis():
    assert diagnose(end(95.0), log(), TARGETS, TRAINING) is None
    assert diagnose(end(0.0, reason="interrupted"), log(), TARGETS, TRAINING) is None
    assert diagnose(end(0.0, reason="hours"), log(), TARGETS, TRAINING) is None
    assert diagnose(end(None), log(dev=()), TARGETS, TRAINING) is None
    assert diagnose(end(0.0), log("TER"), TARGETS, TRAINING) is None
