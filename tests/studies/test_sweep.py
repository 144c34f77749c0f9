"""`regard sweep`: combinations, one table, resumed and extended sweeps, failures, Ctrl-C."""

import csv
import json
import signal
import subprocess
import sys
import time

import pytest

from regard.cli.main import run as regard
from regard.cli.tables import format_table
from regard.cli.training.sweep import Options, folder_of, parse, run
from regard.errors import UserError
from regard.storage.files import locked
from regard.studies.sweep import PROCESS, Job, JobResult, jobs_of, rows_of
from tests.messages import check_message, raises

TINY = ["numbers", "--data.synthetic-size", "100", "--model.size", "8", "--training.updates", "2"]


def test_each_combination_is_a_job(tmp_path):
    jobs = jobs_of(["training.seed=1..2,7", "model.size=8,16"], tmp_path)
    assert [job.values for job in jobs] == [
        (("training.seed", seed), ("model.size", size)) for seed in "127" for size in ("8", "16")
    ]
    assert jobs[0].folder == tmp_path / "training.seed=1,model.size=8"
    assert jobs[0].options == ["--training.seed", "1", "--model.size", "8"]
    assert len({job.folder for job in jobs}) == 6


@pytest.mark.parametrize(
    "vary",
    [
        ["seed"],
        ["training.seed="],
        ["a.b=1", "a.b=2"],
        ["a.b_c=1", "a.b-c=2"],
        ["output=x"],
        [],
        ["a.b=5..1"],
        ["a.b=1..100", "a.c=1..100"],
    ],
)
def test_unclear_variations_are_refused(vary, tmp_path):
    with raises(UserError):
        jobs_of(vary, tmp_path)


def test_other_options_are_those_of_train():
    words = ["letters", "a.tsv", "--vary", "x=1", "--model.size=8", "--threads=2", "--vary=y=2"]
    options, record = parse(Options, [*words, "--", "-b"], "sweep")
    assert record.arguments == ("letters", "a.tsv", "--model.size=8", "--", "-b")
    assert (options.vary, options.threads) == (("x=1", "y=2"), 2)
    assert str(folder_of(options.output, record)) == "sweeps/a"
    assert (options.workers, options.address, options.gpus) == (None, None, 0)
    words = ["--address", "auto", "letters", "--vary", "x=1", "--gpus", "0.5", "--data.limit", "-1"]
    options, record = parse(Options, words, "sweep")
    assert record.arguments == ("letters", "--data.limit", "-1")
    assert (options.address, options.gpus) == ("auto", 0.5)


@pytest.mark.parametrize(
    "words",
    [
        ["--vary", "x=1"],
        ["letters"],
        ["letters", "--vary"],
        ["letters", "--vary", "x=1", "--resume"],
        ["letters", "--vary", "x=1", "--gpus", "1"],
        ["letters", "--vary", "x=1", "--workers", "0"],
        ["letters", "--vary", "x=1", "-o", ""],
        ["letters", "--vary", "x=1", "-o", "-"],
        *(["letters", "--gpus", number] for number in ("many", "1.5", "-1", "inf", "nan")),
    ],
)
def test_wrong_options_are_rejected(words):
    with raises(UserError):
        run(words)


def test_the_table_has_means_over_seeds(tmp_path):
    def result(seed, size, score, problem=""):
        values = (("training.seed", seed), ("model.size", size))
        scores = {} if problem else {"chrF": 2 * score}
        return JobResult(Job(values, tmp_path), problem, 3.0, score, scores)

    rows = rows_of(
        [
            result("1", "8", 1.0),
            result("1", "16", 5.0),
            result("2", "8", 2.0),
            result("2", "16", 0.0, "x"),
        ]
    )
    assert rows == [
        {
            "model.size": "8",
            "runs": 2,
            "dev score": 1.5,
            "± dev score": pytest.approx(0.5**0.5),
            "test chrF": 3.0,
            "± test chrF": pytest.approx(2**0.5),
            "seconds": 3.0,
        },
        {
            "model.size": "16",
            "runs": 1,
            "dev score": 5.0,
            "± dev score": None,
            "test chrF": 10.0,
            "± test chrF": None,
            "seconds": 3.0,
        },
    ]


def test_a_combination_without_a_complete_run_has_an_empty_row(tmp_path):
    def result(size, problem):
        values = (("model.size", size),)
        scores = {} if problem else {"chrF": 7.0}
        return JobResult(Job(values, tmp_path), problem, 3.0, None if problem else 2.0, scores)

    for problems in (("", "x"), ("x", "")):
        rows = rows_of([result(*pair) for pair in zip(("8", "16"), problems, strict=True)])
        assert [row["test chrF"] for row in rows] == [None if each else 7.0 for each in problems]
        assert len(format_table(rows)) == 3


