"""What to write for a word that a vocabulary has not: the word that it looked at in the source.

Jean et al. 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation", section
4.2, and Luong et al. 2015, "Addressing the Rare Word Problem": a word that was most attended to is
looked up in a dictionary, and copied as it is where the dictionary has it not.
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
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from regard.tasks.translation.encoding import Tokenizers
from regard.trace import AttentionMap


@dataclass(frozen=True)
class UnknownReplacement:
    """Writes texts without <unk>. Where the target is cut to words each becomes a word of the
    source, else what one piece of the source stands for, as in a name that is spelled."""

    tokenizers: Tokenizers
    lexicon: Mapping[str, str]

    @classmethod
    def of(cls, search: SearchConfig, tokenizers: Tokenizers) -> UnknownReplacement:
        """UserError where the lexicon cannot be read."""
        lexicon = read_lexicon(search.lexicon) if search.lexicon else {}
        return cls(tokenizers, lexicon)

    def is_needed(self, tokens: Sequence[int]) -> bool:
        return any(map(self.tokenizers.target.is_unknown, tokens))

    def text(
        self, tokens: Sequence[int], read: trace.TokenSequence, maps: tuple[AttentionMap, ...]
    ) -> str:
        """The text of these tokens, which looked so at the source that was read."""
        target = self.tokenizers.target
        source = self._source(read)
        most = attended(maps)[:, : len(source)].argmax(axis=1)  # the end is nothing to write
        instead = [
            target.normalise(self._look_up(source[place]))
            for token, place in zip(tokens, most, strict=True)
            if target.is_unknown(token)
        ]
        return target.decode(tokens, instead)

    def _look_up(self, word: str) -> str:
        return self.lexicon.get(word) or self.lexicon.get(word.lower(), word)

    def _source(self, read: trace.TokenSequence) -> list[str]:
        """What each piece of the source brings: itself, or the whole word that it is of."""
        found = self.tokenizers.source.found_in(read.text)
        if not self.tokenizers.target.cuts_words:
            return list(found)
        brought = []
        for _, group in groupby(zip(read.words, found, strict=False), lambda each: each[0]):
            parts = [part for _, part in group]
            brought += ["".join(parts)] * len(parts)
        return brought


def attended(maps: tuple[AttentionMap, ...]) -> Float[np.ndarray, "target source"]:
    """How much each token looked at each of the source: the mean of the heads of the last layer,
    and, where several models wrote together, of them."""
    return np.mean([each.weights[-1].mean(axis=0) for each in trace.of_kind(maps, "cross")], axis=0)


def read_lexicon(path: Path) -> Mapping[str, str]:
    """Of each source word its target: the first that the file has. UserError for a line that is no
    pair."""
    try:
        return _read_lexicon(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"cannot read the lexicon {path}: {error.strerror}") from error


@lru_cache(maxsize=4)
def _read_lexicon(path: Path, _changed: int) -> Mapping[str, str]:
    """Read once for as long as the file stays the same: texts come in many small parts."""
    corpus = read_pairs(path)
    unusable = [each for each in corpus.problems if each.kind != "byte-order mark"]
    if unusable:
        first = unusable[0]
        raise UserError(
            f"{path}, line {first.line}: expected a source word, a tab and a target word, but "
            f"{first.text!r} came"
        )
    return {pair.source: pair.target for pair in reversed(corpus.pairs)}
