"""Labels and numbers, from texts and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.examples import Pair
from regard.data.labels.targets import Labels, Standardiser, describe_unseen, from_json, to_json
from regard.errors import UserError
from tests.messages import check_message, raises


def pairs(*targets):
    return [Pair("text", target, line) for line, target in enumerate(targets, 1)]


def test_labels_are_numbered_in_order():
    labels = Labels.of(pairs("10", "b", "9", "a b", "b"))
    assert labels.names == ("9", "10", "a b", "b")
    assert labels.encode(pairs("b", "9")).tolist() == [3, 0]
    assert labels.decode(torch.tensor([[0.0, 1, 0, 0], [0, 0, 0, 1]])) == ["10", "b"]
    assert from_json(to_json(labels)) == labels


def test_a_label_that_was_not_trained_on_is_named():
    labels = Labels.of(pairs("a", "b"))
    with raises(UserError, "line 2"):
        labels.encode(pairs("a", "c"))
    with pytest.raises(UserError, match="all examples have the label 'a'"):
        Labels.of(pairs("a", "a"))


def test_labels_are_compared_in_nfc():
    labels = Labels.of(pairs("cafe\u0301", "café", "sen\u0303al", "señal"))
    assert labels.names == ("café", "señal")
    assert labels.encode(pairs("sen\u0303al", "caf\u00e9")).tolist() == [1, 0]
    assert labels.unseen(pairs("cafe\u0301", "caff")) == (Pair("text", "caff", 2),)


def test_messages_show_invisible_characters():
    labels = Labels.of(pairs("spam", "ham\u200b"))
    with raises(UserError):
        labels.encode(pairs("sp\xadam"))
    (line,) = describe_unseen(pairs("sp\xadam"), 1, "example counts as wrong")
    assert line.endswith(": sp\\u00adam")


def test_unseen_labels_are_described():
    examples = pairs("a", "c", "d", "c", "b")
    unseen = Labels.of(pairs("a", "b")).unseen(examples)
    assert unseen == (examples[1], examples[2], examples[3])
    check_message(*describe_unseen(unseen, 5, "examples count as wrong"))
    assert describe_unseen((), 5, "examples count as wrong") == ()
    (many,) = describe_unseen(pairs(*"abcdefg"), 7, "examples count as wrong")
    assert many.endswith("a, b, c, d, e and 2 more")


def test_numbers_are_standardised_and_restored():
    scale = Standardiser.of(pairs("1 7", "3 7"), standardised=True)
    np.testing.assert_allclose(scale.encode(pairs("1 7", "3 8")), [[-1, 0], [1, 1]])
    assert scale.decode(torch.tensor([[0.5, 0.25]])) == ["2.5 7.25"]
    assert from_json(to_json(scale)) == scale
    plain = Standardiser.of(pairs("1 7", "3 7"), standardised=False)
    assert plain.encode(pairs("1 7")).tolist() == [[1, 7]]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("x", "'x' is not a number"),
        ("1", "expected 2 finite numbers"),
        ("1 inf", "expected 2 finite"),
        ("1 1e39", r"expected targets from -1e\+37 to 1e\+37, got '1 1e39'"),
    ],
)
def test_invalid_numbers_are_named_with_their_line(target, said):
    with pytest.raises(UserError, match=f"line 2: .*{said}"):
        Standardiser.of(pairs("1 2", target), standardised=True)


@pytest.mark.parametrize("encode", [Labels(("a", "b")).encode, Standardiser((0.0,), (1.0,)).encode])
def test_invalid_targets_are_named_with_their_file(encode):
    with pytest.raises(UserError, match=r"^some\.csv, line 7: "):
        encode([Pair("text", "c", 7, "some.csv")])


def test_a_first_line_without_a_number_may_be_a_header():
    with raises(UserError, "line 1"):
        Standardiser.of([Pair("Artikel", "Preis", 1, "a.csv")], standardised=True)
    with raises(UserError, "--data.target-column"):
        Standardiser.of([Pair("Artikel", "Preis", 2, "a.csv")], standardised=True)
