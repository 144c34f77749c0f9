"""The comparison of captioners with and without attention: what is trained, resumed, scored and
written."""

from dataclasses import asdict, replace

import pytest

from regard.cli.training import train
from regard.recipes import flat
from tests.benchmarks.scripts import script

captions = script("captions")


def test_an_interrupted_training_is_resumed_and_finished_work_is_skipped(commands, tmp_path):
    commands, failing = commands
    failing.append(1)
    command = ["--tiny", "--systems", "soft", "hard", "--seeds", "2", "--output", str(tmp_path)]
    with pytest.raises(SystemExit, match="soft-2: status 1: the last line"):
        captions.main(command)
    for _ in range(2):
        assert captions.main(command) == 0
    soft, hard = (str(tmp_path / name) for name in ("soft-2", "hard-2"))
    names = [(name, *[word for word in rest if word in (soft, hard)]) for name, *rest in commands]
    assert names == [
        ("train", soft),
        ("train", soft),
        ("evaluate", soft),
        ("train", hard),
        ("evaluate", hard),
    ]
    first, second = captions.all_results(tmp_path)
    assert (first.system, first.updates, first.cpu_seconds) == ("soft", 2, 60.0)  # two sessions
    assert (second.system, second.seed, second.megabytes) == ("hard", 2, 50.0)
    assert set(captions.SCORES) <= set(second.scores)


def test_captioners_differ_in_their_attention_alone(tmp_path):
    def fields(name):
        words = captions.command(name, 3, tmp_path, is_tiny=False)
        return dict(flat(asdict(train.parse(words[1:], lambda _: None).experiment)))

    soft, hard, plain = (fields(name) for name in ("soft", "hard", "plain"))
    attention = "model.decoder.attention."
    assert {name for name in soft if soft[name] != plain[name]} == {
        "model.decoder.wiring", "model.decoder.gate", attention + "doubly_stochastic"
    }  # fmt: skip
    assert {name for name in soft if soft[name] != hard[name]} == {
        attention + "sampling", attention + "doubly_stochastic"
    }  # fmt: skip
    assert {each["training.seed"] for each in (soft, hard, plain)} == {3}


@pytest.fixture
def results():
    """Results of all captioners and seeds."""
    rows = []
    for place, name in enumerate(captions.SYSTEMS):
        for seed in captions.SEEDS:
            true = dict.fromkeys(captions.SCORES, 95.0 - 5 * place + seed)
            scores = true if name == "plain" else true | {captions.ATTENTION: 4.0 + seed / 2}
            rows.append(captions.Result(name, seed, scores, 3000, 60.0 * seed, 900.0))
    return rows


def test_the_table_has_mean_and_spread(results):
    *_, soft, hard, plain = captions.table(results).splitlines()
    true = " | ".join(["97.0 ± 1.0 %"] * 4)
    assert soft == f"| soft attention | {true} | 5.0 ± 0.5 x | 3,000 | 2 min | 900 MB |"
    assert "| 92.0 ± 1.0 %" in hard
    assert "| 87.0 ± 1.0 % | – | 3,000 |" in plain
    unmeasured = [replace(result, cpu_seconds=None, megabytes=None) for result in results]
    assert captions.table(unmeasured).count("| – | – |") == 3


def test_the_page_and_the_figure_are_written_when_all_is_finished(results, tmp_path, monkeypatch):
    (tmp_path / "figures").mkdir()
    page = tmp_path / "captioning.md"
    page.write_text("before\n<!-- captions: begin -->\nold\n<!-- captions: end -->\nafter\n")
    monkeypatch.setattr(captions, "finish", lambda *_, **__: None)
    monkeypatch.setattr(captions, "all_results", lambda _: results[:-1])
    command = ["--output", str(tmp_path / "out"), "--docs", str(tmp_path)]
    captions.main(command)
    assert "old" in page.read_text()
    monkeypatch.setattr(captions, "all_results", lambda _: results)
    captions.main(command)
    assert "| no attention | 87.0 ± 1.0 % |" in page.read_text()
    assert (tmp_path / "figures/captions-attention.png").stat().st_size > 1000
