"""Replacement of <unk> in translations by the source word with the largest attention weight.

Jean et al. 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation", section
4.2, and Luong et al. 2015, "Addressing the Rare Word Problem": the source word is translated with a
lexicon, or copied if the lexicon does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard import trace
from regard.config import SearchConfig
from regard.data.files.lines import NOTES
from regard.data.text.features import SEPARATOR
from regard.errors import UserError
from regard.tasks.translation.encoding import Tokenizers
from regard.trace import AttentionMap


@dataclass(frozen=True)
class UnknownReplacement:
    """Decoding of targets without <unk>. If the target's tokens are words, a whole source word
    replaces <unk>; otherwise one source piece does, as in a name that is spelled."""

    tokenizers: Tokenizers
    lexicon: Mapping[str, str]

    @classmethod
    def of(cls, search: SearchConfig, tokenizers: Tokenizers) -> UnknownReplacement:
        """Return the replacement of a search. UserError if the lexicon cannot be read."""
        lexicon = read_lexicon(search.lexicon) if search.lexicon else {}
        return cls(tokenizers, lexicon)

    def is_needed(self, tokens: Sequence[int]) -> bool:
        """Return whether a target has <unk>."""
        return any(map(self.tokenizers.target.is_unknown, tokens))

    def text(
        self, tokens: Sequence[int], read: trace.TokenSequence, maps: tuple[AttentionMap, ...]
    ) -> str:
        """Return the text of target tokens whose attention on the source `read` is in `maps`."""
        target = self.tokenizers.target
        source = self._source(read)
        best = cross_weights(maps)[:, : len(source)].argmax(axis=1)  # without END
        places = [
            place for token, place in zip(tokens, best, strict=True) if target.is_unknown(token)
        ]
        words = [target.normalise(self._translated(source[place][0])) for place in places]
        return target.decode(tokens, words, [source[place][1] for place in places])

    def _translated(self, word: str) -> str:
        return self.lexicon.get(word) or self.lexicon.get(word.lower(), word)

    def _source(self, read: trace.TokenSequence) -> list[tuple[str, bool]]:
        """Return the text that each source piece contributes, which is the piece, or its whole
        word, and whether it is after a space."""
        tokenizer = self.tokenizers.source
        parts = tokenizer.spaced_in(read.text)
        pieces = [each for each in parts if not each[0].startswith(SEPARATOR)]
        if not self.tokenizers.target.cuts_words:
            return pieces
        texts: list[tuple[str, bool]] = []
        for _, group in groupby(zip(read.words, pieces, strict=False), lambda pair: pair[0]):
            parts = [part for _, part in group]
            is_spaced = parts[0][1] or not texts
            texts += [("".join(part for part, _ in parts), is_spaced)] * len(parts)
        return texts


def cross_weights(maps: tuple[AttentionMap, ...]) -> Float[np.ndarray, "target source"]:
    """Return the attention weights on the source: the mean over the heads of the last layer, and
    over the models of an ensemble."""
    cross = trace.of_kind(maps, "cross")
    return np.mean([block.weights[-1].mean(axis=0) for block in cross], axis=0)


def read_lexicon(path: Path) -> Mapping[str, str]:
    """Return the target of each source word, the first one in the file. UserError for a line that
    is no pair."""
    try:
        return _read_lexicon(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"cannot read the lexicon {path}: {error.strerror}") from error


@lru_cache(maxsize=4)
def _read_lexicon(path: Path, _changed: int) -> Mapping[str, str]:
    """Read a file that is cached until it changes, because texts come in many small batches."""
    from regard.data.text.parallel import read_pairs

    corpus = read_pairs(path)
    changed = ("byte-order mark", *NOTES)
    unusable = [problem for problem in corpus.problems if problem.kind not in changed]
    if unusable:
        first = unusable[0]
        raise UserError(
            f"{path}, line {first.line}: expected source word TAB target word, got {first.text!r}"
        )
    return {pair.source: pair.target for pair in reversed(corpus.pairs)}
