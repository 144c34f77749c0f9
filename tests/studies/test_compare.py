"""`regard compare`: systems over seeds, saved scores, the outputs that differ, table and figure."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

from regard.cli.main import run as regard
from regard.errors import UserError
from regard.metrics.metric import MetricScore
from regard.metrics.text import exact_match
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.studies.compare import System, _differences, _names, compare
from regard.tasks.evaluation import Evaluation, ScoredOutput
from regard.viewing.comparison import draw
from tests.messages import raises
from tests.small_runs import small


def trained(folder, *, size=16, **training):
    experiment = small(epochs=1, **training)
    model = replace(experiment.model, size=size)
    data = replace(experiment.data, synthetic_size=130)
    train(replace(experiment, model=model, data=data), folder)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of one system, and one run of another."""
    folder = tmp_path_factory.mktemp("runs")
    return [
        trained(folder / "one", seed=1),
        trained(folder / "two", seed=2),
        trained(folder / "large", size=24),
    ]


def test_runs_that_differ_in_seeds_are_one_system(runs):
    study = compare(runs, num_samples=50)
    small_system, large = study.systems
    assert (small_system.name, large.name) == ("model.size=16", "model.size=24")
    assert small_system.runs == tuple(runs[:2])
    for metric in small_system.metrics:
        scores = []
        for run in runs[:2]:
            (entry,) = json.loads((run / "results.json").read_text())["test.tsv"]
            scores += [each["value"] for each in entry["scores"] if each["name"] == metric]
        assert small_system.scores(metric) == scores
        assert small_system.mean(metric) == fmean(scores)
        assert small_system.deviation(metric) == stdev(scores)
    assert large.deviation("chrF") is None
    assert {test.metric for test in study.comparisons} == {"BLEU", "chrF", "TER", "exact match"}
    assert {test.system for test in study.comparisons} == {"model.size=24"}
    for test in study.comparisons:
        assert test.score == pytest.approx(large.mean(test.metric))
    texts = [output.text for output in small_system.outputs]
    references = [output.references for output in small_system.outputs]
    (match,) = [test for test in study.comparisons if test.metric == "exact match"]
    assert match.baseline_score == pytest.approx(exact_match(texts, references).value)


def system(name, *texts):
    outputs = [
        ScoredOutput(source, text, ("abcd",)) for source, text in zip("pqrs", texts, strict=True)
    ]
    return System(name, (), (Evaluation(4, (MetricScore("BLEU", 1.0, ""),), tuple(outputs)),))


def test_systems_are_named_after_kinds_without_the_fields_of_each_kind():
    groups = [[RunFolder(Path(name))] for name in "ab"]
    fields = [
        {"model.head.kind": "attention", "model.head.size": "8", "model.size": "8"},
        {"model.head.kind": "mean", "model.size": "16"},
    ]
    names = ["model.size=8, model.head.kind=attention", "model.size=16, model.head.kind=mean"]
    assert _names(groups, fields) == names


def test_fields_that_inherit_a_varied_field_are_not_in_names():
    groups = [[RunFolder(Path(name))] for name in "ab"]
    sizes = ("model.size", "model.encoder.embedding", "model.decoder.size")
    assert _names(groups, [dict.fromkeys(sizes, "16"), dict.fromkeys(sizes, "32")]) == [
        "model.size=16",
        "model.size=32",
    ]


def test_systems_that_differ_in_many_fields_are_named_after_their_folders(tmp_path):
    fields = [dict.fromkeys("abcd", value) for value in "12"]
    paths = [tmp_path / name for name in ("sweep/a", "sweep/b", "c")]
    groups = [[RunFolder(path) for path in paths[:2]], [RunFolder(paths[2])]]
    assert _names(groups, fields) == [f"{paths[0]} and 1 more", str(paths[2])]
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "sweep.json").touch()
    assert _names(groups, fields) == [f"{tmp_path / 'sweep'} (2 runs)", str(paths[2])]
    groups[1] = [RunFolder(tmp_path / "sweep" / name) for name in "cd"]
    assert _names(groups, fields) == [f"{tmp_path}/sweep/{name} and 1 more" for name in "ac"]


def scored(name, references, *scores):
    """A system whose runs have these scores, in BLEU and chrF."""
    outputs = (ScoredOutput("p", "x", references),)
    metrics = (
        [MetricScore("BLEU", bleu, ""), MetricScore("chrF", chrf, "")] for bleu, chrf in scores
    )
    evaluations = tuple(Evaluation(1, tuple(metric), outputs) for metric in metrics)
    return System(name, tuple(Path(str(n)) for n in range(len(scores))), evaluations)


def test_bleu_of_short_references_neither_is_shown_nor_selects_the_median_run():
    scores = [(0.0, 60.0), (0.0, 90.0), (0.0, 70.0)]
    short, long = (scored("a", (text,), *scores) for text in ("abcd", "a b c d"))
    assert (short.shown_metrics, long.shown_metrics) == (("chrF",), ("BLEU", "chrF"))
    assert short.metrics == long.metrics
    assert (short.median_run, long.median_run) == (2, 1)


