"""Ctrl-C at any time after the first import: one line and 130."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REGARD = """
import sys
from regard import __main__
from regard.runtime import signals

handle = signals.handle
def handle_and_say(program, **options):
    handle(program, **options)
    print("begun", flush=True)

signals.handle = handle_and_say
sys.argv[0] = "regard"
__main__.main()
"""
COUNTING = """
import runpy, sys
from regard.runtime import signals
signals.handle("main.py")
print("begun", flush=True)
sys.argv[0] = "main.py"
try:
    runpy.run_path({path!r}, run_name="__main__")
except KeyboardInterrupt:  # in runpy itself
    signals.leave("main.py")
"""


def interrupted(program, arguments, delay, number=signal.SIGINT):
    """Return status and errors of a process with a signal `delay` seconds after its first line."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
        return process.returncode, errors


@pytest.mark.parametrize("delay", [0.0, 0.2, 1.0])
def test_regard_ends_with_130(tmp_path, delay):
    arguments = ["train", "copy", "--output", str(tmp_path / "run"), "--training.epochs", "1000"]
    status, errors = interrupted(REGARD, arguments, delay)
    assert status == 130
    assert errors in ("regard: interrupted\n", "regard train: interrupted\n")
    assert not list(tmp_path.rglob("*.unfinished"))


@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_sigterm_before_training_ends_with_143_and_a_line(tmp_path, delay):
    arguments = [
        "train",
        "copy",
        "--output",
        str(tmp_path / "run"),
        "--data.synthetic-size",
        "9999999",
    ]
    status, errors = interrupted(REGARD, arguments, delay, signal.SIGTERM)
    assert status == 143
    assert errors in ("regard: terminated\n", "regard train: terminated\n")


IMPORT = """
import sys, time
from regard.runtime import signals
signals.handle("regard")
sys.path.insert(0, sys.argv[1])
try:
    import slow
    time.sleep(9)
except BaseException as error:
    print(type(error).__name__, file=sys.stderr)
finally:
    print("closed", file=sys.stderr)
"""
SLOW = """
import time
print("begun", flush=True)
try:
    for _ in range(20):
        time.sleep(0.02)
except BaseException:  # as some libraries do
    pass
"""


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "TerminatedError")],
)
def test_a_signal_waits_for_the_end_of_an_import(tmp_path, number, name):
    (tmp_path / "slow.py").write_text(SLOW)
    status, errors = interrupted(IMPORT, [str(tmp_path)], 0.05, number)
    assert (status, errors) == (0, f"{name}\nclosed\n")


def test_a_second_signal_ends_an_import(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW.replace("range(20)", "range(1000)"))
    with subprocess.Popen(
        [sys.executable, "-c", IMPORT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "begun\n"
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "regard: interrupted\n")


@pytest.mark.parametrize("delay", [0.0, 0.4])
def test_the_counting_task_ends_with_130(tmp_path, delay):
    program = COUNTING.format(path=str(ROOT / "main.py"))
    arguments = ["--train", "--steps", "100000", "--savepath", str(tmp_path)]
    status, errors = interrupted(program, arguments, delay)
    assert status == 130
    assert "Traceback" not in errors


def test_sigterm_saves_and_ends_with_143(tmp_path):
    run = tmp_path / "run"
    sizes = ["--model.size", "8", "--data.synthetic-size", "100"]
    arguments = ["train", "copy", "--output", str(run), "--training.epochs", "1000", *sizes]
    with subprocess.Popen(
        [sys.executable, "-m", "regard", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not (run / "log.jsonl").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.2)
        process.terminate()
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
    assert "saved; resume with: regard train copy" in output
    assert '"reason": "terminated"' in (run / "log.jsonl").read_text()
