"""Texts that were split into subwords before."""

from __future__ import annotations

import pytest

from regard.data.text.subword_marks import joined, marks_in, marks_of


@pytest.mark.parametrize(
    ("texts", "marks", "words"),
    [
        (["the lam@@ p is on", "a c@@ a@@ t"], "@@", ["the lamp is on", "a cat"]),
        (["▁the ▁lam p ▁is", "▁a ▁c a t"], "▁", ["the lamp is", "a cat"]),
        (["the lam ##p ##s is on", "a c ##at"], "##", ["the lamps is on", "a cat"]),
        (["the lam￭ p is on ￭!", "a c ￭at￭ ￭."], "￭", ["the lamp is on!", "a cat."]),
        (["the lamp ## one", "C ## D"], None, ["the lamp ## one", "C ## D"]),
        (["the lamp", "mail me @@ home"], None, ["the lamp", "mail me @@ home"]),
        (["▁word", "▁other"], None, ["▁word", "▁other"]),
        ([], None, []),
    ],
)
def test_pieces_are_joined_to_words(texts, marks, words):
    assert marks_of(texts) == marks
    assert [joined(text, marks) for text in texts] == words


@pytest.mark.parametrize("text", ["a lam@@ p", "▁a ▁lam p", "a lam ##p", "a lam￭ p", "a lamp"])
def test_the_marks_of_one_text_are_recognised(text):
    assert joined(text, marks_in(text)) == "a lamp"