def test_bleu_of_short_references_is_only_in_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    pairs, folder = tmp_path / "pairs.tsv", tmp_path / "sweep"
    words = ["sweep", "letters", str(pairs), "--model.size", "8", "--training.updates", "1"]
    words += ["--workers", "1", "--vary", "training.seed=1", "-o"]
    for number, (target, is_shown) in enumerate([("b", False), ("b c d e", True)]):
        pairs.write_text("".join(f"a{n}\t{target}{n}\n" for n in range(30)))
        folder = tmp_path / str(number)
        assert regard([*words, str(folder)]) == 0
        out = capsys.readouterr().out
        assert ("test BLEU" in out) == is_shown
        note = "BLEU is only in table.csv: it counts n-grams of 4 words, and references have 1.0"
        assert (note in out) == (not is_shown)
        assert "test chrF" in out
        assert "test BLEU" in (folder / "table.csv").read_text()


def in_this_process(words, job, num_threads, stopped):
    """The command of a job, without a process of its own."""
    return "" if regard(list(words)) == 0 else "failed"


def test_a_sweep_is_extended_and_no_run_is_trained_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    folder = tmp_path / "sweep"
    words = ["sweep", *TINY, "-o", str(folder), "--workers", "1", "--vary"]
    assert regard([*words, "training.seed=1"]) == 0
    first = (folder / "training.seed=1" / "model.safetensors").stat().st_mtime_ns
    assert regard([*words, "training.seed=1,2"]) == 0
    assert (folder / "training.seed=1" / "model.safetensors").stat().st_mtime_ns == first
    out = capsys.readouterr().out
    assert "2 of 2  training.seed=2  dev score" in out
    assert "compare them: regard compare" in out
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["training.seed"] for row in rows] == ["1", "2"]
    results = json.loads((folder / "training.seed=2" / "results.json").read_text())
    scores = {score["name"]: score["value"] for score in results["test.tsv"][0]["scores"]}
    assert float(rows[1]["test chrF"]) == scores["chrF"]
    assert regard(["sweep", *TINY[:-1], "3", "-o", str(folder), "--vary", "training.seed=1"]) == 1
    assert "has the sweep `numbers" in capsys.readouterr().err


def test_an_interrupted_sweep_continues_to_the_same_weights(tmp_path, capsys, monkeypatch):
    run, alone = tmp_path / "sweep" / "training.seed=1", tmp_path / "alone"
    words = ["sweep", *TINY, "-o", str(tmp_path / "sweep"), "--vary", "training.seed=1"]
    monkeypatch.setattr("regard.studies.sweep._run", in_this_process)
    reasons = iter([None, "hours"])
    with monkeypatch.context() as patch:
        patch.setattr("regard.training.loop._reason_to_end", lambda *_: next(reasons))
        assert regard(words) == 1
    assert "training.seed=1 is not complete: repeat the command" in capsys.readouterr().err
    assert json.loads((run / "log.jsonl").read_text().splitlines()[-1])["update"] == 1
    assert regard(words) == 0
    assert json.loads((run / "log.jsonl").read_text().splitlines()[-1])["update"] == 2
    assert regard(["train", *TINY, "--training.seed", "1", "-o", str(alone)]) == 0
    assert len({(folder / "model.safetensors").read_bytes() for folder in (run, alone)}) == 1


def test_a_second_sweep_in_the_folder_is_refused(tmp_path, capsys):
    folder = tmp_path / "sweep"
    folder.mkdir()
    with locked(folder):
        assert regard(["sweep", *TINY, "-o", str(folder), "--vary", "training.seed=1"]) == 1
    assert "another process trains the runs of" in capsys.readouterr().err


def test_a_damaged_record_of_the_sweep_is_one_line(tmp_path, capsys):
    (tmp_path / "sweep.json").write_text("{}")
    assert regard(["sweep", *TINY, "-o", str(tmp_path), "--vary", "training.seed=1"]) == 1
    assert "sweep.json is damaged: remove it" in capsys.readouterr().err


def test_the_folder_of_a_sweep_is_no_run(tmp_path, capsys):
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / "sweep.json").write_text('{"arguments": ["copy"]}')
    assert regard(["translate", str(folder)]) == 1
    assert f"{folder} is a sweep: expected one of its runs; it has none" in capsys.readouterr().err
    (folder / "training.seed=3").mkdir()
    (folder / "training.seed=3" / "config.yaml").touch()
    assert regard(["translate", str(folder)]) == 1
    err = capsys.readouterr().err
    check_message(err)


@pytest.mark.parametrize("values", ["a/b,a_b", f"{'é' * 150}1,{'é' * 150}2"])
def test_each_job_has_a_folder_that_file_systems_allow(values, tmp_path):
    jobs = jobs_of([f"data.path={values}"], tmp_path)
    assert len({job.folder for job in jobs}) == 2
    for job in jobs:
        job.folder.with_name(f"{job.folder.name}.log").touch()
        assert job.folder.parent == tmp_path