def test_bleu_of_short_references_is_only_in_the_files(runs, tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr("regard.viewing.comparison.save", lambda panels, _: drawn.append(panels))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\ta\nb c\tb\nd e f\td e\n")
    words = [*map(str, runs), str(pairs), "--samples", "20", "-o", "a.png"]
    note = "it counts n-grams of 4 words, and references have 1.3 on average"
    assert regard(["compare", *words]) == 0
    out = capsys.readouterr().out
    assert f"BLEU is only in results.json: {note}" in out
    assert "BLEU " not in out.replace("BLEU is", "")
    assert list(drawn[0]) == ["chrF", "TER", "exact match"]
    assert regard(["compare", *words, "--csv", str(tmp_path / "a.csv")]) == 0
    assert f"BLEU is only in {tmp_path / 'a.csv'}: {note}" in capsys.readouterr().out
    with (tmp_path / "a.csv").open(newline="") as file:
        assert "BLEU" in {row["metric"] for row in csv.DictReader(file)}


def test_outputs_that_differ_most_come_first():
    baseline = system("a", "abcd", "abcx", "xxxx", "x")
    improved = system("b", "abcd", "abcd", "abcd", "y")
    first, second = _differences([baseline, improved], small(), 2)
    assert (first.source, first.baseline_text, first.text) == ("r", "xxxx", "abcd")
    assert first.gain == pytest.approx(100)
    assert second.source == "q"
    assert 0 < second.gain < 100


def test_saved_scores_are_used_again(runs, monkeypatch):
    first = compare(runs, num_samples=20)
    monkeypatch.setattr("regard.pipeline.evaluate.evaluate", None)
    assert compare(runs, num_samples=20) == first


def test_the_command_prints_a_table_and_writes_files(runs, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b c\ta b c\nb c\tb c\nd e f\td e f\n")
    words = [*map(str, runs), str(pairs), "--samples", "20", "--sentences", "1"]
    files = ["-o", str(tmp_path / "a.png"), "--csv", str(tmp_path / "a.csv")]
    assert regard(["compare", *words, *files]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split() == [
        "system",
        "metric",
        "runs",
        "mean",
        "deviation",
        "p",
        "bootstrap",
        "p",
        "randomisation",
    ]
    assert any(line.startswith("model.size=24  chrF") for line in out)
    assert "p: paired bootstrap and approximate randomisation against model.size=16" in out
    assert sum(line.startswith("Source:") for line in out) <= 1
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["runs"] for row in rows if row["metric"] == "BLEU"] == ["2", "1"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_seeds_alone_are_one_system_without_a_test(runs, capsys):
    assert regard(["compare", *map(str, runs[:2])]) == 0
    out = capsys.readouterr().out
    assert "one system: no test of significance" in out
    assert "p bootstrap" not in out


def test_the_figure_has_a_panel_for_each_metric_and_a_row_for_each_system():
    figure = draw({"BLEU": {"a": [1.0, 3.0], "b" * 60: [2.0]}, "chrF": {"a": [5.0], "b": [6.0]}})
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["BLEU", "chrF"]
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["a", "…" + "b" * 39]
    low, high = figure.axes[0].get_ylim()
    assert low > high


def test_runs_that_cannot_be_compared_are_rejected(runs, tmp_path):
    for same in ([runs[0]], [runs[0], runs[0].parent / "two" / ".." / "one"]):
        with raises(UserError):
            compare(same)
    copy = tmp_path / "copy"
    shutil.copytree(runs[0], copy)
    (copy / "test.tsv").write_text("a\tb\n")
    with pytest.raises(UserError, match="have different test splits: add a file"):
        compare([runs[0], copy])
    (copy / "test.tsv").unlink()
    with pytest.raises(UserError, match="no held-out test split: add a file"):
        compare([runs[0], copy])


def test_the_folder_of_a_sweep_stands_for_its_complete_runs(runs, tmp_path, capsys):
    for number, run in enumerate(runs):
        shutil.copytree(run, tmp_path / str(number))
    (tmp_path / "sweep.json").write_text("{}")
    (tmp_path / "2" / "log.jsonl").write_text("")
    study = compare([tmp_path], num_samples=20)
    assert [run.name for system in study.systems for run in system.runs] == ["0", "1"]
    assert study.incomplete == ()
    (tmp_path / "table.csv").write_text("training.seed,run\n2,1\n1,0\n")
    (system,) = compare([tmp_path], num_samples=20).systems
    assert [run.name for run in system.runs] == ["1", "0"]
    paths = [str(tmp_path / name) for name in "02"]
    assert regard(["compare", *paths, "--samples", "20"]) == 0
    assert f"the training of {paths[1]} is not complete" in capsys.readouterr().err


def test_scores_from_before_a_continued_training_are_not_used(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs[0], run)
    compare([run, runs[1]], num_samples=20)
    results = json.loads((run / "results.json").read_text())
    results["test.tsv"][0]["scores"][0]["value"] = 77.0
    (run / "results.json").write_text(json.dumps(results))
    assert compare([run, runs[1]], num_samples=20).systems[0].scores("BLEU")[0] == 77
    (run / "model.safetensors").touch()
    assert compare([run, runs[1]], num_samples=20).systems[0].scores("BLEU")[0] != 77


def test_the_message_of_the_command_is_one_line(runs, capsys):
    assert regard(["compare", str(runs[0])]) == 1
    assert "expected two or more different runs" in capsys.readouterr().err
