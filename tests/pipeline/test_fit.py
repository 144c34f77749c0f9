"""`regard.train`: the run of the command from Python, from files and from data in memory."""

import gc
import signal
from dataclasses import replace
from itertools import product
from pathlib import Path
from threading import Thread

import pandas
import pytest
from safetensors.numpy import load_file

import regard
from regard import recipes
from regard.config import ClassificationDataConfig
from regard.data.generated import generate
from regard.data.generated.example_files import example_file
from regard.errors import UserError
from regard.pipeline.fit import experiment_of
from regard.pipeline.train import train
from tests.small_runs import small

PAIRS = [(pair.source, pair.target) for pair in generate("copy", 130, 3)]


def own(**training):
    """The small experiment without data."""
    experiment = small(epochs=1, **training)
    data = replace(experiment.data, synthetic=None, synthetic_size=5000)
    return replace(experiment, data=data)


def weights(run):
    tensors = load_file(run / "model.safetensors")
    return {name: tensor.tobytes() for name, tensor in tensors.items()}


def test_pairs_in_memory_train_the_model_of_their_file(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    model = regard.train(PAIRS, own(), output=tmp_path / "memory")
    train(replace(own(), data=replace(own().data, path=file)), tmp_path / "file")
    assert weights(tmp_path / "memory") == weights(tmp_path / "file")
    for name in ("dev.tsv", "test.tsv", "source.tokenizer.json"):
        assert (tmp_path / "memory" / name).read_bytes() == (tmp_path / "file" / name).read_bytes()
    assert [out.text for out in model.translate(["a b", "c"], beam=2)] == [
        out.text for out in regard.load(tmp_path / "file").translate(["a b", "c"], beam=2)
    ]
    frame = pandas.DataFrame(PAIRS, columns=["source", "target"])
    regard.train(frame, own(), output=tmp_path / "frame")
    assert weights(tmp_path / "frame") == weights(tmp_path / "file")


def test_a_folder_that_is_not_named_is_removed_with_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = regard.train(PAIRS, own(), settings={"training.updates": 1})
    assert model.experiment.training.updates == 1
    (folder,) = tmp_path.iterdir()
    assert (folder / "config.yaml").exists()
    del model
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="held out"):
        regard.train(PAIRS[:9], own())
    assert list(tmp_path.iterdir()) == []


def test_dropped_rows_are_warned_of(tmp_path):
    rows = [*PAIRS, ("a", None), ("\ud800", "b")]
    with pytest.warns(UserWarning, match=r"left out 2 lines.*1 with a blank side.*1 not UTF-8"):
        regard.train(rows, own(updates=1), output=tmp_path / "run")


def test_trainings_of_two_threads_do_not_mix(tmp_path):
    folders = [tmp_path / name for name in ("alone", "first", "second")]
    alone, *both = [
        Thread(target=regard.train, args=(PAIRS, own()), kwargs={"output": folder})
        for folder in folders
    ]
    for threads in ([alone], both):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert weights(folders[0]) == weights(folders[1]) == weights(folders[2])


def test_findings_and_the_diagnosis_are_warned_of_at_the_call():
    pairs = [(f"w{number}", f"v{number}") for number in range(60)]
    settings = {"data.tokenizer": "words", "data.dev_size": 25, "data.checks": "warn"}
    with pytest.warns(UserWarning, match="nothing was learned") as warned:
        regard.train(pairs, own(updates=1, metric="chrf"), settings=settings)
    texts = [str(warning.message) for warning in warned]
    assert any("100 % of the held-out source words are unknown" in text for text in texts)
    assert ": only 1 update;" in texts[-1]


def test_a_list_of_labels_and_texts_is_classified():
    rows = [("ab"[n % 2], f"text {n}") for n in range(40)]
    for data in (rows, pandas.DataFrame(rows)):
        experiment, _ = experiment_of(data, None, {})
        assert experiment.data.task == "classify"
        assert (experiment.data.source_column, experiment.data.target_column) == ("2", ("1",))
    experiment, _ = experiment_of([(text, label) for label, text in rows], None, {})
    assert experiment.data.source_column is None


class Interrupting:
    """A reporter that presses Ctrl-C after two updates."""

    def on_update(self, progress):
        if progress.update == 2:
            signal.raise_signal(signal.SIGINT)

    def on_train(self, line, progress): ...
    def on_validation(self, line, validation): ...
    def on_average(self, line, validation): ...
    def on_end(self, line): ...


def test_an_interrupted_training_is_resumed(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="call train again with resume=True"):
        regard.train(PAIRS, own(), output=tmp_path / "run", reporter=Interrupting())
    regard.train(PAIRS, own(), output=tmp_path / "run", resume=True)
    regard.train(PAIRS, own(), output=tmp_path / "whole")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    with pytest.raises(UserError, match="the fingerprint of the training data was"):
        regard.train(PAIRS[:-20], own(), output=tmp_path / "run", resume=True)


