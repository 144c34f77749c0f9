"""The load test of the service, with a tiny model and few requests."""

import asyncio
import json

from regard.cli import main
from tests import needs
from tests.benchmarks.scripts import script
from tests.serving.services import Fake, listening, service_of
from tests.small_runs import RUNS

needs.export("ctranslate2")
serving = script("serving")


def write_lines(path):
    path.write_text("a b\n\nd c a\nb\n", encoding="utf8")
    return str(path)


def test_all_systems_answer_all_lines(tmp_path, capsys, monkeypatch):
    def run_here(*command):
        """Run a command in this process; only the servers have processes of their own."""
        if command[:2] == ("-m", "regard"):
            assert main.run([*command[2:]]) == 0
        else:
            serving.main(command[1:])
        return capsys.readouterr().out.splitlines()[-1]

    monkeypatch.setattr(serving, "run_python", run_here)
    lines, figures = write_lines(tmp_path / "lines"), tmp_path / "figures.json"
    systems = "serve", "ctranslate2"
    options = ["--requests", "9", "--clients", "1", "3", "--json", str(figures)]
    serving.main([str(RUNS / "transformer"), lines, *options, "--systems", *systems])
    loads = json.loads(figures.read_text())["loads"]
    assert [(load["system"], load["clients"]) for load in loads] == [
        (system, clients) for system in systems for clients in (1, 3)
    ]
    assert all(0 < load["p50"] <= load["p99"] for load in loads)
    captured = capsys.readouterr()
    assert captured.out.count(f"| {serving.SYSTEMS['ctranslate2']} |") == 2
    assert f"{serving.SYSTEMS['serve']}: " not in captured.err, (
        "the texts are those of offline translation"
    )


def test_a_soak_reports_memory_and_statuses():
    with listening(service_of(Fake())) as url:
        report = asyncio.run(serving.soak(url, ["a b", "d c a", "b"], 2.0))
    assert 0 < report["start_mb"] <= report["largest_mb"]
    assert {200, 400, 422} == {*report["statuses"]}


def test_one_by_one_is_a_batch_of_one(tmp_path):
    options = serving.parse([str(RUNS / "plain"), write_lines(tmp_path / "lines")])
    command = serving.server_of("single", options, tmp_path)
    assert command[-2:] == ("--batch-texts", "1")
    options.requests = 5
    assert serving.lines_of(options) == ["a b", "d c a", "b", "a b", "d c a"]
