"""A damaged or foreign file in a run folder gives one line or the right result, never anything
else."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from regard.config import (
    ClassificationDataConfig,
    Experiment,
)
from regard.corpora import splits
from regard.errors import UserError
from regard.pipeline.load import load
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from tests import configs
from tests.messages import raises
from tests.small_runs import smaller
from tests.tasks.captioning.test_training import DRAWN
from tests.tasks.captioning.test_training import small as small_captioner

TEXTS = ["a b c", "b", "c a"]
MODEL, STATE = "model.safetensors", "state/training.safetensors"
FILES = (
    "config.yaml",
    "source.tokenizer.json",
    "target.tokenizer.json",
    "log.jsonl",
    "dev.tsv",
    "test.tsv",
    "run.json",
    MODEL,
    STATE,
)


def tiny(**training):
    """An experiment that takes a moment."""
    experiment = smaller(**{"epochs": 1, **training})
    return replace(
        experiment,
        data=replace(experiment.data, synthetic_size=40, dev_size=4, test_size=2),
        search=replace(experiment.search, max_length=3),
    )


def foreign_experiment():
    """An experiment of the same sizes and vocabularies, with other weights and data."""
    experiment = tiny()
    return replace(experiment, data=replace(experiment.data, synthetic="reverse"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two finished runs whose files have the same names and shapes."""
    folder = tmp_path_factory.mktemp("damaged")
    train(tiny(epochs=1), folder / "own")
    train(foreign_experiment(), folder / "foreign")
    return folder


@pytest.fixture(scope="module")
def expected(runs):
    return texts(runs / "own")


@pytest.fixture
def copy(runs, tmp_path):
    return shutil.copytree(runs / "own", tmp_path / "copy")


def texts(folder):
    return [(each.text, each.score) for each in load(folder).translate(TEXTS)]


def without_digests(folder):
    """Remove the record of a run and the digests of its weights and state."""
    (folder / "run.json").unlink()
    for name in (MODEL, STATE):
        tensors = load_file(folder / name)
        metadata = {"format": "pt"}
        if name == STATE:
            with safe_open(folder / name, framework="pt") as file:
                about = json.loads(json.loads(file.metadata()["regard"])["training"])
            del about["run"], about["log"]
            metadata["training"] = json.dumps(about)
        save_file(tensors, folder / name, metadata=metadata)
    return folder


def to_nothing(path, foreign):
    path.write_bytes(b"")


def to_half(path, foreign):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def to_garbage(path, foreign):
    path.write_bytes(bytes(np.random.default_rng(1).integers(0, 256, 999, dtype=np.uint8)))


def to_zeros(path, foreign):
    path.write_bytes(bytes(path.stat().st_size))


def to_a_flipped_bit(path, foreign):
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 4
    path.write_bytes(content)


def to_a_deep_nest(path, foreign):
    path.write_text("[" * 100_000)


def to_null(path, foreign):
    path.write_text("null")


def to_a_folder(path, foreign):
    path.unlink()
    path.mkdir()


def to_nowhere(path, foreign):
    path.unlink()


def to_a_foreign_file(path, foreign):
    shutil.copy(foreign, path)


DAMAGES = (
    to_nothing,
    to_half,
    to_garbage,
    to_zeros,
    to_a_flipped_bit,
    to_a_deep_nest,
    to_null,
    to_a_folder,
    to_nowhere,
    to_a_foreign_file,
)


def outcome(work):
    """Return the result, or None if it was refused in one line."""
    try:
        return work()
    except UserError as error:
        text = str(error)
        assert text
        assert "\n" not in text
        assert len(text) < 900
        return None


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_gives_one_line_or_correct_outputs(runs, copy, expected, name, damage):
    damage(copy / name, runs / "foreign" / name)
    result = outcome(lambda: texts(copy))
    assert result in (None, expected)
    if name in ("log.jsonl", "dev.tsv", "test.tsv", STATE):
        assert result == expected


