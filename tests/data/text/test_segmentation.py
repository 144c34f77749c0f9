"""The parts of cutting, one by one."""

from __future__ import annotations

import pytest

from regard.data.text.segmentation import (
    at_spaces,
    by_spacy,
    normaliser,
    plain,
    to_characters,
    to_words,
)


@pytest.mark.parametrize("text", ["▁", "a▁b", "<eos>", "x<pad>y<unk>", "<<sos>>", "<s>", "< eos>"])
def test_protected_characters_are_separate_and_restored(text: str) -> None:
    apart = normaliser(lowercase=False).normalize_str(text)
    assert "▁" not in apart
    assert not any(name in apart for name in ("<pad>", "<sos>", "<eos>", "<unk>"))
    assert plain(apart) == text


def test_lower_cased_special_tokens_are_separate() -> None:
    assert "<eos>" not in normaliser(lowercase=True).normalize_str("<EOS>")


def test_segmentations_equal_examples() -> None:
    def cut(cutter: object, text: str) -> list[str]:
        return [piece for piece, _ in cutter.pre_tokenize_str(text)]

    assert cut(at_spaces(), "it's 5 .") == ["it's", "5", "."]
    assert cut(to_words(), "it's 5 .") == ["▁it", "'", "s", "▁5", "▁."]
    assert cut(to_words(first_marked=False), "it 5") == ["it", "▁5"]
    assert cut(to_characters(), "it 5") == ["i", "t", "▁", "5"]
    assert by_spacy("en")("it's 5 .") == ["▁it", "'s", "▁5", "▁."]
