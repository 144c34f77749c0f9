"""A path is read, or refused with its name; it is never ignored."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from regard import recipes
from regard.cli.training.train import parse
from regard.config import CaptionDataConfig, ClassificationDataConfig, DataConfig
from regard.corpora import sources
from regard.data.files.objects import table_of
from regard.errors import UserError
from tests.messages import raises

GENERATED = [
    DataConfig(synthetic="copy"),
    ClassificationDataConfig(synthetic="drinks"),
    CaptionDataConfig(synthetic="shapes"),
]
READ_BESIDE = ("dev_path", "test_path", "tokenizers_path")
"""Paths that are read although the training data are generated."""


@pytest.mark.parametrize("data", GENERATED, ids=lambda data: data.task)
def test_every_path_is_read_or_rejected_with_generated_data(data):
    names = [field.name for field in fields(data) if str(field.type) == "Path | None"]
    assert "path" in names
    for name in names:
        if name in READ_BESIDE:
            continue
        with pytest.raises(UserError, match=rf"data.{name} is gone.tsv, "):
            sources.read_sources(replace(data, **{name: Path("gone.tsv")}))


@pytest.mark.parametrize("data", GENERATED[:2], ids=lambda data: data.task)
def test_dev_files_are_read_with_generated_data(data):
    with pytest.raises(UserError, match=r"cannot read gone.tsv"):
        sources.read_sources(replace(data, synthetic_size=20, dev_path=Path("gone.tsv")))


@pytest.mark.parametrize(
    "data",
    [
        DataConfig(target_path=Path("x")),
        DataConfig(path=Path("y"), dev_target_path=Path("x")),
        ClassificationDataConfig(synthetic="drinks", source_column="x"),
    ],
)
def test_targets_without_sources_are_rejected(data):
    with raises(UserError):
        sources.read_sources(data)


@pytest.mark.parametrize("name", recipes.names())
def test_a_file_replaces_a_recipes_generated_data(name, capsys):
    generated = recipes.load(recipes.find(name)).data.synthetic
    data = parse([name, "--data.path", "gone.tsv"]).experiment.data
    assert (data.path, data.synthetic) == (Path("gone.tsv"), None)
    assert ("replaces the recipe" in capsys.readouterr().out) == (generated is not None)
    with pytest.raises(UserError, match=r"gone.tsv"):
        sources.read_sources(data)


@pytest.mark.parametrize("name", recipes.names())
def test_generated_data_and_a_file_together_are_rejected(name):
    task = recipes.load(recipes.find(name)).data.task
    generated = {"translate": "copy", "classify": "series", "caption": "shapes"}[task]
    words = [name, "--data.path", "gone.tsv", "--data.synthetic", generated]
    with pytest.raises(UserError, match=r"data.path is gone.tsv, but data.synthetic"):
        sources.read_sources(parse(words).experiment.data)


def test_numbers_in_memory_may_have_a_unit():
    rows = (("milk", "3.20 €"), ("bread", "2 €"))
    table = table_of([{"text": text, "value": value} for text, value in rows])
    numbers = sources.read_sources(ClassificationDataConfig(target="number"), table).train.pairs
    assert [pair.target for pair in numbers] == ["3.20", "2"]
    labels = sources.read_sources(ClassificationDataConfig(), table).train.pairs
    assert [pair.target for pair in labels] == ["3.20 €", "2 €"]
