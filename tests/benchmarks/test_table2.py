"""The comparison of systems at one budget: what is trained, scored and written."""

import gzip
from dataclasses import replace

import pytest

from regard.cli.training.train import parse
from tests.benchmarks.scripts import script

table2, whole_runs = script("table2"), script("whole_runs")
systems, report = script("table2_systems"), script("table2_report")
NAMES = [*systems.SYSTEMS]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder with the files of Multi30k, of generated sentences."""
    folder = tmp_path_factory.mktemp("data")
    words = {
        "en": ["a", "man", "runs", "in", "red", "shoes", "by", "the", "sea"],
        "de": ["ein", "mann", "rennt", "mit", "roten", "schuhen", "am", "meer", "entlang"],
    }
    for split, number in (("train", 60), ("val", 9), ("test_2016_flickr", 7)):
        for side, vocabulary in words.items():
            lines = [" ".join(vocabulary[i % 5 : i % 3 + 6]) for i in range(number)]
            with gzip.open(folder / f"{split}.{side}.gz", "wt", encoding="utf8") as file:
                file.write("\n".join(lines) + "\n")
    return folder


def command(data, output, *more):
    return table2.main([str(data), "--tiny", "--output", str(output), *more])


@pytest.mark.parametrize("name", NAMES)
def test_every_system_spends_the_budget_on_a_model_of_comparable_size(name, tmp_path):
    settings = systems.Settings(tmp_path, tmp_path, systems.BUDGET)
    phases = systems.phases_of(systems.SYSTEMS[name], 1, settings)
    spent = sum(phase.flops for phase in phases)
    assert spent == pytest.approx(systems.BUDGET, rel=0.002)
    if systems.SYSTEMS[name].has_rewards:
        likelihood, rewards = phases
        assert likelihood.flops == pytest.approx(0.8 * spent, rel=0.005)
        assert rewards.options["--training.objective"] == "expected_reward"
    for phase in phases:
        cost = systems.cost_with(phase.recipe, phase.options)
        assert phase.options["--training.updates"] == str(phase.updates)
        tables = {"bytenet": 2 * 128 * 128}.get(
            name, 5000 * int(phase.options.get("--model.size", 128))
        )
        assert 2e6 < cost.num_parameters - tables < 4e6


def test_the_control_of_the_experts_has_their_size_and_number_of_updates(tmp_path):
    settings = systems.Settings(tmp_path, tmp_path, systems.BUDGET)
    (dense,) = systems.phases_of(systems.CONTROLS["transformer-128"], 1, settings)
    (sparse,) = systems.phases_of(systems.SYSTEMS["experts"], 1, settings)
    assert dense.updates == pytest.approx(sparse.updates, rel=0.01)
    dense_model, sparse_model = (
        parse([phase.recipe, *systems.words_of(phase.options)], lambda _: None).experiment.model
        for phase in (dense, sparse)
    )
    assert dense_model.size == sparse_model.size == 128
    assert (dense_model.encoder.experts.number, sparse_model.encoder.experts.number) == (0, 8)


def test_rewarded_updates_cost_the_samples_and_the_reference(tmp_path):
    settings = systems.Settings(tmp_path, tmp_path, 1e12)
    phase = systems.phases_of(systems.SYSTEMS["gnmt-rewards"], 1, settings)[1]
    cost = systems.cost_with(phase.recipe, phase.options)
    weights = (cost.source_token + cost.target_token) / 6
    tokens = 512 / 2
    assert phase.flops_of_update == pytest.approx(tokens * weights * (5 * 2 + 5 * 6 + 6))


def test_all_seeds_are_scored_and_combined_once(commands, data, tmp_path, monkeypatch):
    commands, _ = commands
    monkeypatch.setattr(table2, "SEEDS", (1, 2))
    monkeypatch.setattr(table2.signal, "signal", lambda *_: None)
    output = tmp_path / "out"
    assert command(data, output, "--systems", "transformer") == 0
    assert [name for name, *_ in commands] == ["train", "evaluate"] * 2 + ["evaluate"]
    header, *rows = [line.split("\t") for line in (output / "results.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["transformer", seed] for seed in "12"] + [
        ["transformer", "ensemble"]
    ]
    single, ensemble = (dict(zip(header, rows[place], strict=True)) for place in (0, 2))
    assert float(ensemble["flops"]) == pytest.approx(2 * float(single["flops"]))
    assert (single["cpu_seconds"], ensemble["cpu_seconds"]) == ("30.0", "60.0")
    assert single["path"] == "1"
    model = output / "transformer-1/likelihood"
    assert int(single["parameters"]) == table2.num_parameters(table2.load(model).model)

    assert command(data, output, "--systems", "transformer") == 0
    assert len(commands) == 5


@pytest.fixture
def results():
    """Results of all systems, each better than the one before by a BLEU point."""
    single = systems.Result(
        system="", seed=1, bleu=20.0, parameters=3_000_000, embeddings=1_000_000, flops=1e13,
        updates=500, cpu_seconds=600.0, wall_seconds=900.0, megabytes=1234.0,
        evaluation_seconds=30.0, path="14", path_positions=15,
    )  # fmt: skip
    rows = []
    for place, name in enumerate(NAMES):
        members = [
            replace(single, system=name, seed=seed, bleu=20 + place + 0.5 * (seed - 2))
            for seed in systems.SEEDS
        ]
        rows += [*members, replace(single, system=name, seed=systems.ENSEMBLE, bleu=23.0 + place)]
    return rows


def test_the_page_gets_mean_and_spread_of_every_system(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table2: begin -->\nold\n<!-- table2: end -->\nafter\n")
    for _ in range(2):
        table2.rewrite_block(page, "table2", report.tables(results))
    text = page.read_text()
    assert text.startswith("before\n<!-- table2: begin -->\n| system |")
    assert text.endswith("|\n<!-- table2: end -->\nafter\n")
    assert "old" not in text
    assert "| GNMT | 24.67, 38.95; – | 22.0 ± 0.5 | 21.5, 22.0, 22.5 | 25.0 |\n" in text
    assert "| 3,000,000 | 2,000,000 | 500 | 10 min | 1,234 MB | n - 1 | 14 (n = 15) |\n" in text


def test_the_figure_has_every_system(results, tmp_path):
    flops = [2e12, 6e12, 1e13]
    curves = {
        name: [(flops, [place + seed, 10.0 + place + seed, 20.0 + place]) for seed in systems.SEEDS]
        for place, name in enumerate(NAMES)
    }
    path = tmp_path / "figure.svg"
    report.draw(results, curves, path)
    text = path.read_text(encoding="utf8")
    for place, system in enumerate(systems.SYSTEMS.values()):
        assert text.count(f">{system.title}<") == 1
        assert f">{20 + place}.0  /  {23 + place}.0<" in text
