"""BPE-dropout (Provilkov et al. 2020): training texts are split into other subwords in each epoch.

Algorithm 1 of the paper, for one word:

    pieces <- characters
    repeat
        candidates <- neighbours that the tokenizer can merge, each left out with probability p
        merge the candidate that was learned first; of equal candidates, the leftmost
    until there are no candidates

With p = 0 the pieces are those of the tokenizer, with p = 1 characters. The library's own dropout
has no seed, so a resumed run would differ from an uninterrupted one. Words are read from the
numbers of the tokenizer's pieces, so texts are not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from random import Random

from regard.data.special_tokens import UNKNOWN
from regard.data.text.features import FeatureTokenizer
from regard.data.text.segmentation import at_words
from regard.data.text.tokenizer import Tokenizer


class BpeDropout:
    """Random splits of texts into the pieces of a tokenizer."""

    def __init__(self, tokenizer: Tokenizer | FeatureTokenizer, probability: float) -> None:
        """`probability` is that of leaving a merge out. ValueError for a tokenizer that is not
        bpe."""
        text = tokenizer.text if isinstance(tokenizer, FeatureTokenizer) else tokenizer
        if text.settings.kind != "bpe":
            raise ValueError(f"tokenizer is {text.settings.kind}: expected bpe, which has merges")
        self.probability = probability
        self._pieces = text.vocabulary
        self._numbers = {piece: number for number, piece in enumerate(text.vocabulary)}
        merges = json.loads(text.to_json())["tokenizer"]["model"]["merges"]
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        self._split = at_words()

    def resample(self, ids: Sequence[int], random: Random) -> list[int]:
        """Return other numbers for the text of these numbers. Special tokens, <unk> and features
        stay where they are."""
        resampled: list[int] = []
        for is_text, numbers in groupby(ids, self._is_piece):
            if is_text:
                for word in self._words(numbers):
                    pieces = self.split(word, random)
                    resampled.extend(self._numbers[piece] for piece in pieces)
            else:
                resampled.extend(numbers)
        return resampled

    def split(self, word: str, random: Random) -> list[str]:
        """Split a word by algorithm 1. The word has its mark, as the pieces of the vocabulary."""
        pieces, ranks, dropout = list(word), self._ranks, self.probability
        while True:
            best = place = len(ranks)
            for left, pair in enumerate(pairwise(pieces)):
                rank = ranks.get(pair)
                if rank is None or random.random() < dropout:
                    continue
                if rank < best:
                    best, place = rank, left
            if best == len(ranks):
                return pieces
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]

    def _is_piece(self, number: int) -> bool:
        return UNKNOWN < number < len(self._pieces)

    def _words(self, numbers: Iterator[int]) -> Iterator[str]:
        """Yield the words of a text: merges join letters of one word only."""
        text = "".join(self._pieces[number] for number in numbers)
        return (word for word, _ in self._split.pre_tokenize_str(text))
