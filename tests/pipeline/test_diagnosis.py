"""Diagnosis of trainings that learned nothing."""

from __future__ import annotations

import pytest

from regard.pipeline.diagnosis import diagnose
from regard.training.log import EndLine


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
    ],
)
def test_a_low_score_has_a_likely_cause(line, records, cause):
    import re

    assert re.search(cause, diagnose(line, records) or "")


def test_the_most_frequent_label_is_no_success():
    targets = ["A"] * 7 + ["B"] * 3
    diagnosis = diagnose(end(70.0), log("accuracy"), targets) or ""
    reason = "dev accuracy 70.00, not above 70.00 for always answering 'A'"
    assert diagnosis.startswith(f"nothing was learned ({reason}): ")
    assert diagnose(end(71.0), log("accuracy"), targets) is None
    assert diagnose(end(100.0), log("accuracy"), ["A"] * 9) is None


def test_good_interrupted_and_unscored_trainings_have_no_diagnosis():
    assert diagnose(end(95.0), log()) is None
    assert diagnose(end(0.0, reason="interrupted"), log()) is None
    assert diagnose(end(0.0, reason="hours"), log()) is None
    assert diagnose(end(None), log(dev=())) is None
    assert diagnose(end(0.0), log("TER")) is None
