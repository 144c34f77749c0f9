"""A run's curve is drawn from its log as it is, finished or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.viewing.curve import draw, read_log, save
from tests.messages import raises

TRAIN = [
    {"kind": "train", "update": update, "loss": 9 / update, "seconds": 1.5 * update}
    for update in (30, 60, 90)
]
DEV: list[dict[str, Any]] = [
    {"kind": "dev", "update": 45, "loss": 0.5, "score": 61.25, "metric": "chrF", "seconds": 67.0},
    {"kind": "dev", "update": 90, "loss": None, "score": 31.5, "metric": "chrF", "seconds": 150.0},
]


def points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(*line.get_data(), strict=True)]


def test_the_curve_has_losses_above_and_the_score_below() -> None:
    losses, scores = draw([*TRAIN, *DEV, {"kind": "end", "update": 90}]).axes
    train, dev = losses.lines
    assert points(train) == [(30, 0.3), (60, 0.15), (90, 0.1)]
    assert points(dev) == [(45, 0.5)]
    assert points(scores.lines[0]) == [(45, 61.25), (90, 31.5)]
    assert points(scores.lines[1]) == [(45, 61.25)]
    assert [text.get_text() for text in scores.texts] == ["61.25"]
    assert scores.get_ylabel() == "dev chrF"
    assert scores.get_xlabel() == "updates (2.5 minutes)"


def test_each_measure_has_a_panel_of_its_own() -> None:
    """A measure that only some lines have is drawn where it is."""
    first, second, third = TRAIN
    measured = [
        {**first, "measures": {"load": 1.5, "divergence": 0.25}},
        {**second, "measures": {"load": 2.0}},
        {**third, "measures": {"load": 1.25, "divergence": 0.75}},
    ]
    losses, load, divergence, scores = draw([*measured, *DEV]).axes
    assert losses.get_ylabel() == "loss"
    assert (load.get_ylabel(), divergence.get_ylabel()) == ("load", "divergence")
    assert scores.get_ylabel() == "dev chrF"
    assert points(load.lines[0]) == [(30, 1.5), (60, 2.0), (90, 1.25)]
    assert points(divergence.lines[0]) == [(30, 0.25), (90, 0.75)]


def test_train_loss_and_dev_loss_of_rewards_have_panels_of_their_own() -> None:
    """The one is minus a reward, and the other a cross entropy."""
    rewarded = [{**line, "measures": {"reward": 0.5}} for line in TRAIN]
    train, dev, reward, scores = draw([*rewarded, *DEV]).axes
    assert [axes.get_ylabel() for axes in (train, dev, reward)] == [
        "train loss",
        "dev loss",
        "reward",
    ]
    assert points(train.lines[0]) == [(30, 0.3), (60, 0.15), (90, 0.1)]
    assert points(dev.lines[0]) == [(45, 0.5)]
    assert scores.get_ylabel() == "dev chrF"
    train, reward = draw(rewarded).axes
    assert (train.get_ylabel(), reward.get_ylabel()) == ("train loss", "reward")


def test_a_short_last_interval_is_merged_into_the_one_before() -> None:
    """The last line has the mean of two updates, which is noise."""
    lines = [{**record, "measures": {"load": 2.0}} for record in TRAIN]
    last = {"kind": "train", "update": 92, "loss": 8.1, "seconds": 138.0, "measures": {"load": 4}}
    losses, load = draw([*lines, last]).axes
    assert points(losses.lines[0]) == [(30, 0.3), (60, 0.15), (92, pytest.approx(0.6))]
    assert points(load.lines[0]) == [(30, 2), (60, 2), (92, pytest.approx(2.125))]
    half = {**last, "update": 105}
    assert points(draw([*lines, half]).axes[0].lines[0])[3] == (105, 8.1)


def test_single_points_have_an_axis_from_zero() -> None:
    measures = {"encoder_load": 1.12, "distinct": 1.0, "baseline": -0.5, "reward": 0.0}
    train = {**TRAIN[0], "measures": measures}
    score = {**DEV[0], "update": 30, "score": 0.0005471771}
    panels = draw([train, score]).axes
    limits = {axes.get_ylabel(): axes.get_ylim() for axes in panels}
    assert limits == {
        "train loss": pytest.approx((0, 0.36)),
        "dev loss": pytest.approx((0, 0.6)),
        "encoder load": pytest.approx((0, 1.344)),
        "distinct": (0, 1),
        "baseline": pytest.approx((-0.6, 0)),
        "reward": (0, 1),
        "dev chrF": (0, 1),
    }
    assert [text.get_text() for text in panels[-1].texts] == ["0.00"]


def test_the_axis_of_a_share_ends_at_one() -> None:
    lines = [{**line, "measures": {"distinct": 1 - 1 / line["update"]}} for line in TRAIN]
    lines.append({**lines[-1], "update": 120, "measures": {"distinct": 1.0}})
    bottom, top = draw(lines).axes[1].get_ylim()
    assert 0 < bottom < top == 1


def test_missing_values_have_no_panel() -> None:
    (losses,) = draw(TRAIN).axes
    assert losses.get_ylabel() == "loss"
    (scores,) = draw(DEV[1:]).axes
    assert scores.get_ylabel() == "dev chrF"
    with pytest.raises(UserError, match=r"nothing to draw: .* in 1 lines"):
        draw([{"kind": "end"}])


def test_a_log_is_read_though_its_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    whole = "\n".join(json.dumps(record) for record in [*TRAIN, *DEV])
    path.write_text(f'{whole}\n{{"kind": "tra')
    assert read_log(path) == [*TRAIN, *DEV]
    save(path, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    path.write_text(f"oops\n{whole}")
    with raises(UserError, "line 1"):
        read_log(path)


@pytest.mark.parametrize("scores", [[0.0], [0.0, 0.0], [91.34], [3.0, 91.34, 88.0], [-2.0, -1.0]])
def test_lines_are_drawn_on_top(scores: list[float]) -> None:
    """The legend is above its panel, and the best score's number above its point, inside."""
    dev = [
        {"kind": "dev", "update": 10 * n, "loss": 3.0 - n, "score": score, "metric": "BLEU"}
        for n, score in enumerate(scores, start=1)
    ]
    figure = draw([*dev, {"kind": "train", "update": 10 * len(dev), "loss": 9.0}])
    figure.draw_without_rendering()
    losses, below = figure.axes
    legend = losses.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 > losses.transData.transform((0, 9.0))[1]
    (label,) = below.texts
    box, top = label.get_window_extent(), below.get_window_extent().y1
    axes_box = below.get_window_extent()
    assert axes_box.x0 <= box.x0 < box.x1 <= axes_box.x1
    best = below.transData.transform((10, max(scores)))[1]
    assert best < box.y0 < box.y1 < top
    low, high = below.get_ylim()
    assert high - low >= 1
    assert all(tick == int(tick) for tick in below.get_xticks())
    assert below.get_xlim()[0] == 0


def test_a_log_of_initial_weights_alone_is_drawn() -> None:
    """Training stopped before its first update."""
    figure = draw([{"kind": "dev", "update": 0, "score": 69.0, "loss": 1.0, "best": True}])
    (axes,) = (axes for axes in figure.axes if axes.texts)
    assert axes.get_xlim() == (0, 1.02)
    assert axes.texts[0].get_window_extent().x0 >= axes.get_window_extent().x0