@pytest.mark.parametrize(
    "damage", [to_nothing, to_half, to_garbage, to_a_deep_nest, to_a_folder, to_a_foreign_file]
)
@pytest.mark.parametrize("name", ["config.yaml", "log.jsonl", "dev.tsv", "run.json", MODEL, STATE])
def test_a_damaged_run_is_resumed_bit_equal_or_rejected(runs, copy, name, damage):
    damage(copy / name, runs / "foreign" / name)
    outcome(lambda: train(tiny(epochs=1), copy, resume=True))
    model = copy / MODEL
    if name != MODEL and model.is_file():
        assert model.read_bytes() == (runs / "own" / MODEL).read_bytes()


@pytest.mark.parametrize("damage", [to_nothing, to_half, to_garbage, to_a_flipped_bit, to_null])
@pytest.mark.parametrize("name", ["config.yaml", "source.tokenizer.json", MODEL])
def test_a_damaged_file_without_a_record_gives_one_line(runs, copy, name, damage):
    damage(without_digests(copy) / name, runs / "foreign" / name)
    outcome(lambda: texts(copy))


@pytest.mark.parametrize("damage", [to_nothing, to_half, to_garbage, to_a_foreign_file])
def test_a_damaged_state_without_a_record_gives_one_line(runs, copy, damage):
    damage(without_digests(copy) / STATE, runs / "foreign" / STATE)
    assert outcome(lambda: train(tiny(epochs=1), copy, resume=True)) is None


@pytest.mark.parametrize("name", [MODEL, STATE, "log.jsonl"])
def test_a_foreign_file_is_refused(runs, copy, name):
    to_a_foreign_file(copy / name, runs / "foreign" / name)
    if name == MODEL:
        with pytest.raises(UserError, match=rf"{name} does not belong to this run .*run\.json"):
            texts(copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=rf"{name}|cannot resume"):
        train(tiny(epochs=2), copy, resume=True)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_without_the_record_weights_can_be_replaced(runs, copy):
    shutil.copy(runs / "foreign" / MODEL, copy / MODEL)
    (copy / "run.json").unlink()
    assert [text for text, _ in texts(copy)] != []


def test_a_removed_log_is_started_again(runs, copy):
    (copy / "log.jsonl").unlink()
    train(tiny(epochs=2), copy, resume=True)
    lines = [json.loads(line) for line in (copy / "log.jsonl").read_text().splitlines()]
    assert {line["epoch"] for line in lines} == {2}


def filled(value):
    def change(weight):
        changed = weight.clone()
        changed.flatten()[0] = value
        return changed

    return change


REPLACED = {
    "nan": filled(float("nan")),
    "infinite": filled(float("inf")),
    "int": lambda weight: weight.int(),
    "bool": lambda weight: weight.bool(),
    "complex": lambda weight: weight.to(torch.complex64),
    "zeros": torch.zeros_like,
    "huge": lambda weight: torch.full_like(weight, 1e38),
    "flat": lambda weight: weight.flatten(),
}


@pytest.mark.parametrize("keeps_metadata", [True, False])
@pytest.mark.parametrize("kind", REPLACED)
def test_changed_weights_are_refused(copy, kind, keeps_metadata):
    path = copy / MODEL
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() if keeps_metadata else None
    tensors = {name: REPLACED[kind](weight) for name, weight in load_file(path).items()}
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(UserError, match=r"is damaged: its" if keeps_metadata else "not belong"):
        texts(copy)


@pytest.mark.parametrize("kind", ["nan", "infinite", "int", "bool", "complex", "flat", "huge"])
def test_changed_weights_without_a_record_are_refused(copy, kind):
    path = without_digests(copy) / MODEL
    save_file({name: REPLACED[kind](weight) for name, weight in load_file(path).items()}, path)
    with pytest.raises(UserError, match=r"not finite|another model|no finite"):
        texts(copy)


