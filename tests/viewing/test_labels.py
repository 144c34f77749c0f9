"""Labels of maps, and the choice of the map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regard.errors import UserError
from regard.trace import AttentionMap, TokenSequence, Trace
from regard.viewing.labels import LONGEST, LabelledMap, labelled, short, visible
from tests.messages import raises

TRACE = Trace(
    source=TokenSequence("a b c", ("a", "b", "c"), (0, 1, 2), "ja"),
    target=TokenSequence("x y", ("x", "y"), (0, 1), "de"),
    attention=(
        AttentionMap("cross", np.arange(36.0).reshape(2, 3, 2, 3)),
        AttentionMap("encoder", np.ones((1, 1, 3, 3))),
        AttentionMap("decoder", np.ones((1, 1, 2, 2))),
        AttentionMap("image", np.ones((1, 1, 2, 5))),
    ),
)


def test_a_part_is_named_in_the_title():
    weights = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5) / 120
    every = LabelledMap(weights, tuple("abcde"), tuple("wxyz"), "decoder")
    panel = every.part(2, 3)
    assert panel.title == "decoder, layer 2, head 3"
    np.testing.assert_array_equal(panel.weights, weights[1:, 2:])
    heads = replace(every, title="").part(layer=1)
    assert heads.title == "layer 1"
    np.testing.assert_array_equal(heads.weights, weights[:1])
    assert np.array_equal(every.part().weights, weights)
    for number, there in ((0, "layer 0: expected 1 to 2"), (3, "layer 3: expected 1 to 2")):
        with pytest.raises(UserError, match=there):
            every.part(layer=number)
    with pytest.raises(UserError, match="head 4: expected 1 to 3"):
        every.part(head=4)


def test_rows_are_targets_and_columns_are_sources() -> None:
    cross = LabelledMap.of_trace(TRACE)
    assert (cross.column_labels, cross.row_labels) == (("a", "b", "c"), ("x", "y"))
    assert cross.languages == ("ja", "de")
    assert labelled(TRACE).column_labels == cross.column_labels
    assert labelled(cross) is cross
    assert LabelledMap.of_trace(TRACE, "encoder").row_labels == ("a", "b", "c")
    assert LabelledMap.of_trace(TRACE, "decoder").column_labels == ("<sos>", "x")
    assert LabelledMap.of_trace(TRACE, "image").column_labels == ("1", "2", "3", "4", "5")


def test_gradients_and_gate_values_are_not_called_weights() -> None:
    maps = [
        AttentionMap("cross", np.ones((1, 1, 2, 3))),
        AttentionMap("gradient", np.ones((1, 1, 2, 3))),
        AttentionMap("decoder_experts", np.ones((1, 1, 2, 5))),
    ]
    trace = replace(TRACE, attention=tuple(maps))
    quantities = [LabelledMap.of_trace(trace, each.kind).quantity for each in maps]
    assert quantities == ["weight", "share of gradient", "gate value"]


def test_memories_of_one_model_are_columns_of_one_map() -> None:
    def looks(number, size):
        return AttentionMap("memory", np.full((1, 1, 2, size), number))

    beside = TRACE.attention[0], looks(0.1, 3), looks(0.2, 2)
    own = TRACE.attention[0], looks(0.3, 7)
    result = LabelledMap.of_trace(replace(TRACE, attention=beside + own), "memory")
    assert result.column_labels == ("1", "2", "3", "1", "2")
    assert result.row_labels == ("x", "y")
    np.testing.assert_allclose(result.weights[0, 0], [[0.1, 0.1, 0.1, 0.2, 0.2]] * 2)
    with raises(ValueError):
        LabelledMap.of_trace(replace(TRACE, attention=own[:1]), "memory")


def test_pieces_of_a_word_are_averaged_to_one_row() -> None:
    target = TokenSequence(
        "a dog a", ("▁a", "▁do", "g", "▁", "a", "<eos>"), (0, 1, 1, 2, 2, 3), "en"
    )
    weights = np.arange(24.0).reshape(2, 1, 6, 2)
    trace = Trace(TRACE.source, target, (AttentionMap("image", weights),))
    result = LabelledMap.of_words(trace, "image")
    assert result.row_labels == ("a", "dog", "a", "<eos>")
    expected = np.stack(
        [
            weights[:, :, 0],
            weights[:, :, 1:3].mean(2),
            weights[:, :, 3:5].mean(2),
            weights[:, :, 5],
        ],
        axis=2,
    )
    np.testing.assert_allclose(result.weights, expected)
    whole = LabelledMap.of_words(TRACE)
    assert whole.row_labels == ("x", "y")
    np.testing.assert_array_equal(whole.weights, LabelledMap.of_trace(TRACE).weights)


def test_panel_titles_name_layers_or_heads_if_there_are_several() -> None:
    cross = LabelledMap.of_trace(TRACE)
    names = [name for name, _ in cross.panels()]
    assert names[0] == "layer 1, head 1"
    assert names[-1] == "layer 2, head 3"
    np.testing.assert_array_equal(dict(cross.panels())["layer 2, head 1"], cross.weights[1, 0])
    (only,) = cross.averaged().panels()
    assert only[0] == ""
    np.testing.assert_allclose(only[1], np.arange(15.0, 21.0).reshape(2, 3))


def test_the_number_of_labels_must_match_the_positions() -> None:
    weights = np.ones((2, 3))
    with raises(ValueError):
        LabelledMap.of(weights, column_labels=["x", "y"], row_labels=["a", "b", "c"])
    with pytest.raises(ValueError, match="positions to draw"):
        LabelledMap.of(weights[:0], column_labels=["a", "b", "c"], row_labels=[])


@pytest.mark.parametrize(
    ("piece", "seen"),
    [
        ("word", "word"),
        (" ", "␣"),
        ("", "∅"),
        ("a\tb", "a⇥b"),
        ("\x07", "\\x07"),
        ("\u0301", "◌\u0301"),
        ("क\u200dष", "क\u200dष"),
        ("\u200d", "\\u200d"),
        ("\u200c\u200b", "\\u200c\\u200b"),
        ("би\xadнон", "би\\u00adнон"),
        ("a\u200eb\u200dc", "a\\u200eb\u200dc"),
        ("▁", "␣"),
        ("▁the", "␣the"),
        ("\u00a0", "␣"),
    ],
)
def test_invisible_pieces_have_visible_labels(piece: str, seen: str) -> None:
    assert visible(piece) == seen


def test_long_pieces_are_shortened() -> None:
    assert short("x" * LONGEST) == "x" * LONGEST
    assert short("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"


def test_the_labels_are_typed_texts_and_a_note_explains_the_mark() -> None:
    source = TokenSequence("A Bc c", ("a", "<unk>", "c"), (0, 1, 2), "en", ("A", "Bc", "c"))
    cross = LabelledMap.of_trace(replace(TRACE, source=source))
    assert cross.column_labels == ("A", "Bc*", "c")
    assert cross.note == "* unknown to the model"
    assert LabelledMap.of_trace(TRACE).note == ""
    assert LabelledMap.of_trace(replace(TRACE, source=source), "encoder").row_labels[1] == "Bc*"