def test_the_experiment_is_the_recipe_with_the_settings(tmp_path):
    experiment, table = experiment_of(PAIRS, "letters", {"training.epochs": 3})
    letters = recipes.load(recipes.find("letters"))
    assert experiment == replace(letters, training=replace(letters.training, epochs=3))
    assert table.rows == tuple(PAIRS)
    experiment, table = experiment_of(None, "numbers", {})
    assert experiment.data.synthetic == "numbers"
    assert table is None
    experiment, _ = experiment_of(tmp_path / "ab.tsv.gz", "numbers", {})
    assert (experiment.data.path, experiment.data.synthetic) == (tmp_path / "ab.tsv.gz", None)
    labels, _ = experiment_of([("a", 1)], "labels", {"data.source_column": "a"})
    assert isinstance(labels.data, ClassificationDataConfig)


def test_without_a_recipe_the_data_decides(tmp_path):
    words = [("".join(letters), "".join(letters[::-1])) for letters in product("abcde", repeat=3)]
    file = tmp_path / "words.csv"
    file.write_text("lemma,form\n" + "".join(f"{s},{t}\n" for s, t in words))
    frame = pandas.DataFrame(words, columns=["lemma", "form"])
    for data, name in ((words, "model"), (frame, "model"), (file, "words")):
        experiment, _ = experiment_of(data, None, {"training.epochs": 2})
        letters = recipes.load(recipes.find("letters"))
        assert experiment.model == letters.model
        assert (experiment.name, experiment.training.epochs) == (name, 2)
        columns = (experiment.data.source_column, experiment.data.target_column)
        assert columns == ((None, None) if data is words else ("lemma", "form"))
    rows = [{"id": n, "question": f"who is {n} {n}", "kind": "xy"[n % 2]} for n in range(60)]
    experiment, _ = experiment_of(rows, None, {})
    assert isinstance(experiment.data, ClassificationDataConfig)
    assert experiment.data.target_column == ("kind",)


def test_the_columns_of_a_file_are_recognised_for_a_recipe(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id;Form;Lemma\n" + "".join(f"{n};a{n};b{n}\n" for n in range(30)))
    experiment, _ = experiment_of(file, "letters", {"data.source_column": "Lemma"})
    assert experiment.data.source_column == "Lemma"
    assert experiment.data.target_column == "Form"


def test_the_columns_of_a_frame_are_recognised_as_those_of_its_file(tmp_path):
    rows = [(n, f"Paket {n}", f"was {n} tut", "xy"[n % 2]) for n in range(40)]
    frame = pandas.DataFrame(rows, columns=["Nr", "Paket", "Beschreibung", "Abteilung"])
    frame.to_csv(tmp_path / "pakete.csv", index=False)
    for recipe, columns in (
        ("labels", ("Beschreibung", ("Abteilung",))),
        ("letters", ("Paket", "Beschreibung")),
    ):
        for data in (frame, tmp_path / "pakete.csv"):
            section = experiment_of(data, recipe, {})[0].data
            assert (section.source_column, section.target_column) == columns
    section = experiment_of(frame, "labels", {"data.source_column": "Paket"})[0].data
    assert (section.source_column, section.target_column) == ("Paket", ("Abteilung",))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None,), UserError, "expected data, a recipe, or both"),
        (("numbers",), UserError, r"numbers is a recipe, not a file: .* train\(None"),
        ((PAIRS, "leters"), UserError, "did you mean letters"),
        ((3, "letters"), TypeError, "data is int: expected a pandas"),
        (("", "letters"), UserError, "data is an empty file name"),
        ((Path("gone.tsv"), "letters"), UserError, "gone"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        regard.train(*arguments)
    with pytest.raises(UserError, match="name it with output"):
        regard.train(PAIRS, "letters", resume=True)
    with pytest.raises(UserError, match="output is empty"):
        regard.train(PAIRS, "letters", output="")
    with pytest.raises(UserError, match="NUL"):
        regard.train(PAIRS, "letters", output="a\0")
    with pytest.raises(TypeError, match="settings"):
        regard.train(PAIRS, "letters", settings=[1])


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("recipe", [None, "letters"])
def test_columns_of_features_are_no_targets(tmp_path, is_file, recipe):
    file = example_file("inflection", 100, 1)
    path = tmp_path / "inflection.csv"
    path.write_text(file.text())
    data = path if is_file else pandas.read_csv(path)
    settings = {"data.feature_columns": ("case", "number")}
    experiment, _ = experiment_of(data, recipe, settings)
    assert experiment.data.task == "translate"
    columns = experiment.data.source_column, experiment.data.target_column
    assert columns == ("lemma", "form")
    assert experiment.data.feature_columns == ("case", "number")
