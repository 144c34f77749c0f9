"""Settings of a tokenizer: how it splits text, and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.special_tokens import SPECIAL, UNKNOWN
from regard.errors import UserError
from regard.names import TokenizerKind

SUBWORDS: tuple[TokenizerKind, ...] = ("bpe", "unigram")
SUBWORD_SIZE = 8000


@dataclass(frozen=True)
class TokenizerSettings:
    """Settings of a tokenizer."""

    kind: TokenizerKind = "words"
    """`words` (runs of letters and digits, and single symbols), `spaces` (text that is already
    tokenized), `characters`, `bpe` and `unigram` (subwords), `spacy` (its rules for `language`)."""
    language: str = "en"
    """Language code for spaCy."""
    lowercase: bool = False
    """Lower-case all text."""
    min_count: int = 1
    """Least number of occurrences of a piece; rarer pieces are unknown. BPE joins pairs with at
    least this many occurrences, and at least two; unigram subwords ignore it."""
    size: int | None = None
    """Largest size of the vocabulary with special tokens. None means all words, or 8000
    subwords."""
    vocabulary: tuple[str, ...] | None = None
    """Pieces in order, without special tokens, instead of a learned vocabulary. They are written as
    in `Tokenizer.vocabulary`, with ▁ except for `spaces`. Not for subwords."""
    unknown: bool = True
    """Whether the vocabulary has <unk>. Without it an unknown piece is a UserError. Subwords need
    it."""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise UserError(f"min_count is {self.min_count}: expected at least 1")
        if self.size is not None and self.size <= len(SPECIAL):
            raise UserError(f"size is {self.size}: expected more than the special tokens")
        if self.kind in SUBWORDS and not (self.vocabulary is None and self.unknown):
            raise UserError(
                f"{self.kind} learns its own vocabulary, with <unk>: use words, spaces, characters "
                "or spacy with a given vocabulary"
            )

    @property
    def special(self) -> tuple[str, ...]:
        """Special tokens at the beginning of the vocabulary."""
        return SPECIAL if self.unknown else SPECIAL[:UNKNOWN]
