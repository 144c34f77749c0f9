"""Names of the sides of pairs in a header: languages, their codes, and terms such as singular and
plural."""

from __future__ import annotations

import re

LANGUAGES = (
    "afrikaans albanian amharic arabic armenian azerbaijani basque belarusian bengali bulgarian "
    "burmese catalan chinese croatian czech danish dutch english esperanto estonian finnish french "
    "galician georgian german greek gujarati hausa hebrew hindi hungarian icelandic igbo "
    "indonesian "
    "irish italian japanese kannada kazakh khmer korean kurdish lao latin latvian lithuanian "
    "macedonian malay malayalam maltese maori marathi mongolian nepali norwegian persian polish "
    "portuguese punjabi quechua romanian russian sanskrit serbian slovak slovene slovenian somali "
    "spanish swahili swedish tagalog tamil telugu thai tibetan turkish ukrainian urdu uzbek "
    "vietnamese welsh xhosa yiddish yoruba zulu "
    "deutsch englisch französisch spanisch italienisch russisch türkisch niederländisch polnisch "
    "griechisch latein lateinisch chinesisch japanisch arabisch portugiesisch schwedisch dänisch "
    "tschechisch ungarisch français anglais allemand espagnol italien russe portugais español "
    "inglés alemán francés italiano inglese tedesco francese spagnolo português inglês alemão "
    "nederlands engels duits frans svenska engelska tyska dansk engelsk tysk norsk suomi englanti "
    "polski angielski niemiecki čeština angličtina němčina magyar angol német türkçe ingilizce "
    "almanca русский английский немецкий українська ελληνικά αγγλικά"
)
CODES = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id "
    "is it ja ka kk km kn ko ku la lt lv mk ml mn mr ms mt my nb ne nl nn no pa pl ps pt ro ru sa "
    "sk sl so sq sr sv sw ta te th tl tr uk ur uz vi xh yi yo zh zu "
    "afr ara ben bul cat ces cze chi cmn cym dan deu dut ell eng epo est eus fas fin fra fre ger "
    "gle glg gre heb hin hrv hun hye ind isl ita jpn kat kor lat lav lit mkd mlt mon msa nld nor "
    "per pol por ron rum rus slk slo slv spa sqi srp swa swe tam tel tgl tha tur ukr urd uzb vie "
    "zho zul"
)
"""Codes of languages (ISO 639)."""
TERMS = (
    "q a question answer singular plural term definition meaning translation translated original "
    "front back src trg tgt source target lang1 lang2 language1 language2 l1 l2 masculine feminine "
    "present past infinitive preterite grapheme phoneme graphemes phonemes spelling input output "
    "prompt response context reply"
)
SIDES = frozenset(f"{LANGUAGES} {TERMS}".split())
LANGUAGE_CODES = frozenset(CODES.split())
CODE = re.compile(r"([a-z]{2,3})([-_][a-z]{2,4})?", re.IGNORECASE)
"""Code of a language, with a country or a script."""


def is_side(cell: str) -> bool:
    """Return whether a cell is the name or the code of a language, or another side of a pair, apart
    from an addition in brackets."""
    return name_without_addition(cell) in SIDES or is_code(cell)


def name_without_addition(cell: str) -> str:
    """Return the name of a column in lower case, without an addition in brackets."""
    # A search for one character is fast in cells of a megabyte too.
    return re.split(r"[(\[]", cell, maxsplit=1)[0].strip().lower()


def is_code(cell: str) -> bool:
    """Return whether a cell is the code of a language."""
    match = CODE.fullmatch(cell)
    return match is not None and match[1].lower() in LANGUAGE_CODES
