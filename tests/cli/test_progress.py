"""Progress without a terminal: a line after ten seconds, then one a minute."""

from pathlib import Path

import pytest
from PIL import Image

from regard.cli import progress
from regard.training.log import DevLine, TrainLine, Validation
from regard.training.schedule import Progress
from tests.cli.test_commands import regard
from tests.small_runs import RUNS

LINE = TrainLine(
    update=50, epoch=3, loss=2.3117, learning_rate=0.001, tokens_per_second=10123.4, seconds=1.0
)
DEV = DevLine(update=1, epoch=1, score=3.0, metric="BLEU", loss=1.0, best=True, seconds=1.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock whose time a test sets."""
    times = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: times[0])
    return times


def test_training_prints_a_line_a_minute_in_a_pipe(clock, capsys):
    with progress.TrainingView(lines=False) as view:
        for second in range(1, 201):
            clock[0] = 100.0 + second
            if second == 3:
                view.on_train(LINE, Progress(second, 1200))
            if second == 40:
                view.on_validation(DEV, Validation(3.0, "BLEU", 1.0))
            view.on_update(Progress(second, 1200, epoch=3))
    first, validation, *rest = capsys.readouterr().out.splitlines()
    assert first == ("epoch   3  update 10 of 1,200  loss 2.312, 10,123 tokens/s  20 min left")
    assert validation.startswith("epoch   1  update      1")
    shown = [line.split(" of ")[0] for line in rest]
    assert shown == ["epoch   3  update 100", "epoch   3  update 160"]


def test_preparation_prints_on_the_standard_error(clock, capsys):
    with progress.PreparationView() as view:
        for second in range(1, 81):
            clock[0] = 100.0 + second
            view("reading", 1000 * second, None if second < 50 else 80_000)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "reading: 10,000",
        "reading: 70,000 of 80,000, 10 s left",
    ]


def test_short_work_prints_nothing(clock, capsys):
    with progress.TrainingView(lines=False) as view:
        for second in range(1, 10):
            clock[0] = 100.0 + second
            view.on_train(LINE, Progress(second, 1200))
            view.on_update(Progress(second, 1200))
    assert capsys.readouterr().out == ""


def test_outputs_in_a_file_are_counted(clock, capsys, tmp_path):
    for output in (tmp_path / "out.txt", None):
        with progress.counting_outputs("translated", output) as on_finished:
            for _ in range(4):
                clock[0] += 9
                on_finished(1024)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "translated: 2,048\n")


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("translate plain lines.txt", 2),
        ("translate plain table.csv", 3),
        ("classify classifier lines.txt", 2),
        ("classify classifier table.csv", 3),
        ("score plain pairs.tsv", 2),
        ("caption captioner images", 2),
    ],
)
def test_commands_count_their_outputs(capsys, tmp_path, monkeypatch, line, number):
    monkeypatch.setattr(progress, "FIRST_LINE", 0)
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("a b\nc\n")
    Path("table.csv").write_text("source,n\na b,1\nc,2\nd,3\n")
    Path("pairs.tsv").write_text("a b\tb\nc\td\n")
    Path("images").mkdir()
    for image in range(2):
        Image.new("RGB", (9, 7)).save(f"images/{image}.png")
    command, run, *words = line.split()
    status, out, err = regard(capsys, command, RUNS / run, *words, "-o", "out.csv.txt")
    assert (status, out) == (0, "")
    assert f"d: {number}\n" in err
    assert f"d: {number}\n" not in regard(capsys, command, RUNS / run, *words)[2]
