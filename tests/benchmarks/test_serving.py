"""The load test of the service, with a tiny model and few requests."""

import json
from pathlib import Path

from tests import needs
from tests.benchmarks.scripts import script

needs.export("ctranslate2")
serving = script("serving")
RUNS = Path(__file__).parents[1] / "runs" / "data" / "0.1"


def write_lines(path):
    path.write_text("a b\n\nd c a\nb\n", encoding="utf8")
    return str(path)


def test_all_systems_answer_all_lines(tmp_path, capsys):
    lines, figures = write_lines(tmp_path / "lines"), tmp_path / "figures.json"
    options = ["--requests", "9", "--clients", "1", "3", "--json", str(figures)]
    serving.main([str(RUNS / "transformer"), lines, *options])
    loads = json.loads(figures.read_text())["loads"]
    assert [(load["system"], load["clients"]) for load in loads] == [
        (system, clients)
        for system in (serving.REGARD, serving.SINGLE, serving.CTRANSLATE2)
        for clients in (1, 3)
    ]
    assert all(0 < load["p50"] <= load["p99"] for load in loads)
    captured = capsys.readouterr()
    assert captured.out.count("| regard serve |") == 2
    assert "regard serve: " not in captured.err, "the texts are those of offline translation"


def test_a_soak_reports_memory_and_statuses(tmp_path, capsys):
    lines = write_lines(tmp_path / "lines")
    serving.main([str(RUNS / "plain"), lines, "--soak", "0.05", "--requests", "20"])
    report = json.loads(capsys.readouterr().out)
    assert 0 < report["start_mb"] <= report["largest_mb"]
    assert set(report["statuses"]) <= {"200", "400", "422"}
    assert report["statuses"]["200"] > 0
