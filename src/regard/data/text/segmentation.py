"""Reversible splitting of text into words.

A word that follows a space, or begins a text, carries the mark ▁:

    don't stop!  ->  ▁don ' t ▁stop !

Written one after the other, with a space for each mark, the words are the text again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from regard.data.special_tokens import SPECIAL
from regard.errors import UserError, install_command

MARK = "▁"

# A text may hold the mark or the name of a special token. Kept apart under characters of the
# private use area, it means nothing to a tokenizer and comes back as it was.
_APART = {"\ue581": MARK, "\ue03c": "<"}

# A run of letters, combining marks, digits and joiners; or one other symbol with the marks on it.
_WORD = rf"{MARK}?[\w\x{{200c}}\x{{200d}}]+|{MARK}?[^\w\s{MARK}]\p{{M}}*"


def normaliser(*, lowercase: bool) -> normalizers.Normalizer:
    """Return a normaliser to NFC and single spaces, and to lower case if set. `plain` reverses the
    replacements of special characters."""
    names = "|".join(name.strip("<>") for name in SPECIAL)
    mark, angle = _APART
    return normalizers.Sequence(
        [
            normalizers.NFC(),
            *([normalizers.Lowercase(), normalizers.NFC()] if lowercase else []),
            normalizers.Replace(MARK, mark),
            normalizers.Replace(Regex(f"<(?=(?:{names})>)"), angle),
            normalizers.Replace(Regex(r"[\s\x1c-\x1f]+"), " "),
            normalizers.Strip(),
        ]
    )


def plain(piece: str) -> str:
    """Return a piece with the characters of the text that the normaliser replaced."""
    for apart, meant in _APART.items():
        piece = piece.replace(apart, meant)
    return piece


def at_spaces() -> pre_tokenizers.PreTokenizer:
    """Split at spaces, without marks."""
    return pre_tokenizers.WhitespaceSplit()


def to_words(*, first_marked: bool = True) -> pre_tokenizers.PreTokenizer:
    """Split into runs of letters and digits, and single symbols."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(MARK, "always" if first_marked else "never", split=False),
            at_words(),
        ]
    )


def at_words() -> pre_tokenizers.PreTokenizer:
    """Split text that already has marks."""
    return pre_tokenizers.Split(Regex(_WORD), "isolated")


def to_characters() -> pre_tokenizers.PreTokenizer:
    """Split into characters; the mark is a character and stands for a space."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(MARK, "never", split=False),
            pre_tokenizers.Split(Regex("."), "isolated"),
        ]
    )


def to_text(*, spaced: bool) -> decoders.Decoder:
    """Return a decoder from pieces to text for the library's own tokenizers. Pieces are separated
    by spaces, or only by their marks."""
    apart = [decoders.Replace(*pair) for pair in _APART.items()]
    if spaced:
        # No piece begins with a line end, so that a space is put before every one.
        return decoders.Sequence([decoders.WordPiece(prefix="\n", cleanup=False), *apart])
    # decoders.Strip, which would be the word for it, breaks off where there is no text.
    strip = decoders.Replace(Regex(r"^ +| +$"), "")
    return decoders.Sequence([decoders.Replace(MARK, " "), decoders.Fuse(), strip, *apart])


@cache
def by_spacy(language: str) -> Callable[[str], list[str]]:
    """Split normalised text by spaCy's rules for a language, which need no download.

    UserError if spaCy, the language, or a package that spaCy needs for it is missing."""
    try:
        import spacy
    except ImportError as error:
        raise UserError(f"spaCy is not installed: {install_command('spacy')}") from error
    try:
        rules = spacy.blank(language).tokenizer
    except ImportError as error:  # spaCy raises it for an unknown language too
        raise UserError(f"spaCy cannot tokenize {language!r}: {error}") from error

    def cut(text: str) -> list[str]:
        words, mark = [], MARK
        for token in rules(text):
            words.append(mark + token.text)
            mark = MARK if token.whitespace_ else ""
        return words

    return cut
