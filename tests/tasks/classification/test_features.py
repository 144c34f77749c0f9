"""Labels that depend on a column beside the text."""

from __future__ import annotations

import random
from pathlib import Path

import pandas
import pytest

import regard
from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.errors import UserError
from regard.pipeline.train import train
from regard.tasks.all_tasks import TASKS
from regard.tasks.classification.inputs import TextInputs
from regard.tasks.classification.model import ClassificationModel
from regard.tasks.evaluation import EvaluationOptions
from tests import configs
from tests.messages import raises

LABELS = {
    ("hot", "summer"): "july",
    ("cold", "summer"): "june",
    ("hot", "winter"): "march",
    ("cold", "winter"): "january",
}


@pytest.fixture(scope="module")
def rows():
    draw = random.Random(3)
    rows = [(draw.choice(["hot", "cold"]), draw.choice(["summer", "winter"])) for _ in range(80)]
    return [
        (season, f"{draw.choice('abc')} {number} {word}", LABELS[word, season])
        for number, (word, season) in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def experiment(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "weather.csv"
    path.write_text("season,text,label\n" + "".join(f"{','.join(row)}\n" for row in rows))
    return Experiment(
        data=ClassificationDataConfig(
            path=path, feature_columns=("season",), min_count=2, dev_size=8, test_size=8
        ),
        model=configs.classifier(size=16, dropout=0.0, bidirectional=True),
        training=TrainingConfig(epochs=8, learning_rate=0.04, device="cpu"),
    )


@pytest.fixture(scope="module")
def folder(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "weather"
    train(experiment, folder)
    return folder


def test_the_label_depends_on_the_features(folder):
    model = ClassificationModel.load(folder)
    sources = [f"b 1 {word}\t{season}" for word, season in LABELS]
    predictions = model.classify(sources)
    assert [prediction.text for prediction in predictions] == list(LABELS.values())
    assert predictions[0].trace.source.pieces == ("b", "<unk>", "hot", "summer")
    assert predictions[0].trace.source.words == (0, 1, 2, 3)
    assert model.classify("b hot\tautumn").unknown > 0


def test_evaluation_reads_features_of_tables_and_of_held_out_texts(experiment, folder):
    task, model = TASKS["classify"], ClassificationModel.load(folder)
    corpus = task.read(model, experiment.data.path, EvaluationOptions())
    held_out = task.read(model, folder / "test.tsv", EvaluationOptions(held_out=True))
    assert (len(corpus.pairs), len(held_out.pairs)) == (80, 8)
    assert corpus.remarks == ()
    for pair in (*corpus.pairs[:5], *held_out.pairs):
        text, season = pair.source.split("\t")
        assert pair.target == LABELS[text.split()[-1], season]


def test_a_cut_text_has_its_features(folder):
    reader = ClassificationModel.load(folder).inputs.reader
    short = TextInputs(reader.tokenizer, "en", 2)
    (source,) = short.encode(["a b hot\tsummer"])
    assert source.is_cut
    assert short.sequence("a b hot\tsummer").pieces == ("a", "summer")
    assert source.ids == reader.tokenizer.encode("a\tsummer").ids
    assert TextInputs(reader.tokenizer, "en", 1).sequence("a hot\tsummer").pieces == ("summer",)


def test_data_in_memory_has_features(experiment, rows, tmp_path):
    frame = pandas.DataFrame(rows, columns=["season", "text", "label"])
    settings = {"training.epochs": 1, "data.path": None}
    model = regard.train(frame, experiment, settings=settings)
    assert model.inputs.reader.tokenizer.values == ("summer", "winter")
    with pytest.raises(UserError, match=r"no column 'month' \(data\.feature_columns\)"):
        regard.train(frame, experiment, settings={**settings, "data.feature_columns": ["month"]})


def test_what_features_of_labels_reject(experiment):
    with raises(UserError, "data.source"):
        ClassificationDataConfig(source="series", feature_columns=("2",))
    with pytest.raises(UserError, match=r"sources are generated: leave"):
        ClassificationDataConfig(synthetic="drinks", feature_columns=("2",))
    with raises(UserError, "data.feature_columns"):
        Experiment(
            data=experiment.data,
            model=configs.changed(experiment.model, vectors=Path("vectors.txt")),
        )
