"""What a tokenizer is to be: how it cuts, and which pieces it knows."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.special_tokens import SPECIAL, UNKNOWN
from regard.errors import UserError
from regard.names import TokenizerKind

SUBWORDS: tuple[TokenizerKind, ...] = ("bpe", "unigram")
SUBWORD_SIZE = 8000


@dataclass(frozen=True)
class TokenizerSettings:
    """How text is cut and which pieces are known."""

    kind: TokenizerKind = "words"
    """`words` (runs of letters and digits, other symbols one by one), `spaces` (text that is cut
    already), `characters`, `bpe` and `unigram` (subwords), `spacy` (its rules for `language`)."""
    language: str = "en"
    """The language code that spaCy goes by."""
    lowercase: bool = False
    """Lower-case all text."""
    min_count: int = 1
    """Pieces that occur less often are unknown. BPE joins pairs that occur as often, and at least
    twice; unigram subwords do not count."""
    size: int | None = None
    """The largest vocabulary, special tokens included; None keeps every word, and 8000 subwords."""
    vocabulary: tuple[str, ...] | None = None
    """The pieces in their order, special tokens left out, instead of learning them: as
    `Tokenizer.vocabulary` shows them, with ▁ except for `spaces`. Not for subwords."""
    unknown: bool = True
    """Whether there is an <unk>. Without it an unknown piece is a UserError. Subwords need it."""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            raise UserError(f"min_count is {self.min_count}: expected at least 1")
        if self.size is not None and self.size <= len(SPECIAL):
            raise UserError(f"size is {self.size}: expected more than the special tokens")
        if self.kind in SUBWORDS and not (self.vocabulary is None and self.unknown):
            raise UserError(
                f"{self.kind} learns its own vocabulary, with an <unk>: take words, spaces, "
                "characters or spacy where the vocabulary is given"
            )

    @property
    def special(self) -> tuple[str, ...]:
        """The special tokens in front of the vocabulary."""
        return SPECIAL if self.unknown else SPECIAL[:UNKNOWN]