@pytest.mark.parametrize("change", ["missing", "extra"])
def test_missing_and_extra_weights_are_named(copy, change):
    path = without_digests(copy) / MODEL
    tensors = load_file(path)
    if change == "missing":
        del tensors["encoder.embedding.weight"]
    else:
        tensors["encoder.more"] = torch.zeros(3)
    save_file(tensors, path)
    words = "embedding.weight is missing, expected" if change == "missing" else "more is unknown"
    with pytest.raises(UserError, match=words):
        texts(copy)


SIZES = [0, 24, 10**5, 2**40, 2**63, 2**70]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("field", ["size", "embedding"])
def test_sizes_in_a_damaged_configuration_are_refused(copy, field, size):
    config = without_digests(copy) / "config.yaml"
    old = {"size": 16, "embedding": 8}[field]
    config.write_text(config.read_text().replace(f" {field}: {old}\n", f" {field}: {size}\n"))
    assert outcome(lambda: texts(copy)) is None


def test_an_equal_configuration_is_accepted(copy, expected):
    config = copy / "config.yaml"
    values = yaml.safe_load(config.read_text())
    values["data"] = dict(sorted(values["data"].items()), path="a folder/" * 20 + "moved.tsv")
    config.write_text("# copied\n" + yaml.safe_dump(values, width=20, sort_keys=False))
    assert texts(copy) == expected


@pytest.mark.parametrize("name", ["run.json", MODEL])
def test_a_file_without_permission_is_named(copy, name, monkeypatch):
    unreadable, opened = copy / name, Path.open

    def refuse(path, *arguments, **options):
        if path == unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=rf"^cannot read .*{name}: permission denied$"):
        load(copy)


def test_a_run_folder_that_cannot_be_made_is_refused_before_the_data_are_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    monkeypatch.setattr(splits, "read", lambda *_: pytest.fail("the data were read"))
    with raises(UserError):
        train(tiny(), tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())


def test_changes_of_data_or_model_are_rejected_and_of_search_accepted(copy, expected):
    config = copy / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("beam: 1\n", "beam: 3\n"))
    assert load(copy).experiment.search.beam == 3
    config.write_text(text.replace("dropout: 0.1", "dropout: 0.3"))
    with raises(UserError):
        texts(copy)
    with pytest.raises(UserError, match=r"changed after training|dropout was"):
        train(tiny(epochs=1), copy, resume=True)
    config.write_text(text)
    assert texts(copy) == expected


def test_a_run_without_digests_is_loaded_and_resumed(runs, copy, expected, tmp_path):
    without_digests(copy)
    assert texts(copy) == expected
    train(tiny(epochs=2), copy, resume=True)
    train(tiny(epochs=2), tmp_path / "whole")
    ours, theirs = load_file(copy / MODEL), load_file(tmp_path / "whole" / MODEL)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_labels_and_captions_are_checked(tmp_path):
    pairs = tmp_path / "labels.tsv"
    pairs.write_text(
        "".join(f"so {'hot' if n % 2 else 'cold'} it{n}\t{n % 2}\n" for n in range(20))
    )
    data = ClassificationDataConfig(path=pairs, dev_size=2, test_size=0)
    training = replace(tiny().training, metric=None)
    config = configs.classifier(embedding=4, size=4)
    train(Experiment(data=data, model=config, training=training), tmp_path / "labels")
    train(small_captioner(DRAWN), tmp_path / "captions")
    for name, changed in (("labels", "targets.json"), ("captions", "target.tokenizer.json")):
        folder = RunFolder(tmp_path / name)
        assert load(folder.path).experiment.name
        path = folder.path / changed
        path.write_text(path.read_text() + " ")
        with pytest.raises(UserError, match=rf"{changed} does not belong"):
            load(folder.path)
        path.write_text(path.read_text()[:-1])
        page = json.loads(folder.record.read_text())
        folder.record.write_text(json.dumps({**page, "run": "0"}))
        with pytest.raises(UserError, match=r"model\.safetensors does not belong"):
            load(folder.path)
