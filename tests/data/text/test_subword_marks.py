"""Texts that were split into subwords before."""

from __future__ import annotations

import pytest

from regard.data.text.subword_marks import joined, marks_of


@pytest.mark.parametrize(
    ("texts", "marks", "words"),
    [
        (["the lam@@ p is on", "a c@@ a@@ t"], "@@", ["the lamp is on", "a cat"]),
        (["▁the ▁lam p ▁is", "▁a ▁c a t"], "▁", ["the lamp is", "a cat"]),
        (["the lamp", "mail me @@ home"], None, ["the lamp", "mail me @@ home"]),
        (["▁word", "▁other"], None, ["▁word", "▁other"]),
        ([], None, []),
    ],
)
def test_pieces_are_joined_to_words(texts, marks, words):
    assert marks_of(texts) == marks
    assert [joined(text, marks) for text in texts] == words
