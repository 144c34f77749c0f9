"""Recipes: every file parses and round trips, and a message names each mistake."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import recipes
from regard.config import (
    DataConfig,
    DecoderAttentionConfig,
    Experiment,
    RecurrentDecoderConfig,
    TrainingConfig,
    TransformerEncoderConfig,
    TranslationModelConfig,
)
from regard.errors import UserError
from tests.messages import check_message
from tests.recipes.models import build


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_builds_and_has_a_description(name):
    experiment = recipes.load(recipes.find(name))
    assert experiment.name == name
    assert len(experiment.about) > 20
    assert sum(weight.numel() for weight in build(experiment).parameters()) > 0


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Experiment,
        name=st.sampled_from(["a", "böse name", "x-1", "--x", "no", "007"]),
        about=st.sampled_from(["", "two\nlines: with a colon"]),
        data=st.builds(
            DataConfig,
            limit=st.none() | st.integers(1, 99),
            lowercase=st.booleans(),
            vocabulary=st.none()
            | st.just(("猫", "坐"))
            | st.just(("--", "-x", "yes", "1.10", "~")),
            path=st.none() | st.just(Path("-gone.tsv")),
        ),
        model=st.builds(
            TranslationModelConfig,
            size=st.sampled_from([8, 256]),
            encoder=st.builds(
                TransformerEncoderConfig,
                size=st.none() | st.just(16),
                layers=st.integers(1, 9),
                positions=st.sampled_from(["sinusoidal", "rotary"]),
            ),
            decoder=st.builds(
                RecurrentDecoderConfig,
                wiring=st.sampled_from(["luong", "plain"]),
                dropout=st.none() | st.just(0.0),
                attention=st.builds(DecoderAttentionConfig, temperature=st.floats(0.1, 3)),
            ),
        ),
        training=st.builds(
            TrainingConfig,
            clip=st.none() | st.floats(0.1, 9),
            adam_betas=st.just((0.5, 0.98)),
            updates=st.none() | st.integers(1, 9),
        ),
    )
)
def test_dumping_and_loading_preserves_an_experiment(tmp_path_factory, experiment):
    path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
    path.write_text(recipes.dump(experiment), encoding="utf8")
    assert recipes.load(path) == experiment


@pytest.mark.parametrize("name", recipes.names())
def test_descriptions_are_dumped_as_in_the_file(name):
    path = recipes.find(name)
    experiment = recipes.load(path)
    text = recipes.dump(experiment)
    assert "\nabout: >\n  " in text
    printed = text.partition("\nabout: >\n")[2].partition("\ndata:\n")[0]
    written = path.read_text(encoding="utf8").partition("about: >\n")[2].partition("\ndata:\n")[0]
    assert printed.split() == written.split()
    assert all(line.startswith("  ") and len(line) <= 120 for line in printed.splitlines())


@settings(max_examples=300, deadline=None)
@given(st.text("a:#'-> \n\tü\u2028", max_size=12) | st.text("ab \n", min_size=100))
def test_any_description_is_dumped_and_loaded(about):
    about = f"{about}\n"
    values = yaml.safe_load(recipes.dump(Experiment(about=about)))
    assert values["about"] == about


@pytest.mark.parametrize(
    "recipe",
    [
        "data: {lowercase: maybe}",
        "data: {tokeniser: words}",
        "training: {epochs: many}",
        "model: {encoder: {cell: grru}}",
        "format: 4",
        "format: two",
        "format: 2",
        "model: {encoder: transformer}",
        "model: {encoder: {kind: backbone}}",
        "model: {encoder: {kind: convolutional}}",
        "model: {head: {kind: mean}}",
        "model: {encoder: {heads: 2}}",
        "model: {encoder: {kind: bag_of_words, layers: 2}}",
        "format: 3\nmodel: {hidden: 8}",
        "model:\n  encoder:\n    kind: bag",
        "name: x\ndata: {task: x}",
        "data: 3",
        "- a list",
        "data: {path: [",
        "data: {vocabulary: [yes, no, a]}",
        "data: {vocabulary: [1.10]}",
        "data: {source_language: no}",
        "name: [a]",
        "name:",
        "data: {path: 2020.01}",
        "model: {decoder: {wiring: off}}",
        "model: {encoder: {kind: transfomer}}",
        "model: {decoder: {kind: transformer, cell: gru}}",
        "model: {decoder: {kind: transformer, head: 4}}",
        "model: {decoder: {kind: transformer, norm: both}}",
        "model: {size: 8, decoder: {kind: transformer, size: 8, heads: 7}}",
        "model: {decoder: {layers: 2, heads: 4}}",
        "training: {adam_betas: [0.9]}",
        "training: {epochs: yes}",
    ],
)
def test_mistakes_are_named_with_their_file(tmp_path, recipe):
    path = tmp_path / "mine.yaml"
    path.write_text(recipe, encoding="utf8")
    with pytest.raises(UserError) as caught:
        recipes.load(path)
    assert str(caught.value).startswith(str(path))
    check_message(str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_recipe_in_another_encoding_is_rejected(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"about: caf\xe9")
    with pytest.raises(UserError, match=r"mine.yaml is not UTF-8: save it as UTF-8"):
        recipes.load(path)


def test_relative_paths_start_at_the_recipes_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("data: {path: pairs.tsv, dev_path: gone.tsv}")
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    monkeypatch.chdir("/")
    data = recipes.load(tmp_path / "mine.yaml").data
    assert data.path == tmp_path / "pairs.tsv"
    assert str(data.dev_path) == "gone.tsv"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean tatoeba-luong"):
        recipes.find("tatoeba-lung")


@pytest.mark.parametrize(
    ("task", "hint"),
    [("classify", "labels"), ("translate", "letters or words"), ("caption", "captions")],
)
def test_the_name_of_a_task_suggests_its_recipes(task, hint):
    with pytest.raises(UserError, match=rf"neither .*: did you mean {hint}\?"):
        recipes.find(task)


def test_every_recipe_is_in_one_group():
    names = [name for members in recipes.GROUPS.values() for name in members]
    assert sorted(names) == recipes.names()
    assert all(0 < len(recipes.title(recipes.find(name))) <= 74 for name in names)
