"""Diagnosis of trainings that learned nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from regard import recipes
from regard.config import TrainingConfig
from regard.metrics.captions import CAPTION_METRICS
from regard.metrics.classification import r2
from regard.metrics.text import TEXT_METRICS
from regard.pipeline.diagnosis import MAX_UNLEARNED, diagnose, diagnose_run
from regard.runs.folder import RunFolder
from regard.training.log import EndLine
from tests.messages import check_message

TARGETS = [str(number) for number in range(20)]
"""Dev targets, as many as a sure diagnosis needs."""

TRAINING = TrainingConfig(warmup=0)


def end(score, update=1000, reason="finished"):
    return EndLine(update=update, epoch=1, reason=reason, score=score, seconds=1.0)


def log(metric="chrF", train=(5.0, 2.0), dev=(5.0, 3.0)):
    return [
        *({"kind": "train", "loss": loss} for loss in train),
        *(
            {"kind": "dev", "metric": metric, "loss": loss, "update": update}
            for update, loss in enumerate(dev, start=1)
        ),
    ]


def continued(*validations, average=None):
    """The log of a training that validates its initial weights: dev scores and losses."""
    best = max(validations, key=lambda validation: (validation[0], -validation[1]))
    records = [
        {
            "kind": "dev",
            "metric": "exact match",
            "update": 100 * number,
            "score": score,
            "loss": loss,
            "best": (score, loss) == best,
        }
        for number, (score, loss) in enumerate(validations)
    ]
    if average is not None:
        records.append({"kind": "average", "score": average, "best": average > best[0]})
    return records


@pytest.mark.parametrize(
    ("line", "records"),
    [
        (end(0.0, update=4), log(dev=(5.0, 5.0))),
        (end(9.0), log(dev=(3.0, 5.0))),
        (end(9.0), log(train=(5.0, 4.9), dev=(5.0, 5.0))),
        (end(0.5), log("exact match", dev=(5.0, 3.0, 2.9))),
        (end(-0.1), log("R2", dev=(5.0,))),
        (end(4.0), log("CIDEr-D", dev=(5.0, 5.0))),
        (end(0.0), log("BLEU")),
        (end(0.0, update=9), log("BLEU")),
        (end(0.02), log("BLEU")),
        (end(0.02, update=9), log("BLEU")),
    ],
)
def test_a_low_score_has_a_likely_cause(line, records):

    check_message(diagnose(line, records, TARGETS, TRAINING) or "")


def test_the_metrics_are_named_as_in_the_log():
    texts = ["a b c d", "e f g h"]
    scores = [
        *(
            metric.compute(texts, [[text] for text in texts])
            for metric in (*TEXT_METRICS, *CAPTION_METRICS)
        ),
        r2(["1", "2"], ["1", "2"]),
    ]
    assert {*MAX_UNLEARNED} <= {score.name for score in scores}


def test_bleu_of_sentences_is_a_score_like_others():
    sentences = ["the cat sits on the mat"] * 20
    flat = log("BLEU", dev=(5.0, 5.0))
    training = TrainingConfig(warmup=400, updates=3)
    check_message(diagnose(end(0.0, update=3), flat, sentences, training))
    sentence = diagnose(end(0.0), log("BLEU"), sentences, TRAINING) or ""
    check_message(sentence)
    sentence = diagnose(end(0.5), flat, sentences, TRAINING) or ""
    check_message(sentence)


def test_an_end_within_the_warm_up_is_the_cause():
    flat = log(dev=(5.0, 5.0))
    sentence = diagnose(end(4.45, update=212), flat, TARGETS, TrainingConfig(warmup=400)) or ""
    check_message(sentence)
    training = TrainingConfig(warmup=400, updates=212)
    sentence = diagnose(end(4.45, update=212), flat, TARGETS, training) or ""
    assert sentence.endswith("of the warm-up; raise --training.updates")
    assert "check the columns" in (diagnose(end(4.45, update=212), flat, TARGETS, TRAINING) or "")


def test_an_end_by_patience_within_the_warm_up_names_the_patience():
    flat, training = log(dev=(5.0, 5.0)), TrainingConfig(warmup=400)
    sentence = diagnose(end(4.45, update=20, reason="patience"), flat, TARGETS, training) or ""
    check_message(sentence)
    training = TrainingConfig(warmup=400, updates=900)
    sentence = diagnose(end(4.45, update=20, reason="patience"), flat, TARGETS, training) or ""
    assert sentence.endswith("raise --training.patience and --training.updates")


def test_a_dev_loss_that_falls_to_the_end_asks_for_a_longer_training():
    records = log("exact match", dev=(2.115, 1.429, 1.084))
    check_message(diagnose(end(0.0, update=300), records, TARGETS, TRAINING))
    training = TrainingConfig(warmup=400, updates=300)
    check_message(diagnose(end(0.0, update=300), records, ["a"], training))
    slowly = log("exact match", dev=(4.197, 3.884, 3.308, 3.033, 2.830, 2.733))
    sentence = diagnose(end(0.0), slowly, TARGETS, TRAINING) or ""
    check_message(sentence)
    flat = log("exact match", dev=(4.2, 3.8, 3.01, 3.0, 2.99, 2.98))
    assert "check the columns" in (diagnose(end(0.0), flat, TARGETS, TRAINING) or "")
    targets = ["A"] * 14 + ["B"] * 6
    sentence = diagnose(end(70.0), log("accuracy"), targets, TRAINING) or ""
    check_message(sentence)


def test_initial_weights_that_stay_the_best_are_reported():
    higher = continued((69.0, 0.5), (68.0, 0.4), (67.5, 0.3))
    check_message(diagnose(end(69.0), higher, TARGETS, TRAINING))
    diverged = continued((69.0, 0.5), (0.0, 161357039806039.969))
    sentence = diagnose(end(69.0, update=2), diverged, TARGETS, TrainingConfig(warmup=200)) or ""
    check_message(sentence)
    assert "warm-up" not in sentence
    tiny = continued((3.9e-09, 5.0), (1.9e-09, 6.0))
    sentence = diagnose(end(3.9e-09), tiny, TARGETS, TRAINING) or ""
    check_message(sentence)
    low = continued((0.0, 5.0), (0.0, 6.0), (0.0, 7.0))
    sentence = diagnose(end(0.0, update=2), low, TARGETS, TRAINING) or ""
    check_message(sentence)


@pytest.mark.parametrize(
    ("line", "records"),
    [
        (end(70.0), continued((69.0, 0.5), (70.0, 0.5))),
        (end(69.0), continued((69.0, 0.5), (69.0, 0.4))),
        (end(71.0), continued((69.0, 0.5), (68.0, 0.4), average=71.0)),
        (end(69.0, reason="interrupted"), continued((69.0, 0.5), (68.0, 0.4))),
        (end(69.0, reason="interrupted", update=0), continued((69.0, 0.5))),
    ],
)
def test_initial_weights_that_are_not_the_model_are_not_reported(line, records):
    assert diagnose(line, records, TARGETS, TRAINING) is None


def test_the_best_error_rate_after_initial_weights_is_the_lowest():
    records = continued((30.0, 0.5), (40.0, 0.4), (35.0, 0.4))
    for number, record in enumerate(records):
        record |= {"metric": "TER", "best": number == 0}
    sentence = diagnose(end(30.0), records, TARGETS, TRAINING) or ""
    check_message(sentence)


def test_the_most_frequent_label_is_no_success():
    targets = ["A"] * 14 + ["B"] * 6
    diagnosis = diagnose(end(70.0), log("accuracy", dev=(5.0, 5.0)), targets, TRAINING) or ""
    reason = "dev accuracy 70.00, not above 70.00 for always answering 'A'"
    assert diagnosis.startswith(f"nothing was learned ({reason}): ")
    assert diagnose(end(71.0), log("accuracy"), targets, TRAINING) is None
    assert diagnose(end(100.0), log("accuracy"), ["A"] * 29, TRAINING) is None


def test_unbalanced_labels_are_advised_weights():
    targets, flat = ["A"] * 95 + ["B"] * 5, log("accuracy", dev=(5.0, 5.0))
    advice = "; labels are unbalanced: set --training.label-weights balanced"
    assert (diagnose(end(95.0), flat, targets, TRAINING) or "").endswith(advice)
    falling = log("accuracy", dev=(5.0, 3.0, 1.0))
    assert (diagnose(end(95.0), falling, targets, TRAINING) or "").endswith(advice)
    assert advice not in (diagnose(end(55.0), flat, ["A"] * 55 + ["B"] * 45, TRAINING) or "")
    weighted = replace(TRAINING, label_weights=("balanced",))
    assert diagnose(end(80.0), flat, targets, weighted) is None
    of_f1 = log("macro F1", dev=(5.0, 5.0))
    sentence = diagnose(end(48.71), of_f1, targets, weighted) or ""
    check_message(sentence)
    assert advice not in sentence
    assert diagnose(end(50.0), of_f1, targets, weighted) is None


FLAT = log(dev=(5.0, 5.0))


@pytest.mark.parametrize(
    ("line", "records"),
    [
        (end(0.0), FLAT),
        (end(0.0, update=30), FLAT),
        (end(25.0), log("accuracy", dev=(5.0, 5.0))),
    ],
)
def test_few_dev_examples_make_it_uncertain(line, records):
    diagnosis = diagnose(line, records, ["a", "b", "c", "d"], TRAINING) or ""
    check_message(diagnosis)


def test_the_dev_targets_are_beside_the_features(tmp_path):
    (tmp_path / "dev.tsv").write_text("warm\tsummer\ta\n" * 10 + "cold\tsummer\tb\n" * 10)
    lines = "".join(f"{json.dumps(line)}\n" for line in log("accuracy", dev=(5.0, 5.0)))
    (tmp_path / "log.jsonl").write_text(lines)
    recipe = recipes.load(recipes.find("labels"))
    recipe = replace(recipe, data=replace(recipe.data, feature_columns=("season",)))
    diagnosis = diagnose_run(end(50.0), RunFolder(tmp_path), recipe) or ""
    check_message(diagnosis)


def test_good_interrupted_and_unscored_trainings_have_no_diagnosis():
    assert diagnose(end(95.0), log(), TARGETS, TRAINING) is None
    assert diagnose(end(0.0, reason="interrupted"), log(), TARGETS, TRAINING) is None
    assert diagnose(end(0.0, reason="hours"), log(), TARGETS, TRAINING) is None
    assert diagnose(end(None), log(dev=()), TARGETS, TRAINING) is None
    assert diagnose(end(0.0), log("TER"), TARGETS, TRAINING) is None