def test_ray_is_optional(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "regard.cluster.sweep_workers", raising=False)
    words = ["sweep", *TINY, "-o", str(tmp_path / "sweep"), "--vary", "training.seed=1"]
    assert regard([*words, "--address", "local"]) == 1
    assert "pip install 'ray[tune]'" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it to a process")
def test_a_killed_sweep_interrupts_its_trainings(tmp_path):
    code = "import sys, time; "
    code += f"from {PROCESS} import follow_parent; "
    code += "follow_parent(int(sys.argv[1])); print('follows', flush=True); time.sleep(60)"
    parent = "import os, subprocess, sys; "
    parent += "subprocess.Popen([sys.executable, '-c', sys.argv[1], str(os.getpid())]).wait()"
    command = [sys.executable, "-c", parent, code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "follows\n"
    process.kill()
    _, err = process.communicate(timeout=30)
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_a_failed_training_is_named(tmp_path, capsys):
    folder = tmp_path / "sweep"
    (folder / "training.seed=1").mkdir(parents=True)  # as if sweep.json had been removed
    (folder / "training.seed=1" / "test.tsv").write_text("in the way")
    words = ["sweep", *TINY, "-o", str(folder), "--vary", "training.seed=1"]
    assert regard(words) == 1
    captured = capsys.readouterr()
    assert "training.seed=1 failed: regard train: " in captured.err
    assert "has no weights, but has test.tsv" in captured.err


def test_values_are_checked_before_any_training(tmp_path, capsys):
    words = ["sweep", *TINY, "-o", str(tmp_path / "sweep"), "--vary", "model.size=8,many"]
    assert regard(words) != 0
    assert "model.size" in capsys.readouterr().err
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    "values",
    [
        "training.seed=1,2,01",
        "training.learning-rate=0.001,0.01,1e-3",
        "model.size=8,016,16",
    ],
)
def test_a_value_that_is_written_in_two_ways_is_refused(tmp_path, capsys, values):
    assert regard(["sweep", *TINY, "--vary", values, "-o", str(tmp_path / "s")]) == 1
    error = capsys.readouterr().err
    assert "are one value: leave one of them out" in error
    assert not (tmp_path / "s").exists()


def test_the_folder_of_a_sweep_may_begin_with_a_hyphen(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert regard(["sweep", *TINY, "--vary", "training.seed=1,2", "--output=-dash"]) == 0
    assert "regard compare ./-dash" in capsys.readouterr().out
    assert len(list(tmp_path.glob("-dash/*/model.safetensors"))) == 2


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ("training.seed=1,2", "cannot read gone.tsv: no such file"),
        ("data.path=gone.tsv,pairs.tsv", "cannot read gone.tsv: no such file"),
        ("data.source-column=1,9", "pairs.tsv has no column '9'"),
    ],
)
def test_the_data_are_read_before_any_training(tmp_path, capsys, monkeypatch, vary, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.studies.sweep._run", lambda *_: pytest.fail("a training began"))
    (tmp_path / "pairs.tsv").write_text("".join(f"a{n}\tb{n}\n" for n in range(30)))
    data = ["gone.tsv"] if vary.startswith("training") else ["pairs.tsv"]
    assert regard(["sweep", "letters", *data, "--vary", vary]) == 1
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert "trainings" not in out
    assert not (tmp_path / "sweeps").exists()


def test_combinations_are_checked_before_any_training(tmp_path, capsys):
    words = [
        "sweep",
        "numbers",
        "--model.encoder.kind",
        "transformer",
        "-o",
        str(tmp_path / "sweep"),
    ]
    assert regard([*words, "--vary", "model.size=8,12", "--vary", "model.encoder.heads=4,8"]) == 1
    err = capsys.readouterr().err
    assert "heads" in err
    assert "12" in err
    assert not (tmp_path / "sweep").exists()


def test_the_lines_about_the_file_are_printed_once(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.studies.sweep._run", lambda *_: "no training")
    (tmp_path / "pairs.csv").write_text("".join(f"a{n},b{n}\n" for n in range(30)))
    assert regard(["sweep", "pairs.csv", "--vary", "training.seed=1,2"]) == 1
    out = capsys.readouterr().out
    assert [out.count(f"\n{start}") for start in ("columns: 1 -> source", "1 of 2")] == [1, 1]


def test_ctrl_c_saves_all_trainings_and_the_command_continues_them(tmp_path):
    folder = tmp_path / "sweep"
    words = [*TINY[:-1], "2000000", "--training.log-every", "1"]
    command = [sys.executable, "-m", "regard", "sweep", *words, "-o", str(folder)]
    command += ["--workers", "1", "--vary", "training.seed=1,2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = folder / "training.seed=1" / "log.jsonl"
    began = time.monotonic()
    while not (log.exists() and log.read_text().count("\n") > 2):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    check_message(err)
    end = json.loads(log.read_text().splitlines()[-1])
    assert (end["kind"], end["reason"]) == ("end", "interrupted")
    assert (folder / "training.seed=1" / "state").is_dir()
    assert not (folder / "training.seed=2").exists()
