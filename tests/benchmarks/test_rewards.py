"""The comparison of rewards with the likelihood: what is trained, resumed, scored and written."""

from dataclasses import asdict

import pytest

from regard.cli.training import train
from regard.recipes import flat
from tests.benchmarks.scripts import script

rewards = script("rewards")


def test_scenes_are_trained_with_every_objective_and_finished_work_is_skipped(commands, tmp_path):
    commands, failing = commands
    failing.append(3)
    command = ["--tiny", "--tasks", "scenes", "--seeds", "2", "--output", str(tmp_path)]
    with pytest.raises(SystemExit, match="likelihood: status 1: the last line"):
        rewards.main(command)
    assert rewards.main(command) == 0
    assert rewards.main(command) == 0
    names = [(name, *[word for word in rest if "scenes-2" in word]) for name, *rest in commands]
    folder = tmp_path / "scenes-2"
    systems = ("base", "likelihood", "self_critical")
    base, control, critical = (str(folder / system) for system in systems)
    assert names == [
        ("train", base),
        ("evaluate", base),
        ("train", control, base),
        ("train", control, base),
        ("evaluate", control),
        ("train", critical, base),
        ("evaluate", critical),
    ]
    header, *rows = (tmp_path / "results.tsv").read_text().splitlines()
    assert header.split("\t") == [
        "task", "system", "seed", "scores", "reward", "cpu_seconds", "megabytes"
    ]  # fmt: skip
    assert [row.split("\t")[1] for row in rows] == [f'"{system}"' for system in systems]
    assert ["null" in row for row in rows] == [True, True, False]
    assert (tmp_path / "table.md").read_text().count("\n") == 5


def test_systems_differ_in_the_objective_alone(tmp_path):
    """And for one system in the dropout of the base model."""
    task = rewards.tasks_of(tmp_path)["multi30k"]

    def parsed(system):
        command = task.command(system, 3, tmp_path, is_tiny=False)
        return train.parse(command[1:], lambda _: None).experiment

    base, control = parsed("base"), parsed("likelihood")
    assert control.training.initial_run == tmp_path / "base"
    assert control.data.tokenizers_path == tmp_path / "base"
    assert base.training.initial_run is None
    for system in task.systems:
        experiment = parsed(system)
        fields = differences(control, experiment)
        assert fields <= {"training.objective", "model.dropout"}, system
        assert ("model.dropout" in fields) == ("dropout" in system)
        assert experiment.training.seed == 3
    assert differences(base, parsed("likelihood with dropout")) >= {"training.updates"}
    assert parsed("likelihood with dropout").model.dropout == base.model.dropout


def differences(first, second):
    """Return the names of the fields in which two experiments differ."""
    ours, theirs = (dict(flat(asdict(each))) for each in (first, second))
    shared = {name for name in ours if not name.endswith(".dropout") or name == "model.dropout"}
    return {name for name in shared if ours[name] != theirs.get(name)} - {"name"}


def test_the_table_has_paired_differences():
    def result(system, seed, value, reward=None):
        return rewards.Result("scenes", system, seed, {"true": value}, reward, 90.0, 50.0)

    results = [
        result("likelihood", 1, 90.0),
        result("self_critical", 1, 92.0, 5.0),
        result("likelihood", 2, 94.0),
        result("self_critical", 2, 95.0, 6.0),
    ]
    _, _, control, other, *_ = rewards.table(results).splitlines()
    assert control == "| likelihood | 92.00 ± 2.83 (90.00, 94.00) |  |  | 1.5 | 50 |"
    assert other == (
        "| self_critical | 93.50 ± 2.12 (92.00, 95.00) | +1.50 ± 0.71 (+2.00, +1.00) | 5.500 | "
        "1.5 | 50 |"
    )
