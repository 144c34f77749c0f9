"""Hostile recipe files: each gets one line, in a fraction of a second."""

import re
import time

import pytest
import yaml

from regard import recipes
from regard.config import Experiment
from regard.errors import UserError
from regard.recipes import yaml_file
from tests.messages import check_message

BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{after}: &{after} [*{before}, *{before}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
FIELDS = ["data", "name", "training", "model", "about", "search"]
FIELDS += ["data.path", "data.task", "training.epochs", "model.keys", "model.attention"]
TAGS = ["!!int abc", "!!float abc", "!!bool abc", "!!timestamp abc", "!!python/object:os.system x"]
TAGS += ["!!binary x", "!!set {a}", "!own x", "!!str 1", "!!null x", "!!omap [a: 1]"]
VALUES = {
    "9" * 5000: "a number of 5,000 characters",
    "-" + "9" * 5000: "a number of 5,001 characters",
    "9" * 5000 + ".0": "a number of 5,002 characters",
    "0x" + "f" * 5000: "a number of 5,002 characters",
    "[" * 1000: "more than 8 deep",
    "{a: " * 1000: "more than 8 deep",
    "*loop": "aliases",
    '"a\\0b"': "NUL",
    "a\x00b": "U+0000",
    "a\x07b": "U+0007",
    "[a, b": "this is not YAML",
    "`x`": "this is not YAML",
    "{[a]: b}": "lists or maps as keys",
}


def nested(name, value):
    """Return a recipe with this value in this field."""
    *sections, field = name.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    return "\n".join([*lines, f"{'  ' * len(sections)}{field}: {value}", ""])


def refused(tmp_path, content):
    """Return the message that rejects a recipe."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    begin = time.process_time()
    with pytest.raises(UserError) as caught:
        recipes.load(path)
    assert time.process_time() - begin < 2
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    assert len(line) < 500 + len(str(path))
    return line


@pytest.fixture(params=["libyaml", "python"])
def loader(request, monkeypatch):
    loader = yaml.SafeLoader if request.param == "python" else yaml_file.LOADER
    monkeypatch.setattr(yaml_file, "LOADER", loader)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("tag", TAGS)
def test_tags_are_refused(tmp_path, field, tag):
    line = refused(tmp_path, nested(field, tag))
    assert ", column " in line
    assert "must not have tags" in line


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value[:12]))
def test_hostile_values_are_refused_with_their_place(tmp_path, field, value):
    line = refused(tmp_path, nested(field, value))
    assert re.search(rf", line [{field.count('.') + 1}-{field.count('.') + 2}], column ", line)
    assert VALUES[value] in line


@pytest.mark.parametrize("field", FIELDS)
def test_aliases_are_refused(tmp_path, field):
    assert "aliases (*a)" in refused(tmp_path, BOMB + nested(field, "*i"))
    assert "aliases (*x)" in refused(tmp_path, nested(field, "&x [*x]"))


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    "content",
    [
        "data:\n\tpath: x\n",
        "\tdata: {}\n",
        "data: {}\n---\nname: x\n",
        "data: {}\nname: x\ndata: {}\n",
        "name: x\n" + "- \n" * 20,
        "- " * 1000 + "x",
        "\n".join(f"{' ' * n}a:" for n in range(1000)),
        "? " * 1000 + "x",
        "%YAML 9.0\n---\nname: x\n",
        b"\xff\xfen\0a\0m\0e\0",
        b"name: \xed\xa0\x80",
        "3",
        "[]",
        "<<: {name: x}",
        "1: 2",
        "data: {sed: 0x_}",
        "training: {seed: 0x_}",
        "training: {clip: 1.0e+999}",
        "training: {clip: .nan}",
        "training: {epochs: [1, 2]}",
        "training: {epochs: {a: 1}}",
        "training: {epochs: 2020-01-01}",
        "training: {epochs: 1:30}",
        "model: {decoder: {key_layers: [[0]]}}",
    ],
)
def test_invalid_yaml_is_rejected(tmp_path, content):
    check_message(refused(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    [
        "x" * 3_000_000,
        "a: " + "[" + "x," * 400_000 + "]",
        "data: {" + "".join(f"f{n}: x, " for n in range(80_000)) + "}",
        "a: '" + "x" * 3_000_000 + "'",
        "# " + "x" * 3_000_000,
        "\n" * 2_000_000,
    ],
    ids=["text", "list", "map", "quoted", "comment", "blank"],
)
def test_large_recipes_are_rejected(tmp_path, content, monkeypatch):
    monkeypatch.setattr(yaml_file, "MAX_VALUES", 1000)  # the checks of types in tests take long
    assert "more than" in refused(tmp_path, content)


def test_a_path_may_be_longer_than_names_of_files(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"data: {{path: {'x' * 5000}}}\n")
    assert str(recipes.load(path).data.path) == "x" * 5000


def test_dates_are_text(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: 2020-01-01\ndata: {path: 2001-99-99T99:99:99}\n")
    experiment = recipes.load(path)
    assert experiment.name == "2020-01-01"
    assert str(experiment.data.path) == "2001-99-99T99:99:99"


@pytest.mark.parametrize("content", ["", "# only a comment\n", "~", "null", "{}", "data: {}"])
def test_an_empty_recipe_is_the_default_experiment(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    assert recipes.load(path) == Experiment(name="mine")


def test_a_recipe_may_have_a_long_vocabulary(tmp_path):
    path = tmp_path / "mine.yaml"
    words = "".join(f"  - word{number}\n" for number in range(2_000))
    path.write_text(f"data:\n  vocabulary:\n{words}")
    assert len(recipes.load(path).data.vocabulary) == 2_000
