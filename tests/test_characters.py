"""Characters that cannot be seen."""

import re
import sys
import unicodedata

import pytest

from regard.characters import (
    INVISIBLE,
    JOINERS,
    comparable,
    composed,
    invisible_in,
    is_blank_text,
    name_of,
    quoted,
    with_escapes,
)

UNSEEN = rf"[\s{INVISIBLE}{JOINERS}]"
FLAG = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct") + "\U000e007f"
JOINED = ["क\u200dष", "می\u200cخواهم", "❤\ufe0f", "葛\U000e0100", "ᠠ\u180eᠡ", FLAG, "ᄀ\u1160"]


@pytest.mark.parametrize(
    "character",
    [
        *("\xad", "\u200b", "\u200e", "\u200f", "\u2060", "\ufeff", "\u202a", "\u202e", "\u2066"),
        *("\u2069", "\u061c", "\u034f", "\u2063", "\u3164", "\uffa0", "\x08", "\x7f", "\x93"),
        *("\U000e0041", "\u17b4", "\ufff9", "\U0001d173"),
    ],
)
def test_a_character_without_width_is_found_and_escaped(character):
    assert list(invisible_in(f"ab{character}c")) == [character]
    number = ord(character)
    escape = f"\\x{number:02x}" if number < 128 else f"\\u{number:04x}"
    if number > 0xFFFF:
        escape = f"\\U{number:08x}"
    assert with_escapes(f"ab{character}c") == f"ab{escape}c"
    assert is_blank_text(f" {character} ")
    assert not is_blank_text(f"{character}.")


@pytest.mark.parametrize("text", [*JOINED, "naïve", "a\u00a0b", "मेला", "日本", "a\tb"])
def test_joiners_flags_and_white_space_are_not_reported(text):
    assert not list(invisible_in(text))
    assert with_escapes(text) == text
    assert not is_blank_text(text)


@pytest.mark.parametrize("text", ["", " ", "\u3000", "\u200d", "\u200b\ufe0f", "\u180e \u200c"])
def test_a_text_that_shows_nothing_is_blank_text(text):
    assert is_blank_text(text)


def test_every_format_character_is_a_joiner_invisible_or_drawn():
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    for number in range(sys.maxunicode + 1):
        if unicodedata.category(chr(number)) == "Cf" and number not in drawn:
            assert is_blank_text(chr(number)), hex(number)


def test_labels_are_composed_with_single_spaces():
    assert composed(" cafe\u0301  au\u00a0lait ") == "café au lait"


def test_comparable_texts_differ_in_nothing_that_is_seen():
    forms = ["Not sure", "not sure", "not\u00a0sure", "notsure", "not\u200b sure", "NOT SURE\u200d"]
    assert {comparable(form) for form in forms} == {"notsure"}
    quotes, hyphens = '“a” "a" „a“ «a»', "e\u2011mail e-mail e\u2013mail"
    for forms in ("ＡＢ１ ab1", "it’s it's", quotes, hyphens, "İyi iyi", "ISI ısı"):
        assert len({*map(comparable, forms.split())}) == 1, forms
    assert comparable("cafe\u0301") == comparable("CAFÉ") != comparable("cafe")


def test_names_and_quotes_show_escapes():
    assert name_of("\xad") == "\\u00ad (soft hyphen)"
    assert name_of("\x93") == "\\u0093"
    assert quoted("fo\u200bo\tbar", 5) == "'fo\\u200bo\\t'"
    assert quoted("l'eau", 40) == '"l\'eau"'


def test_the_first_character_of_a_blank_text_decides_as_the_whole_text_does():
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        assert is_blank_text(character) == (re.fullmatch(UNSEEN, character) is not None)


def test_nul_is_an_escape_in_messages():
    assert with_escapes("a\0b") == r"a\x00b"
