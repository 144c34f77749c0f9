"""Maps as text: what a person would see in a terminal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from regard.viewing import terminal
from regard.viewing.colours import hexadecimal
from regard.viewing.labels import LabelledMap
from tests.messages import check_message

SMALL = LabelledMap.of(
    np.array([[1.0, 0.0], [0.35, 0.65]]),
    column_labels=["she", "kissed"],
    row_labels=["sie", "küsste"],
)


def plain(what: LabelledMap, width: int = 80) -> list[str]:
    return terminal.draw(what, width=width).plain.split("\n")


def test_small_maps_have_blocks_with_per_cents() -> None:
    assert plain(SMALL) == [
        "        she   kissed",
        "   sie  ██100 ·",
        "küsste  ▒▒ 35 ▓▓ 65",
    ]


def test_narrow_columns_have_vertical_words() -> None:
    assert plain(SMALL, width=13) == [
        "         k",
        "         i",
        "         s",
        "      s  s",
        "      h  e",
        "      e  d",
        " sie  ██ ·",
        "küs…  ▒▒ ▓▓",
    ]


def test_columns_beyond_the_width_are_drawn_below() -> None:
    many = LabelledMap.of(np.eye(2, 17), column_labels="abcdefghijklmnopq", row_labels=["x", "y"])
    lines = plain(many, width=20)
    letters = "".join(line for line in lines if "·" not in line)
    assert letters.replace(" ", "") == "abcdefghijklmnopq"
    assert sum(line.count("█") for line in lines) == 2


def test_painted_cells_have_the_colours_of_figures() -> None:
    text = terminal.draw(SMALL, cell=terminal.painted)
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans}
    assert styles["100"].endswith(f"on {hexadecimal(1.0)}")
    assert styles["35"].endswith(f"on {hexadecimal(0.35)}")
    assert styles[""].endswith("on #ffffff")


def test_heads_are_drawn_in_order_with_titles() -> None:
    heads = LabelledMap(np.ones((1, 2, 1, 1)), ("a",), ("x",), title="after 3 epochs")
    assert plain(heads) == [
        "after 3 epochs", "", "head 1", "   a", "x  ██100", "", "head 2", "   a", "x  ██100",
    ]  # fmt: skip


def test_right_to_left_words_keep_the_line_order() -> None:
    line = plain(LabelledMap.of(np.ones((1, 1)), column_labels=["a"], row_labels=["שלום"]))[1]
    assert line.startswith("\u200eשלום\u200e ")
    assert cell_len(line) == 4 + 1 + 6


LABELS = st.lists(st.text("ab 猫가ن\u0301\u200d\tש", max_size=17), min_size=1, max_size=23)


@settings(max_examples=25, deadline=None)
@given(LABELS, LABELS, st.integers(17, 97), st.sampled_from([terminal.shaded, terminal.painted]))
@example([""] * 5, ["\u200d\u200d猫猫猫"], 17, terminal.shaded)
def test_lines_fit_the_width_and_none_is_lost(
    column_labels: list[str], row_labels: list[str], width: int, cell: terminal.Cell
) -> None:
    weights = np.random.default_rng(0).random((len(row_labels), len(column_labels)))
    text = terminal.draw(
        LabelledMap.of(weights, column_labels=column_labels, row_labels=row_labels),
        width=width,
        cell=cell,
    )
    lines = text.plain.split("\n")
    assert max(map(cell_len, lines)) <= width
    assert len(lines) > len(row_labels)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 23), st.integers(1, 23), st.integers(11, 97))
def test_every_weight_is_shown_once(row_labels: int, column_labels: int, width: int) -> None:
    weights = np.full((row_labels, column_labels), 0.9)
    labels = LabelledMap.of(
        weights, column_labels=["a"] * column_labels, row_labels=["b"] * row_labels
    )
    lines = "\n".join(plain(labels, width)).replace("90", "█")
    runs = sum(len([run for run in line.split() if "█" in run]) for line in lines.split("\n"))
    assert runs in (row_labels * column_labels, 2 * row_labels * column_labels)


@pytest.mark.parametrize(
    ("weight", "columns", "cell"),
    [
        (0.0, 6, " ·    "),
        (0.05, 6, " ░░  5"),
        (0.299, 3, " ░░"),
        (0.3, 3, " ▒▒"),
        (0.55, 2, " ▓"),
        (0.8, 1, "█"),
        (1.0, 7, " ██100 "),
        (0.1, 9, " ░░ 10   "),
    ],
)
def test_shades_rise_with_the_weight(weight: float, columns: int, cell: str) -> None:
    assert terminal.shaded(weight, columns)[0] == cell


def test_gradients_and_weights_above_one_are_in_per_cent_of_the_largest() -> None:
    for largest, is_scaled in ((0.25, True), (5.0, False)):
        weights = np.array([[[[largest, largest / 2]]]])
        scaled = LabelledMap(weights, ("a", "b"), ("x",), is_scaled=is_scaled)
        assert "█100 ▒▒ 50" in terminal.draw(scaled).plain
        legend = terminal.legend(scale=scaled.scale).plain
        assert legend.startswith(f"weight in per cent of the largest ({largest:g}):")


def test_the_legend_explains_every_cell_within_the_width() -> None:
    legend = terminal.legend().plain
    check_message(legend)
    for width in (23, 40, 80):
        for cell in (terminal.shaded, terminal.painted):
            lines = terminal.legend(width=width, cell=cell, scale=0.25).plain.split("\n")
            assert max(map(cell_len, lines)) <= width
    painted = terminal.legend(cell=terminal.painted)
    assert painted.plain.split()[-5:] == ["0", "25", "50", "75", "100"]
    assert str(painted.spans[-1].style).endswith(f"on {hexadecimal(1.0)}")
