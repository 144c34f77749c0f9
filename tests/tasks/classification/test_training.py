"""Small trainings on labels and numbers, and their attention."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace

import numpy as np
import pytest

import regard
from regard.cli import main
from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.errors import UserError
from regard.pipeline.train import train
from regard.tasks.classification.inputs import SourceError
from regard.tasks.classification.model import ClassificationModel
from tests import configs
from tests.messages import check_message, raises


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Questions of three labels, each decided by one word."""
    path = tmp_path_factory.mktemp("questions") / "train.tsv"
    words = ("who", "person"), ("where", "place"), ("many", "number")
    beside = ["so", "well", "now", "and", "but", "then"]
    lines = [
        f"{noise} {word} {noise[::-1]} it{n}{word} ?\t{label}"
        for n, noise in enumerate(beside * 4)
        for word, label in words
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def regard_command(*arguments):
    """Return status, output and errors of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main.run([str(each) for each in arguments])
    return status, out.getvalue(), err.getvalue()


def small(path, **model):
    if model.get("encoder", "recurrent") == "recurrent":
        model = {"bidirectional": True, **model}
    return Experiment(
        name="questions",
        data=ClassificationDataConfig(
            path=path, target="label", dev_size=8, test_size=8, min_count=2
        ),
        model=configs.classifier(size=16, dropout=0.0, **model),
        training=TrainingConfig(epochs=12, learning_rate=0.02, device="cpu"),
    )


@pytest.mark.parametrize(
    "model",
    [
        dict(),
        dict(query="last"),
        dict(head="last", cell="gru"),
        dict(head="mean", cell="elman", bidirectional=False),
        dict(encoder="transformer", heads=2, feed_forward=32),
        dict(encoder="transformer", heads=2, feed_forward=32, head="last"),
        dict(encoder="bag_of_words", head="mean"),
        dict(encoder="bag_of_words", query="last"),
    ],
)
def test_labels_are_learned(questions, tmp_path, model):
    train(small(questions, **model), tmp_path / "run")
    classifier = regard.load(tmp_path / "run")
    assert isinstance(classifier, ClassificationModel)
    check_message(repr(classifier))
    answers = classifier.classify(["so where os it1 ?", "", "well many llew"])
    assert [each.text for each in answers] == ["place", "", "number"]
    best, *others = answers[0].probabilities
    assert best == ("place", answers[0].probability)
    assert sum(share for _, share in [best, *others]) == pytest.approx(1)
    kinds = [each.kind for each in answers[0].trace.attention]
    assert ("cross" in kinds) == (model.get("head", "attention") == "attention")
    assert ("encoder" in kinds) == (model.get("encoder") == "transformer")
    assert answers[1].trace is None


def test_held_out_labels_that_no_training_example_has(questions, tmp_path):
    dev, run, lines = tmp_path / "dev.tsv", tmp_path / "run", list[str]()
    dev.write_text("now who won it ?\tperson\nwhy is it ?\treason\n")
    experiment = small(questions)
    data = replace(experiment.data, dev_path=dev, dev_size=None, test_size=0)
    brief = replace(experiment, data=data, training=replace(experiment.training, epochs=1))
    train(brief, run, begin=lambda plan: lines.extend(plan.left_out))
    reason = "because no training example has their label: reason"
    assert f"1 of 2 dev examples are not scored, {reason}" in lines
    status, out, _ = regard_command("evaluate", run, dev)
    assert status == 0
    assert f"1 of 2 examples count as wrong, {reason}" in out
    dev.write_text("why is it ?\treason\n")
    expected = r"line 1: the label 'reason' is not in the training data, nor .*: add examples, or"
    with pytest.raises(UserError, match=expected):
        train(brief, tmp_path / "other")


def test_predictions_attend_to_the_decisive_word(questions, tmp_path):
    train(small(questions), tmp_path / "run")
    answer = regard.load(tmp_path / "run").classify("and who dna it9 ?")
    assert repr(answer).startswith("Prediction('and who dna it9 ?' -> ")
    assert 'src="data:image/png;base64,' in answer._repr_html_()
    assert answer.trace.source.pieces == ("and", "who", "dna", "<unk>", "?")
    assert answer.trace.target.pieces == ("person",)
    weights = answer.attention
    assert weights.shape == (1, 1, 1, 5)
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_array_equal(answer.trace.map().weights, weights)


def test_predictions_do_not_depend_on_the_batch(questions, tmp_path):
    train(small(questions), tmp_path / "run")
    classifier = regard.load(tmp_path / "run")
    texts = ["who", "so where os it1 ? and then some more of it", "well many llew"]
    together = classifier.classify(texts)
    for text, answer in zip(texts, together, strict=True):
        alone = classifier.classify(text)
        assert alone.text == answer.text
        np.testing.assert_allclose(alone.attention, answer.attention, atol=1e-6)
        assert alone.probability == pytest.approx(answer.probability, rel=1e-5)


def test_a_resumed_run_is_bit_equal(questions, tmp_path):
    def weights(run):
        return (run / "model.safetensors").read_bytes()

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    experiment = small(questions)
    train(experiment, whole)
    train(replace(experiment, training=replace(experiment.training, epochs=5)), parts)
    train(experiment, parts, resume=True)
    assert weights(whole) == weights(parts)


def test_inconsistent_options_are_one_line(questions, tmp_path):
    with raises(UserError, "model.head.output"):
        train(small(questions, output="none"), tmp_path / "run")
    for changes, said in (
        (dict(metric="bleu"), "training.metric is bleu, which scores no labels"),
        (dict(teacher_forcing=0.5), "training.teacher_forcing is 0.5"),
    ):
        experiment = small(questions)
        experiment = replace(experiment, training=replace(experiment.training, **changes))
        with pytest.raises(UserError, match=said):
            train(experiment, tmp_path / "run")
    with raises(UserError, "data.task"):
        Experiment(data=ClassificationDataConfig())
    assert not (tmp_path / "run").exists()


def test_numbers_of_several_columns_are_learned_together(tmp_path):
    words = {"cold": (-1, 3), "warm": (2, 5), "hot": (4, 1)}
    rows = [f"so {word} it{n},{n},{a},{b}" for n in range(8) for word, (a, b) in words.items()]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["text,id,degrees,hours", *rows]))
    experiment = small(path)
    data = replace(experiment.data, target="number", target_column=("degrees", "hours"))
    lines = []
    training = replace(experiment.training, epochs=30)
    train(
        replace(experiment, data=data, training=training),
        tmp_path / "run",
        begin=lambda plan: lines.extend([*plan.left_out, plan.vocabularies]),
    )
    assert lines[0] == f"columns of {path} that are not read: id"
    assert lines[1].endswith("2 numbers to predict")
    for word, wanted in words.items():
        (answer,) = regard.load(tmp_path / "run").classify([f"so {word} it3"])
        np.testing.assert_allclose([float(each) for each in answer.text.split()], wanted, atol=0.5)
    assert (tmp_path / "run" / "test.tsv").read_text().splitlines()[0].count("\t") == 1


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    """A run that gives back the marked one of some numbers, and its data."""
    folder = tmp_path_factory.mktemp("series")
    rows = [f"{n % 5},1 0.5,0\t{n % 5}" for n in range(20)]
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    train(of_series(folder / "train.tsv"), folder / "run")
    return folder


def of_series(path):
    return Experiment(
        data=ClassificationDataConfig(
            path=path, source="series", target="number", dev_size=0, test_size=0
        ),
        model=configs.classifier(embedding=4, size=4),
        training=TrainingConfig(epochs=1, device="cpu"),
    )


@pytest.mark.parametrize(
    ("source", "row", "said"),
    [
        ("series", "1,x 2,0\t3", r"'1,x': expected finite numbers"),
        ("series", "1 2,0\t3", r"'1' has 1 numbers: expected 2"),
        ("items", "cola\t3", r"'cola' is not an item"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_with_its_file(series, tmp_path, source, row, said):
    path = tmp_path / "bad.tsv"
    good = "1,0 2,0\t3" if source == "series" else "cola 1.20\t3"
    experiment = of_series(path)
    if source == "items":
        experiment = replace(
            experiment,
            data=replace(experiment.data, source="items"),
            model=configs.classifier("bag_of_words", size=4),
        )
    for lines, number in (([row, good, good], 1), ([good, row, good], 2)):
        if number == 1 and "has 1 numbers" in said:
            continue  # then it is the others that have too many
        path.write_text("\n".join([*lines, *[good] * 9]) + "\n")
        with pytest.raises(UserError, match=rf"bad\.tsv, line {number}: .*{said}"):
            train(experiment, tmp_path / "run")
    if source == "series":
        status, _, err = regard_command("evaluate", series / "run", path)
        assert (status, f": {path}, line 2: " in err) == (1, True)


def test_unreadable_lines_are_named_and_the_others_predicted(series, tmp_path):
    lines, output = tmp_path / "lines", tmp_path / "answers"
    rows = ["1,0 2,1", "", "no series", "3,1 2,0", "1 2"]
    lines.write_text("\n".join(rows) + "\n")
    status, _, err = regard_command("classify", series / "run", lines, "-o", output)
    assert status == 1
    assert [bool(line) for line in output.read_text().splitlines()] == [1, 0, 0, 1, 0]
    first, second = err.splitlines()
    check_message(first)
    assert second.startswith(f"{lines}, line 5: ")
    with pytest.raises(SourceError) as error:
        regard.load(series / "run").classify(rows)
    assert error.value.place == 2
