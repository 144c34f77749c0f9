"""Reasons why little or nothing can be learned, found before training."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from regard import recipes
from regard.config import DataConfig, Experiment, TrainingConfig, TranslationModelConfig
from regard.data.examples import Pair
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.tasks.training.checks import (
    Finding,
    caption_findings,
    check_findings,
    gleu_findings,
    label_findings,
    length_findings,
    pair_findings,
    reward_findings,
    series_findings,
)
from regard.tasks.training.initialisation import Initialisation
from tests import configs
from tests.messages import check_message, raises

NAMES = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
WORDS = [Pair(name, name[::-1], number) for number, name in enumerate(NAMES, start=1)]


def findings(kind, train, dev, *tokenizers_path):
    settings = TokenizerSettings(kind=kind)
    tokenizers = tuple(
        Tokenizer.train([getattr(pair, side) for pair in train], settings)
        for side in ("source", "target")
    )
    return pair_findings(tokenizers, train, dev, *tokenizers_path)


def test_unknown_held_out_words_stop_a_training():
    first, second = findings("words", WORDS[:70], WORDS[70:])
    assert (first.severity, second.severity) == ("stop", "stop")
    check_message(first.text)
    with raises(UserError, "--data.checks"):
        check_findings(DataConfig(), (first,))
    check_findings(DataConfig(checks="warn"), (first,))
    check_findings(DataConfig(), (Finding("warn", "little"),))


def test_known_letters_and_few_dev_pairs_are_no_findings():
    dev = [pair for pair in WORDS if (pair.line + pair.line // 10) % 10 < 3]
    assert findings("characters", [pair for pair in WORDS if pair not in dev], dev) == ()
    assert findings("words", WORDS[:90], WORDS[90:]) == ()


def test_letters_that_never_occur_again_stop_a_training():
    pairs = [Pair(chr(0xAC00 + number), f"s{number}", number) for number in range(100)]
    (finding,) = findings("characters", pairs[:60], pairs[60:])
    check_message(finding)


def test_some_unknown_words_are_a_warning():
    dev = WORDS[40:90]
    (source, target) = findings("words", WORDS[:60], dev)
    assert source.severity == target.severity == "warn"
    check_message(source.text)


def test_the_vocabulary_of_another_run_is_the_cause_of_unknown_words():
    _, target = findings("words", WORDS[:60], WORDS[40:90], Path("first"))
    check_message(target.text)


def test_equal_targets_stop_a_training():
    pairs = [Pair(f"a text {n}", "pos", n) for n in range(60)]
    (finding,) = findings("characters", pairs, ())
    assert finding.severity == "stop"
    check_message(finding.text)


def test_numbers_in_order_are_no_sources():
    pairs = [Pair(str(number), f"word {number % 7}", number) for number in range(60)]
    (finding,) = findings("characters", pairs, ())
    check_message(finding.text)


@pytest.mark.parametrize(
    "labels",
    [
        ["A"] * 30,
        [str(number) for number in range(40)],
        ["A"] * 30 + ["B"] * 3,
    ],
)
def test_labels(labels):
    (finding,) = label_findings([Pair("text", label, 1) for label in labels])
    assert finding.severity == "warn"
    check_message(finding.text)


def test_enough_labels_and_images_are_no_findings():
    assert label_findings([Pair("text", label, 1) for label in "AB" * 30]) == ()


def test_labels_that_hardly_differ_are_reported():
    labels = ["Not sure"] * 20 + ["not\u200b sure"] * 21 + ["no"] * 30 + ["Notsure"] * 22
    (finding,) = label_findings([Pair("text", label, 1) for label in labels])
    assert finding.severity == "warn"
    check_message(finding.text)
    (finding,) = label_findings([Pair("text", label, 1) for label in ["4", "4.0", "5"] * 30])
    assert ": '4' (30), '4.0' (30); write them alike" in finding.text
    assert caption_findings(380, is_pretrained=True) == ()
    assert caption_findings(2000, is_pretrained=False) == ()
    assert caption_findings(380, is_pretrained=False)[0].text.startswith("380 images: expect")


def test_short_trainings_are_a_warning_with_longer_ones():
    (finding,) = length_findings(4, 20, 5)
    check_message(finding)
    (finding,) = length_findings(1, 10, None)
    check_message(finding.text)
    (finding,) = length_findings(25, 1, None)
    check_message(finding.text)
    assert length_findings(10, 20, 5) == ()


def test_a_training_shorter_than_its_warm_up_is_short():
    assert length_findings(53, 4, 5, warmup=200) == ()
    (finding,) = length_findings(53, 4, 5, warmup=400)
    assert finding.text.startswith("4 epochs of 53 updates are a short training: ")
    assert "--training.epochs 23 learns more" in finding.text
    (finding,) = length_findings(53, 1, 5)
    assert finding.text.startswith("1 epoch of 53 updates")


def test_rewards_for_an_untrained_model_are_reported():
    config = TrainingConfig(objective="self_critical")
    model = TranslationModelConfig().resolve()
    (finding,) = reward_findings(config, model, None)
    assert finding.severity == "warn"
    assert "training.objective is self_critical" in finding.text
    assert "--init-from" in finding.text
    continued = replace(config, initial_run=Path("x"))
    assert reward_findings(continued, model, None) == ()
    copied = Initialisation(Path("x"), ("a", "b"), ("c",), ("d", "e", "f"), ())
    assert reward_findings(continued, model, copied) == ()
    assert reward_findings(replace(config, objective="likelihood"), model, None) == ()


def test_rewards_for_a_model_with_few_weights_of_its_initial_run_are_reported(tmp_path):
    theirs = TranslationModelConfig(size=24, dropout=0.3, tied="output").resolve()
    (tmp_path / "config.yaml").write_text(recipes.dump(Experiment(model=theirs)))
    config = TrainingConfig(objective="minimum_risk", initial_run=tmp_path)
    few = Initialisation(tmp_path, ("a",), ("b",), ("c", "d", "e"), ())
    (finding,) = reward_findings(config, TranslationModelConfig(size=32).resolve(), few)
    check_message(finding)
    (finding,) = reward_findings(config, theirs, few)
    assert finding.text.endswith(f" of {tmp_path}; --init-from a run of this model")
    (finding,) = reward_findings(config, configs.transformer(size=8, heads=2).resolve(), few)
    check_message(finding.text)
    assert re.search(r" and \d+ more$", finding.text)


def test_gleu_of_targets_of_one_word_is_reported():
    words = [Pair("a", word, 1) for word in ("don't", "stop", "two words")]
    config = TrainingConfig(objective="expected_reward")
    (finding,) = gleu_findings(config, words)
    assert finding.severity == "warn"
    check_message(finding.text)
    assert "--training.samples" in finding.text
    assert gleu_findings(replace(config, reward="gleu"), words) == (finding,)
    assert gleu_findings(config, [*words, words[-1]]) == ()
    assert gleu_findings(config, []) == ()
    assert gleu_findings(replace(config, objective="likelihood"), words) == ()


def test_commas_of_series_may_be_decimal_commas():
    (finding,) = series_findings([Pair("0,7 1,0", "3", 1), Pair("2,2 1,5", "4", 2)])
    assert finding.severity == "warn"
    assert "0,7 divides two features, 0 and 7" in finding.text
    assert "write 0.7" in finding.text


@pytest.mark.parametrize("source", ["0.7,1 1.0,0", "1 2 3", "1,2,3 4,5,6"])
def test_other_series_have_no_decimal_commas(source):
    assert series_findings([Pair(source, "3", 1)]) == ()
