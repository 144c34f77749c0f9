"""Heatmaps, tested by their labels, cells, colours and files."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.trace import AttentionMap, Trace
from regard.trace import TokenSequence as Side
from regard.viewing.colours import hexadecimal
from regard.viewing.figure import MARGIN, Style
from regard.viewing.fonts import BASE, MissingFontWarning
from regard.viewing.heatmap import SLANT, draw, save
from regard.viewing.labels import LabelledMap
from tests.messages import check_message, raises


class BaseFontOnly:
    def families(self) -> Sequence[str]:
        return (BASE,)

    def characters(self, family: str) -> set[int]:
        return set(range(0x250)) if family == BASE else set()


def picture(row_labels: int, column_labels: int, layers: int = 1, heads: int = 1) -> LabelledMap:
    weights = np.random.default_rng(0).random(
        (layers, heads, row_labels, column_labels), dtype=np.float32
    )
    return LabelledMap(
        weights / weights.sum(axis=-1, keepdims=True),
        tuple(f"source{number}" for number in range(column_labels)),
        tuple(f"target{number}" for number in range(row_labels)),
    )


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_source_is_across_the_top_and_target_down_the_side() -> None:
    weights = np.zeros((3, 2))
    weights[2, 0] = 0.25
    figure = draw(
        LabelledMap.of(weights, column_labels=["she", "."], row_labels=["sie", "da", "."])
    )
    axes, bar = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["she", "."]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["sie", "da", "."]
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.yaxis_inverted()
    (number,) = axes.texts
    assert number.get_text() == "0.25"
    assert number.get_position() == (0.5, 2.5)
    assert bar.get_ylabel() == "weight"


def test_a_trace_is_drawn_as_its_cross_attention(tmp_path: Path) -> None:
    trace = Trace(
        source=Side("a b", ("a", "b"), (0, 1)),
        target=Side("x", ("x",), (0,)),
        attention=(
            AttentionMap("encoder", np.ones((1, 1, 2, 2))),
            AttentionMap("cross", np.array([[[[0.25, 0.75]]]])),
        ),
    )
    assert texts(draw(trace).axes[0]) == ["0.25", "0.75"]
    save(trace, tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_cells_have_the_colour_of_their_weight() -> None:
    weights = np.array([[0.0, 0.3, 1.0], [0.85, 0.15, 0.5]])
    figure = draw(LabelledMap.of(weights, column_labels="abc", row_labels="xy"))
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())
    for (row, column), weight in np.ndenumerate(weights):
        x, y = figure.axes[0].transData.transform((column + 0.15, row + 0.15))
        colour = pixels[len(pixels) - 1 - round(y), round(x), :3]
        expected = [int(hexadecimal(weight)[at : at + 2], 16) for at in (1, 3, 5)]
        assert np.abs(colour.astype(int) - expected).max() <= 2


def test_all_heads_share_one_colour_scale() -> None:
    small = picture(3, 5, layers=2, heads=3)
    *panels, _ = draw(small).axes
    assert len(panels) == 6
    assert {panel.collections[0].get_clim() for panel in panels} == {(0, 1)}
    for panel, weights in zip(panels, small.weights.reshape(6, 3, 5), strict=True):
        np.testing.assert_array_equal(panel.collections[0].get_array(), weights)


def test_heads_are_columns_and_layers_are_rows_with_outer_labels() -> None:
    *panels, _ = draw(picture(3, 5, layers=2, heads=3)).axes
    lefts = [round(panel.get_position().x0, 3) for panel in panels]
    tops = [round(panel.get_position().y1, 3) for panel in panels]
    assert lefts[:3] == lefts[3:] == sorted(set(lefts))
    assert set(tops[:3]) == {max(tops)}
    assert set(tops[3:]) == {min(tops)}
    assert [len(panel.get_xticklabels()) for panel in panels] == [5, 5, 5, 0, 0, 0]
    assert [len(panel.get_yticklabels()) for panel in panels] == [3, 0, 0, 3, 0, 0]
    assert [texts(panel) for panel in panels] == [
        ["head 1", "layer 1"], ["head 2"], ["head 3"], ["layer 2"], [], [],
    ]  # fmt: skip


def test_small_maps_show_numbers() -> None:
    def numbers(row_labels: int, column_labels: int) -> list[str]:
        even = np.full((row_labels, column_labels), 1 / column_labels)
        axes = draw(
            LabelledMap.of(even, column_labels="a" * column_labels, row_labels="b" * row_labels)
        ).axes[0]
        return texts(axes)

    assert numbers(7, 12) == ["0.08"] * 84
    assert numbers(7, 13) == numbers(13, 7) == []


@pytest.mark.parametrize(
    ("row_labels", "column_labels"), [(5, 7), (23, 29), (60, 60), (59, 3), (3, 59)]
)
def test_labels_do_not_overlap_each_other_or_the_map(row_labels: int, column_labels: int) -> None:
    figure = draw(picture(row_labels, column_labels))
    axes = figure.axes[0]
    figure.canvas.draw()
    rows = [label.get_window_extent() for label in axes.get_yticklabels()]
    for upper, lower in itertools.pairwise(rows):
        assert upper.y0 >= lower.y1
    assert max(row.x1 for row in rows) < axes.get_window_extent().x0
    labels = axes.get_xticklabels()
    assert {label.get_rotation() for label in labels} == {SLANT}
    columns = [axes.transData.transform((number + 0.5, 0))[0] for number in range(column_labels)]
    between = (columns[1] - columns[0]) * math.sin(math.radians(SLANT))
    assert between >= labels[0].get_fontsize() * figure.dpi / 72 * 1.1
    assert labels[0].get_fontsize() >= 6


def test_single_letters_are_upright_among_slanted_words() -> None:
    axes = draw(
        LabelledMap.of(
            np.ones((2, 3)) / 3, column_labels=["▁", "nevertheless", "a"], row_labels="xy"
        )
    ).axes[0]
    shown = {label.get_text(): label.get_rotation() for label in axes.get_xticklabels()}
    assert shown == {"␣": 0, "nevertheless": SLANT, "a": 0}


def test_short_labels_are_upright() -> None:
    axes = draw(LabelledMap.of(np.ones((2, 3)) / 3, column_labels="abc", row_labels="xy")).axes[0]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}


def test_a_dollar_sign_is_not_a_formula(tmp_path: Path) -> None:
    money = LabelledMap.of(
        np.ones((1, 2)), column_labels=["$x^", "5$"], row_labels=["$\\frac$"], title="$^$"
    )
    save(money, tmp_path / "money.svg")
    assert "$\\frac$" in (tmp_path / "money.svg").read_text()


def test_missing_glyphs_warn_once_and_are_drawn(tmp_path: Path) -> None:
    cats = LabelledMap.of(np.ones((2, 1)), column_labels=["猫"], row_labels=["cat", "猫猫"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        save(cats, tmp_path / "cats.png", fonts=BaseFontOnly())
    (warning,) = caught
    assert warning.category is MissingFontWarning
    check_message(str(warning.message))
    assert (tmp_path / "cats.png").stat().st_size > 1000


def test_the_colour_bar_names_the_numbers() -> None:
    trace = Trace(
        source=Side("a b", ("a", "b"), (0, 1)),
        target=Side("x", ("x",), (0,)),
        attention=(AttentionMap("gradient", np.array([[[[0.25, 0.75]]]])),),
    )
    names = [
        draw(each).axes[-1].get_ylabel()
        for each in (LabelledMap.of_trace(trace, "gradient"), picture(2, 3))
    ]
    assert names == ["share of gradient, up to the largest", "weight"]


def test_gradients_have_a_scale_up_to_the_largest_share_and_grey_zeros() -> None:
    weights = np.array([[0.0, 0.002, 0.1, 0.05], [0.2, 0.0, 0.005, 0.01]])
    trace = Trace(
        source=Side("a b c d", tuple("abcd"), (0, 1, 2, 3)),
        target=Side("x y", ("x", "y"), (0, 1)),
        attention=(AttentionMap("gradient", weights[None, None]),),
    )
    figure = draw(LabelledMap.of_trace(trace, "gradient"))
    panel, bar = figure.axes
    (mesh,) = panel.collections
    figure.canvas.draw()
    assert mesh.get_clim() == pytest.approx((0, 0.2))
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "0.1", "0.2"]
    assert [text.get_text() for text in figure.texts] == ["grey: exactly 0"]
    colours = mesh.get_facecolors()[:, :3].reshape(2, 4, 3)
    spread = colours.max(axis=-1) - colours.min(axis=-1)
    assert (colours[weights == 0] < 0.9).all()
    assert (spread[weights == 0] == 0).all()
    assert (spread[weights == 0.1] > 0.3).all()
    assert (colours[weights == 0.002] > 0.95).all()


def test_maps_without_a_gradient_are_drawn() -> None:
    labelled_map = LabelledMap(np.zeros((1, 1, 1, 2)), ("a", "b"), ("x",), is_scaled=True)
    assert draw(labelled_map).axes[0].collections[0].get_clim() == (0, 1)


@pytest.mark.parametrize("heads", [1, 2])
def test_nearly_uniform_attention_has_a_note(heads: int) -> None:
    def notes(weights: np.ndarray, **settings: Any) -> list[str]:
        labels = tuple("abcd")[: weights.shape[-1]], tuple("xy")[: weights.shape[-2]]
        return [text.get_text() for text in draw(LabelledMap(weights, *labels, **settings)).texts]

    uniform = np.full((1, heads, 2, 4), 0.25)
    check_message(*notes(uniform))
    check_message(*notes(uniform, note="marks"))
    assert notes(uniform, quantity="gate value") == []
    assert notes(0.1 * uniform) == notes(uniform[..., :1]) == []
    uniform[0, -1, 1] = 0.4, 0.2, 0.2, 0.2
    assert notes(uniform) == []


def test_layers_of_one_head_are_columns_if_they_are_tall() -> None:
    *panels, _ = draw(picture(7, 3, layers=2)).axes
    assert [texts(panel) for panel in panels] == [["layer 1"], ["layer 2"]]
    assert panels[0].get_position().y1 == panels[1].get_position().y1
    assert [len(panel.get_yticklabels()) for panel in panels] == [7, 0]
    assert [len(panel.get_xticklabels()) for panel in panels] == [3, 3]
    first, second, _ = draw(picture(3, 3, layers=2)).axes
    assert first.get_position().y0 > second.get_position().y1


@pytest.mark.parametrize(
    ("largest", "ticks", "name"),
    [(1.0, [0, 0.5, 1], "weight"), (6.5, [0, 3.25, 6.5], "weight, up to the largest")],
)
def test_weights_above_one_have_a_scale_up_to_the_largest(
    largest: float, ticks: list[float], name: str
) -> None:
    weights = np.array([[0.5, largest]])
    bar = draw(LabelledMap.of(weights, column_labels="ab", row_labels="x")).axes[-1]
    assert bar.get_yticks().tolist() == ticks
    assert bar.get_ylabel() == name


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf"])
def test_saving_is_reproducible(name: str, tmp_path: Path) -> None:
    files = []
    for _ in range(2):
        save(picture(2, 3), tmp_path / name)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_svg_files_have_text_elements(tmp_path: Path) -> None:
    save(picture(2, 3), tmp_path / "a.svg")
    content = (tmp_path / "a.svg").read_text()
    assert all(f">{label}<" in content for label in ("source0", "source2", "target1", "weight"))


def test_other_suffixes_are_rejected_before_drawing(tmp_path: Path) -> None:
    with raises(UserError):
        save(picture(2, 3), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


def test_titles_show_blanks_and_special_characters():
    def title(text):
        what = LabelledMap.of(np.ones((1, 1)), column_labels=["a"], row_labels=["b"], title=text)
        return [each.get_text() for each in draw(what).texts]

    assert title("layer 2, head 3") == ["layer 2, head 3"]
    assert title(" a\u200d\u0301 ") == ["a\u200d\u0301"]
    assert title("") == title("  ") == []


def test_a_style_sets_title_names_and_width() -> None:
    labelled_map = LabelledMap.of(np.eye(2, 3), column_labels="abc", row_labels="xy", title="old")
    style = Style(title="new title", source_name="source", target_name="output", width=4.0)
    figure = draw(labelled_map, style=style)
    texts = {text.get_text(): text for text in figure.texts}
    assert set(texts) == {"new title", "source", "output"}
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert figure.get_tightbbox().width + 2 * MARGIN == pytest.approx(4, abs=0.05)
    for sizes in ({"width": 0.0}, {"width": 0.1}, {"width": 1e9}, {"dots": -1}, {"dots": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(sizes))} must be a number from 1"):
            Style(**sizes)
