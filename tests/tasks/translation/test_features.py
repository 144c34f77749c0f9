"""A task that cannot be solved without the features of its sources."""

import random
from dataclasses import replace

import pytest

import regard
from regard.config import DataConfig, Experiment, SearchConfig, TrainingConfig
from regard.corpora.table_settings import table_settings
from regard.data.recognition.inspection import inspect
from regard.errors import UserError
from regard.pipeline.export import export
from regard.pipeline.train import train
from regard.tasks.all_tasks import TASKS
from regard.tasks.evaluation import EvaluationOptions
from regard.tasks.translation.model import TranslationModel
from tests import configs

ENDINGS = {"N;SG": "", "N;PL": "en", "D;SG": "im"}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Stems with the number of a form, in columns that are not in the usual order."""
    draw, path = random.Random(2), tmp_path_factory.mktemp("data") / "forms.csv"
    rows = []
    for _ in range(240):
        stem, tag = "".join(draw.choices("abcd", k=2)), draw.choice(list(ENDINGS))
        rows.append(f"{tag},{stem}{ENDINGS[tag]},{stem}\n")
    path.write_text("".join(["tags,form,stem\n", *rows]), encoding="utf8")
    return Experiment(
        data=DataConfig(
            path=path,
            source_column="stem",
            target_column="form",
            feature_columns=("tags",),
            tokenizer="characters",
            dev_size=10,
            test_size=10,
            batch_tokens=None,
            batch_sentences=16,
        ),
        model=configs.recurrent(size=24, bidirectional=True, attention=dict(size=11)),
        training=TrainingConfig(epochs=6, learning_rate=0.03, metric="exact_match"),
    )


@pytest.fixture(scope="module")
def folder(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "forms"
    train(experiment, folder)
    return folder


def test_the_form_depends_on_the_features(folder):
    model = TranslationModel.load(folder)
    sources = [f"{stem}\t{tag}" for stem in ("ab", "dc") for tag in ENDINGS]
    outputs = model.translate(sources, search=SearchConfig(beam=1))
    expected = [stem + ending for stem in ("ab", "dc") for ending in ENDINGS.values()]
    assert [output.text for output in outputs] == expected
    assert outputs[1].trace.source.pieces == ("a", "b", "N", "PL", "<eos>")
    assert outputs[1].trace.source.words == (0, 0, 1, 2, 3)


def test_held_out_pairs_have_their_features(folder):
    lines = (folder / "test.tsv").read_text(encoding="utf8").splitlines()
    stem, tag, form = lines[0].split("\t")
    assert form == stem + ENDINGS[tag]


def test_a_file_of_other_pairs_is_read_with_features(experiment, folder):
    task, model = TASKS["translate"], TranslationModel.load(folder)
    corpus = task.read(model, experiment.data.path, EvaluationOptions())
    held_out = task.read(model, folder / "test.tsv", EvaluationOptions(held_out=True))
    for pair in (*corpus.pairs[:5], *held_out.pairs):
        stem, tag = pair.source.split("\t")
        assert pair.target == stem + ENDINGS[tag]


def test_inspection_names_the_columns_of_features(experiment):
    settings = table_settings(experiment.data)
    line = inspect(experiment.data.path, settings, "translate").lines("letters")[1]
    assert "tags -> features (--data.feature-columns)" in line
    assert "not used" not in line


def test_what_a_model_with_features_rejects(experiment, folder, tmp_path):
    with pytest.raises(UserError, match=r"cannot: train without --data\.feature-columns"):
        export(folder, "onnx", tmp_path / "export")
    data = replace(
        experiment.data, feature_columns=None, tokenizers_path=folder, dev_size=0, test_size=0
    )
    with pytest.raises(UserError, match=r"reads features of sources: set"):
        train(replace(experiment, data=data), tmp_path / "run")
    data = replace(experiment.data, feature_columns=("case",))
    with pytest.raises(UserError, match=r"no column 'case' \(--data\.feature-columns\)"):
        train(replace(experiment, data=data), tmp_path / "run")
    with pytest.raises(UserError, match=r"column 2 is read as target and as features"):
        regard.train([("ab", "abim")], settings={"data.feature_columns": ["2"]})
    with pytest.raises(UserError, match=r"generated pairs: leave it out"):
        DataConfig(synthetic="copy", feature_columns=("2",))
