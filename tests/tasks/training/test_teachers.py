"""Teachers of every task, and short trainings with distillation."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.config import (
    CaptionDataConfig,
    ClassificationDataConfig,
    Experiment,
    TrainingConfig,
)
from regard.errors import UserError
from regard.pipeline.train import train
from regard.runs.ensemble import save_ensemble
from regard.runs.folder import RunFolder
from regard.tasks.training.teachers import teachers_of
from tests import configs
from tests.messages import check_message, raises
from tests.small_runs import smaller


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    """Folder of an ensemble of two runs, which are hardly trained."""
    folder = tmp_path_factory.mktemp("teachers")
    for seed in (1, 2):
        train(tiny(epochs=1, seed=seed, updates=seed), folder / str(seed))
    save_ensemble(folder, ["1", "2"])
    return folder


def tiny(**training):
    experiment = smaller(**training)
    return replace(experiment, data=replace(experiment.data, synthetic_size=60, dev_size=4))


def distilled(experiment, *teachers, **training):
    """The experiment with teachers."""
    values = {"objective": "distillation", "teachers": teachers, **training}
    return replace(experiment, training=replace(experiment.training, **values))


def weights_of(run):
    return load_file(RunFolder(run).model)


def test_a_student_learns_from_an_ensemble_and_resumes_exactly(ensemble, tmp_path):
    student = distilled(
        tiny(epochs=2, log_every=1, divergence="jensen_shannon"), ensemble, teacher_weight=1.0
    )
    train(student, tmp_path / "whole")
    train(replace(student, training=replace(student.training, epochs=1)), tmp_path / "resumed")
    train(student, tmp_path / "resumed", resume=True)
    first, second = weights_of(tmp_path / "whole"), weights_of(tmp_path / "resumed")
    assert all(torch.equal(first[name], second[name]) for name in first)
    lines = map(json.loads, (tmp_path / "whole" / "log.jsonl").read_text().splitlines())
    divergences = [line["measures"]["divergence"] for line in lines if line["kind"] == "train"]
    assert 0 < divergences[-1] < divergences[0] < 0.7  # at most ln 2
    assert RunFolder(tmp_path / "whole").experiment().training.teachers == (ensemble,)


def test_a_resumed_run_needs_the_same_teachers(ensemble, tmp_path):
    """A teacher that was trained again has other weights under its name."""
    teacher = tmp_path / "teacher"
    shutil.copytree(ensemble / "1", teacher)
    student = distilled(tiny(updates=1), teacher)
    train(student, tmp_path / "student")
    longer = replace(student, training=replace(student.training, updates=2))
    shutil.rmtree(teacher)
    with pytest.raises(UserError, match=r"training.teachers: .*teacher is not a run"):
        train(longer, tmp_path / "student", resume=True)
    shutil.copytree(ensemble / "2", teacher)
    with pytest.raises(UserError) as error:
        train(longer, tmp_path / "student", resume=True)
    check_message(str(error.value))


def test_a_teacher_may_be_in_another_folder_when_a_run_is_resumed(ensemble, tmp_path):
    shutil.copytree(ensemble / "1", tmp_path / "teacher")
    student = distilled(tiny(updates=1), tmp_path / "teacher")
    train(student, tmp_path / "student")
    shutil.move(tmp_path / "teacher", tmp_path / "moved")
    longer = replace(student, training=replace(student.training, updates=2))
    moved = distilled(longer, tmp_path / "moved")
    assert train(moved, tmp_path / "student", resume=True).update == 2
    with pytest.raises(UserError, match=r"training.teachers: .*2 has other weights"):
        train(distilled(longer, ensemble / "2"), tmp_path / "student", resume=True)


def test_a_resumed_run_names_the_teacher_that_changed(ensemble, tmp_path):
    """A member of an ensemble that was trained again, and an ensemble with a member less."""
    teachers = tmp_path / "teachers"
    shutil.copytree(ensemble, teachers)
    student = distilled(tiny(updates=1), teachers)
    train(student, tmp_path / "student")
    longer = replace(student, training=replace(student.training, updates=2))
    save_ensemble(teachers, ["1"])
    with pytest.raises(UserError, match=rf"training.teachers: {teachers} has other members than"):
        train(longer, tmp_path / "student", resume=True)
    save_ensemble(teachers, ["1", "2"])
    shutil.copytree(teachers / "1", teachers / "2", dirs_exist_ok=True)
    model = (teachers / "2" / "model.safetensors").read_bytes()
    train(tiny(updates=2), tmp_path / "other")
    shutil.copytree(tmp_path / "other", teachers / "2", dirs_exist_ok=True)
    assert model != (teachers / "2" / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match=rf"training.teachers: {teachers / '2'} has other weights"):
        train(longer, tmp_path / "student", resume=True)


def test_teachers_that_do_not_fit_are_one_line(ensemble, tmp_path):
    base = tiny(epochs=1, updates=1)
    data = replace(base.data, tokenizer="characters")
    train(replace(base, data=data), tmp_path / "other")
    copying = configs.recurrent(size=8, attention=dict(size=5), copy="pointer_generator")
    train(replace(base, model=copying), tmp_path / "copying")
    short = configs.transformer(size=8, heads=2, positions="learned", max_positions=30)
    train(replace(base, model=short, data=replace(base.data, max_length=30)), tmp_path / "short")
    for teacher, message in (
        (tmp_path / "other", r"source vocabularies differ .*--data.tokenizers-path"),
        (tmp_path / "copying", "has model.copy pointer_generator"),
        (tmp_path / "short", "reads at most 30 tokens, but data.max_length is"),
        (tmp_path / "none", "training.teachers: .*none is not a run"),
    ):
        with pytest.raises(UserError, match=message) as error:
            train(distilled(base, teacher), tmp_path / "student")
        assert "\n" not in str(error.value)
        assert not (tmp_path / "student").exists()
    first = ensemble / "1"
    for teachers, message in (
        ((first, tmp_path / "other"), f"{first} and {tmp_path / 'other'} cannot teach one model"),
        ((tmp_path / "other", first), f"{tmp_path / 'other'} and {first} cannot teach one model"),
        ((first, ensemble / "2" / ".." / "1"), f"{first} is named 2 times: expected different"),
        ((ensemble, first), f"{first} is named 2 times: expected different runs"),
    ):
        with pytest.raises(UserError, match=f"^training.teachers: {message}"):
            train(distilled(base, *teachers), tmp_path / "student")


def test_classifiers_are_distilled(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("\n".join(f"so {word} it{n}\t{word}" for n in range(9) for word in "abc"))
    experiment = Experiment(
        data=ClassificationDataConfig(path=path, dev_size=4, test_size=4),
        model=configs.classifier(size=8, dropout=0.0),
        training=TrainingConfig(updates=2, log_every=1, device="cpu"),
    )
    train(experiment, tmp_path / "teacher")
    train(distilled(experiment, tmp_path / "teacher"), tmp_path / "student")
    assert '"divergence"' in (tmp_path / "student" / "log.jsonl").read_text()
    others = replace(experiment, data=replace(experiment.data, min_count=2))
    with pytest.raises(UserError, match=r"vocabularies differ .*same training data"):
        train(distilled(others, tmp_path / "teacher"), tmp_path / "other")
    path.write_text(path.read_text().replace("\tc", "\td"))
    with pytest.raises(UserError, match="their labels differ"):
        train(distilled(experiment, tmp_path / "teacher"), tmp_path / "other")


def test_captioners_are_distilled(tmp_path):
    data = CaptionDataConfig(
        synthetic="shapes", synthetic_size=20, dev_size=5, test_size=5, image_size=16
    )
    config = configs.captioner(size=8, channels=(3, 4), embedding=5, attention=dict(size=5))
    training = TrainingConfig(updates=1, log_every=1)
    experiment = Experiment(data=data, model=config, training=training)
    train(experiment, tmp_path / "teacher")
    train(distilled(experiment, tmp_path / "teacher"), tmp_path / "student")
    assert '"divergence"' in (tmp_path / "student" / "log.jsonl").read_text()
    larger = replace(experiment, data=replace(data, image_size=32))
    with raises(UserError):
        train(distilled(larger, tmp_path / "teacher"), tmp_path / "other")


def test_other_objectives_load_no_teachers():
    def load(path):
        raise AssertionError(path)

    config = TrainingConfig(objective="likelihood", teachers=(Path("missing"),))
    assert teachers_of(config, load) is None
