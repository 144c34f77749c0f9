"""Labels and numbers from the command line."""

from __future__ import annotations

import io
import json
import sys

import pytest

from regard.cli.analysis import show
from regard.metrics.classification import Confusion
from regard.trace import Trace
from tests.cli.test_commands import regard
from tests.messages import check_message

WORDS = ("who", "person"), ("where", "place"), ("many", "number")
TEST = [("who dat ?", "person"), ("say where", "place"), ("so many", "number"), ("who", "place")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder whose files say by their names what they are for."""
    folder = tmp_path_factory.mktemp("data")
    beside = ["so", "well", "now", "and", "but", "then"]
    lines = [
        f"{label} {noise} {word} it{n}{word} ?"
        for n, noise in enumerate(beside * 4)
        for word, label in WORDS
    ]
    (folder / "train.txt").write_text("\n".join(lines))
    (folder / "test.csv").write_text(
        "label,text\n" + "".join(f"{label},{text}\n" for text, label in TEST)
    )
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    from regard.cli import main

    folder = tmp_path_factory.mktemp("runs") / "questions"
    options = ["--data.task", "classify", "--data.path", str(data), "--data.dev-size", "6"]
    options += ["--model.size", "16", "--model.dropout", "0"]
    options += ["--training.epochs", "12", "--training.learning-rate", "0.02"]
    recipe = folder.parent / "questions.yaml"
    recipe.write_text("about: Questions by what they ask for.\ndata: {task: classify}\n")
    assert main.run(["train", str(recipe), *options, "--output", str(folder)]) == 0
    return folder


def test_training_prints_the_data_and_the_next_command(run, data, capsys):
    again = run.parent / "again"
    recipe = run.parent / "questions.yaml"
    status, out, _ = regard(
        capsys, "train", recipe, "--data.path", data, "--output", again, "--training.epochs", 1
    )
    assert status == 0
    assert "69 pairs, 3 for the dev score; vocabulary" in out
    assert "3 labels" in out
    assert f"regard classify {again}" in out


def test_every_line_gets_its_label(run, capsys, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(b"who is it\n\nso where\n"))
    monkeypatch.setattr(sys, "stdin", stream)
    assert regard(capsys, "classify", run)[:2] == (0, "person\n\nplace\n")


def test_unread_text_is_reported(run, data, tmp_path, capsys):
    lines = tmp_path / "lines"
    lines.write_text("who is it\n" + "where " * 401 + "\n" + "where " * 400 + "\n")
    status, out, err = regard(capsys, "classify", run, lines)
    assert (status, out) == (0, "person\nplace\nplace\n")
    assert err.startswith("1 line of more than 400 tokens (line 2;")

    recipe, again = run.parent / "questions.yaml", tmp_path / "run"
    settings = ["--data.max-length", 2, "--training.epochs", 1, "--output", again]
    status, out, _ = regard(capsys, "train", recipe, "--data.path", data, *settings)
    assert (status, "their first 2 tokens (data.max_length)" in out) == (0, True)


TABLE = """n;text;remark
1;who is it;"a; b"

2;so where
3; ;c
4;now many ?;d;e
"""


def test_a_table_is_written_with_predictions(run, tmp_path, capsys):
    table, output = tmp_path / "table.csv", tmp_path / "out.csv"
    table.write_text(TABLE)
    status, out, err = regard(capsys, "classify", run, table, "-o", output)
    assert (status, out) == (1, "")
    rows = [line.rsplit(";", 2) for line in output.read_text().splitlines()]
    assert [row[:2] for row in rows] == [
        ["n;text;remark", "prediction"],
        ['1;who is it;"a; b"', "person"],
        [";;", ""],
        ["2;so where;", "place"],
        ["3;;c", ""],
        ["4;now many ?;d;e", ""],
    ]
    assert all(0.5 < float(row[2]) <= 1 for row in rows[1:] if row[1])
    check_message(err)
    assert f"{table}: 2 rows have no source" in err


def test_columns_of_a_table_may_be_named(run, tmp_path, capsys):
    table = tmp_path / "table.tsv"
    table.write_text("x\twho is it\ny\tso where\n")
    named = ("--source-column", 2, "--probabilities")
    status, out, _ = regard(capsys, "classify", run, table, *named)
    rows = [line.split("\t") for line in out.splitlines()]
    assert (status, [row[:3] for row in rows]) == (
        0,
        [["x", "who is it", "person"], ["y", "so where", "place"]],
    )
    assert [len(row) for row in rows] == [7, 7]
    table.write_text("a\tb\nx\tso where\n")
    status, out, _ = regard(capsys, "classify", run, table, "--source-column", "b")
    assert (status, out.splitlines()[0]) == (0, "a\tb\tprediction\tprobability")


def test_a_table_is_scored_by_the_named_columns(run, tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("words,kind\n" + "".join(f"{text},{label}\n" for text, label in TEST))
    named = ["--source-column", "words", "--target-column", "kind"]
    status, out, _ = regard(capsys, "evaluate", run, table, *named)
    assert (status, "4 examples" in out) == (0, True)


def test_probabilities_tint_and_traces_are_written(run, tmp_path, capsys):
    lines, traces = tmp_path / "lines", tmp_path / "traces"
    lines.write_text("who is it\n")
    status, out, _ = regard(
        capsys, "classify", run, lines, "--probabilities", "--tint", "--trace", traces
    )
    first, tinted = out.splitlines()
    label, *shares = first.split("\t")
    assert (status, label) == (0, "person")
    assert sum(float(share.split(" ")[-1]) for share in shares) == pytest.approx(1, abs=1e-3)
    assert shares[0].startswith("person 0.")
    assert tinted.startswith("who[")
    page = json.loads(traces.read_text())
    assert page["target"]["pieces"] == ["person"]


def test_evaluation_prints_accuracy_and_the_confusion_table(run, data, capsys):
    status, out, _ = regard(capsys, "evaluate", run)
    assert status == 0
    assert "accuracy" in out
    assert "75" in out
    assert "macro F1" in out
    for line, counts in (("person", "1"), ("place", "1"), ("number", "1")):
        assert any(each.split()[:1] == [line] and counts in each for each in out.splitlines())
    again = regard(capsys, "evaluate", run, data / "test.csv", "--first", 3, "--examples", 1)
    assert "100" in again[1]
    assert "Predicted: person" in again[1]
    results = json.loads((run / "results.json").read_text())
    assert {"test.tsv", str(data / "test.csv")} <= set(results)
    assert set(results["test.tsv"][0]) == {
        "num_pairs",
        "scores",
        "outputs",
        "slices",
        "environment",
    }


def test_scores_on_the_training_file_are_marked(run, data, capsys):
    _, _, err = regard(capsys, "evaluate", run, data / "test.csv")
    assert "was trained on" not in err
    recipe, again = run.parent / "questions.yaml", run.parent / "on_file"
    path = data / "train.txt"
    regard(capsys, "train", recipe, "--data.path", path, "-o", again, "--training.epochs", 1)
    _, _, err = regard(capsys, "evaluate", again, path, "--first", 3)
    assert f"{again} was trained on pairs of {path}, so these scores say little about other" in err
    assert err.endswith(f"; held-out scores: regard evaluate {again}\n")
    copy = path.with_name("copy.txt")
    copy.write_bytes(path.read_bytes())
    _, _, err = regard(capsys, "evaluate", again, copy, "--first", 3)
    assert f"{again} was trained on pairs of {copy}" in err
    held_out = "".join((again / name).read_text() for name in ("dev.tsv", "test.tsv"))
    rows = [row for row in path.read_text().splitlines() if row.split(" ", 1)[1] not in held_out]
    copy.write_text("".join(f"{row}\n" for row in rows[:9]))
    _, _, err = regard(capsys, "evaluate", again, copy)
    check_message(err)
    for name in ("dev.tsv", "test.tsv"):
        assert "was trained on" not in regard(capsys, "evaluate", again, again / name)[2]


def test_the_columns_that_are_scored_are_printed(run, data, capsys, tmp_path):
    line = "columns: text -> source (--source-column), label -> target (--target-column)\n"
    assert line in regard(capsys, "evaluate", run, data / "test.csv", "--first", 3)[1]
    plain = tmp_path / "plain.csv"
    plain.write_text("".join(f"{text},{label}\n" for text, label in TEST))
    assert "-> source" not in regard(capsys, "evaluate", run, plain, "--first", 3)[1]
    assert "-> source" not in regard(capsys, "evaluate", run)[1]


def test_many_labels_have_a_row_each(capsys):
    names = [f"label {number}" for number in range(12)]
    matrix = Confusion.of(
        [*names[:9], "label 0", "label 0"], [*names[:9], "label 1", "label 1"], names
    )
    show.confusion(matrix)
    out = capsys.readouterr().out
    assert "label 1 3 100.0 33.3 50.0 label 0 (2)" in " ".join(out.split())
    assert "label 9" not in out


def test_plot_draws_a_shaded_sentence(run, tmp_path, capsys):
    path = tmp_path / "sentence.svg"
    status, out, _ = regard(capsys, "plot", run, "who is it", "-o", path)
    assert (status, out) == (0, f"person\n{path}\n")
    assert "who" in path.read_text()
    assert "who[" in regard(capsys, "plot", run, "who is it")[1]


@pytest.fixture(scope="module")
def readers(data, tmp_path_factory):
    """Runs whose head is the mean of the states: one of a recurrent encoder, without attention, and
    one of a Transformer, which has self-attention."""
    from regard.cli import main

    folder = tmp_path_factory.mktemp("readers")
    recipe = folder / "questions.yaml"
    recipe.write_text("about: Questions by what they ask for.\ndata: {task: classify}\n")
    for encoder in ("recurrent", "transformer"):
        options = ["--data.path", str(data), "--data.dev-size", "6", "--training.epochs", "1"]
        options += ["--model.size", "12", "--model.head.kind", "mean"]
        options += ["--model.encoder.kind", encoder, "--model.encoder.layers", "2"]
        options += ["--model.encoder.heads", "3"] if encoder == "transformer" else []
        assert main.run(["train", str(recipe), *options, "--output", str(folder / encoder)]) == 0
    return folder


@pytest.mark.parametrize("encoder", ["recurrent", "transformer"])
def test_tint_needs_attention(readers, encoder, tmp_path, capsys):
    lines, output, traces = tmp_path / "lines", tmp_path / "answers", tmp_path / "traces"
    lines.write_text("who is it\n")
    run = readers / encoder
    status, out, err = regard(capsys, "classify", run, lines, "--tint", "-o", output)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"--tint shows attention weights, but {run} has no attention" in err
    assert not output.exists()
    assert regard(capsys, "classify", run, lines, "--trace", traces)[0] == 0
    assert len(json.loads(traces.read_text())["attention"]) == (encoder == "transformer")


def test_layers_and_heads_of_a_classifiers_encoder_are_drawn(readers, tmp_path, capsys):
    run = readers / "transformer"
    status, out, _ = regard(
        capsys, "plot", run, "who is it", "--kind", "encoder", "--layer", 2, "--head", 3
    )
    assert (status, out.splitlines()[1]) == (0, "encoder, layer 2, head 3")
    assert "head" not in regard(capsys, "plot", run, "who", "--kind", "encoder", "--mean")[1]
    status, out, err = regard(capsys, "plot", run, "who is it")
    assert (status, out.splitlines()[1]) == (0, "encoder")
    status, out, err = regard(capsys, "plot", run, "who is it", "--kind", "cross")
    assert (status, out) == (1, "")
    check_message(err)
    status, out, err = regard(capsys, "plot", readers / "recurrent", "who is it")
    title = "share of each input in the gradient of each output"
    assert (status, out.splitlines()[1]) == (0, title)
    check_message(err)
    titled = ("--source-name", "English", "--target-name", "class", "-o", tmp_path / "titled.png")
    assert regard(capsys, "plot", readers / "recurrent", "who is it", *titled)[0] == 0
    status, out, err = regard(capsys, "plot", readers / "recurrent", "who", "--kind", "encoder")
    assert (status, out) == (1, "")
    check_message(err)
    status, out, err = regard(capsys, "plot", run, "who is it", "--kind", "gradient")
    assert (status, err) == (0, "")
    assert "share of gradient in per cent of the largest (0." in out
    numbers = tmp_path / "numbers.json"
    assert regard(capsys, "plot", run, "who is it", "--kind", "gradient", "-o", numbers)[0] == 0
    trace = Trace.load(numbers)
    assert [each.kind for each in trace.attention] == ["gradient"]
    assert trace.steps
    maps = tmp_path / "maps.png"
    flags = ("--feature-maps", "-o", maps)
    status, out, err = regard(capsys, "plot", run, "who is it", *flags)
    assert (status, out.splitlines()[1:], err) == (0, [str(maps)], "")
    whole = maps.read_bytes()
    assert whole.startswith(b"\x89PNG")
    assert regard(capsys, "plot", run, "who is it", *flags, "--layer", 2)[0] == 0
    assert maps.read_bytes() != whole
    assert regard(capsys, "plot", run, "who is it", "-o", numbers)[0] == 0
    assert [each["kind"] for each in json.loads(numbers.read_text())["attention"]] == ["encoder"]
