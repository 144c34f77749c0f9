"""Encodings, recognised from the first bytes of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.files.encodings import UTF8, named, recognise
from regard.errors import UserError

GERMAN = "Können Sie das hören?\tCan you hear it?\nSchöne Grüße\tKind regards\nein Baum\ta tree\n"
GREEK = "θάλασσα;sea\nήλιος;sun\nκαλημέρα;good morning\n"
RUSSIAN = "привет\thello\nкак дела\thow are you\nхорошо\tgood\nмолоко\tmilk\n"
CZECH = "příliš\ttoo\nžluťoučký\tyellow\nkůň\thorse\nčtyři\tfour\n"
JAPANESE = "日本語の文章です\tJapanese\n東京に行きます\tTokyo\nカタカナ\tkana\n"
KOREAN = "안녕하세요\thello\n감사합니다\tthanks\n"
HEBREW = "שלום\tpeace\nתודה רבה\tthanks\n"
ARABIC = "مرحبا\thello\nشكرا\tthanks\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GERMAN, "cp1252"),
        (GREEK, "cp1253"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (CZECH, "cp1250"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "euc_kr"),
        (HEBREW, "cp1255"),
        (ARABIC, "cp1256"),
    ],
)
def test_words_tell_the_encoding(text, name):
    encoding = recognise((text * 20).encode(name), Path("words.tsv"))
    assert (text * 20).encode(name).decode(encoding.name) == text * 20
    assert not encoding.is_certain
    assert encoding.example in text


@pytest.mark.parametrize("text", [GERMAN, GREEK, JAPANESE])
@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_certain(text, name):
    encoding = recognise(text.encode(name), Path("words.tsv"))
    assert encoding.is_certain
    assert text.encode(name).decode(encoding.name).removeprefix("\ufeff") == text


def test_few_lines_of_another_encoding_do_not_decide():
    lines = [b"sister city"] * 99 + [b"sister\xf0city"]
    assert recognise(b"\n".join(lines), Path("trec")) == UTF8
    assert recognise("Käse\nsüß\n".encode() + "Öl\n".encode("cp1252"), Path("a")) == UTF8


def test_few_lines_beyond_ascii_decide_if_none_is_utf8():
    names = ["Größe", "Håvard", "Aïssi", "Peña", "Günther"]
    lines = [b"a name"] * 500 + [name.encode("cp1252") for name in names]
    encoding = recognise(b"\n".join(lines), Path("packages.csv"))
    assert (encoding.name, encoding.example) == ("cp1252", "Größe")
    assert recognise(b"\n".join([*lines, "Öl".encode()]), Path("packages.csv")) == UTF8


def test_bytes_without_words_are_rejected():
    content = b"\xff\xa4\xa4\xa4\xa4\n" * 20
    with pytest.raises(UserError, match=r"words.tsv: the encoding was not recognised: name it"):
        recognise(content, Path("words.tsv"))


def test_encodings_are_named_as_in_python():
    assert named("utf8") == named("UTF-8-sig") == UTF8
    assert named("windows-1253").name == "cp1253"
    for wrong in ("klingon", "hex", "a\0b"):
        with pytest.raises(UserError, match=r"data.encoding is .*expected a name such as"):
            named(wrong)
