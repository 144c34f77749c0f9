"""The demo's own care: what it may remove."""

import json
import signal
from dataclasses import replace

import pytest

from regard import recipes
from regard.cli import main
from regard.cli.progress import TrainingView
from regard.pipeline.train import train
from tests.small_runs import small


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """The demo on a recipe that takes a second."""
    path = tmp_path / "quick.yaml"
    path.write_text(recipes.dump(small(epochs=1)), encoding="utf8")
    monkeypatch.setattr(recipes, "find", lambda name: path)
    return small(epochs=1)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_demo_replaces_a_demo_and_leaves_other_files(quick, capsys, tmp_path):
    folder = tmp_path / "demo"
    assert main.run(["demo", "--output", str(folder)]) == 0
    (folder / "notes.txt").write_text("mine\n")
    before = (folder / "log.jsonl").stat().st_mtime_ns
    assert main.run(["demo", "--output", str(folder)]) == 0
    assert (folder / "notes.txt").read_text() == "mine\n"
    assert (folder / "log.jsonl").stat().st_mtime_ns > before
    assert capsys.readouterr().err == ""


class Interrupting(TrainingView):
    """A person who presses Ctrl-C after the fifth update."""

    def on_update(self, progress):
        super().on_update(progress)
        if progress.update == 5:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_demo_prints_how_to_resume_and_resumes(quick, capsys, tmp_path, monkeypatch):
    folder = tmp_path / "my demo"
    with monkeypatch.context() as context:
        context.setattr("regard.cli.training.train.TrainingView", Interrupting)
        assert main.run(["demo", "--output", str(folder)]) == 130
    assert f"resume with: regard demo -o '{folder}'" in capsys.readouterr().out
    assert main.run(["demo", "--output", str(folder)]) == 0
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines if line["kind"] == "end"] == ["finished"]


@pytest.mark.parametrize("text", ["name: my website\n", "title: my website\n", "- a\n- b\n"])
def test_a_folder_of_another_run_is_not_removed(quick, capsys, tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    (tmp_path / "thesis.tex").write_text("years of work\n")
    before = contents(tmp_path)
    assert main.run(["demo", "--output", str(tmp_path)]) == 1
    assert contents(tmp_path) == before
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_with_other_settings_is_not_replaced(quick, capsys, tmp_path):
    folder = tmp_path / "run"
    train(replace(quick, training=replace(quick.training, learning_rate=0.02)), folder)
    before = contents(folder)
    assert main.run(["demo", "--output", str(folder)]) == 1
    assert "of another run" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["attention.png", "test.tsv"])
def test_files_outside_a_run_are_not_removed(quick, capsys, tmp_path, name):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("mine\n")
    assert main.run(["demo", "--output", str(folder)]) == 1
    assert (folder / name).read_text() == "mine\n"
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("found", [True, False])
def test_the_last_line_names_the_command_in_use(quick, capsys, tmp_path, monkeypatch, found):
    script = tmp_path / "bin" / "regard"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent if found else tmp_path))
    assert main.run(["demo", "--output", str(tmp_path / "demo")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"Next:  {'regard' if found else script} plot ")
