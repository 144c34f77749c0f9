"""Dictionaries of pronunciations."""

from __future__ import annotations

import pytest

from regard.data.files.tables import TableSettings
from regard.data.recognition.dictionaries import Dictionary, dictionary_of, entry
from regard.data.recognition.formats import recognise
from regard.data.recognition.inspection import inspect
from regard.data.text.parallel import read_pairs
from regard.errors import UserError
from tests.messages import check_message

NAMES = "BABET BABIT BADEN BADER BAKER BALER CABOT CARET DAKER LADEN LATER RABAT TABER TAKER"
WORDS = NAMES.split()
SYMBOLS = "AE1 B K D EH1 IH0 K L N OW0 R T"
SOUNDS = dict(zip("ABCDEIKLNORT", SYMBOLS.split(), strict=True))


def lines(form: str) -> list[str]:
    return [
        form.format(word, word.lower(), " ".join(SOUNDS[letter] for letter in word))
        for word in WORDS
    ]


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("{0}  {2}", "babet"),
        ("{0}\t{2}  # a comment", "babet"),
        ("{1} {2}", "babet"),
        ("{1} 0.98 {2}", "babet"),
        ("{1}\t0.99\t0.1\t1.0\t1.0\t{2}", "babet"),
    ],
)
@pytest.mark.parametrize("delimiter", [None, "space"])
def test_a_dictionary_has_words_and_sounds(tmp_path, form, first, delimiter):
    path = tmp_path / "cmu.dict"
    further = lines(form)[0].replace("BABET", "BABET(1)").replace("babet", "babet(2)")
    path.write_text("\n".join([";;; a comment; with, marks", "# one more", *lines(form), further]))
    settings = TableSettings(delimiter=delimiter)
    corpus = read_pairs(path, settings=settings)
    pairs = [(pair.source, pair.target) for pair in corpus.pairs]
    assert pairs[0] == pairs[-1] == (first, "B AE1 B EH1 T")
    assert len(pairs) == len(WORDS) + 1
    assert "2 with a comment (lines 1, 2)" in corpus.summary()[0]
    if "#" in form:
        number = len(WORDS) + 1
        assert f"removed the comment at the end of {number} lines of" in corpus.summary()[1]
        assert "(lines 3, 4, 5, 6, 7 and" in corpus.summary()[1]
    inspection = inspect(path, settings)
    assert (inspection.roles.task, inspection.roles.recipe) == ("translate", "g2p")
    check_message(inspection.lines()[0])


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat on the mat\na dog ran to the park\nwe like tea\nhe is at home\nok now",
        "\n".join(lines("{1}\t{2}")),  # a table is read as one
        "\n".join(f"LOC:city where is the town {n}" for n in range(30)),
        "\n".join(["a b c d e f", "b c d e f a"] * 20),
        "\n".join(f"word{n},Wort{n}" for n in range(30)),
    ],
)
def test_other_lines_are_no_dictionary(text):
    assert dictionary_of(text.split("\n")) is None


@pytest.mark.parametrize("form", ["{1}|{2}", "{1} | {2}", "{1}; {2}", "{1};{2}", "{1},{2}"])
def test_a_delimiter_between_words_and_sounds_divides_columns(tmp_path, form):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(lines(form)))
    corpus = read_pairs(path, settings=TableSettings())
    assert (corpus.pairs[0].source, corpus.pairs[0].target) == ("babet", "B AE1 B EH1 T")
    assert inspect(path).form.dictionary is None


@pytest.mark.parametrize(
    "form", ["{1}: {2}", "{1} = {2}", "{1} - {2}", '("{1}" nil ((({2}) 1)))', "<{1}> {2}"]
)
def test_entries_with_other_marks_are_rejected(tmp_path, form):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(lines(form)))
    with pytest.raises(UserError, match="it is one column of texts"):
        inspect(path)


def test_words_and_sounds_of_an_entry():
    assert entry("BABET(12)  B AE1 # name") == ("BABET", "B AE1")
    assert entry("(1)  W AH1 N") == ("(1)", "W AH1 N")
    assert entry("#hash  HH AE1 SH") == ("#hash", "HH AE1 SH")


def test_spaces_between_words_of_ragged_lines_are_no_columns(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(f"w{n} " + "some longer text " * (n % 5 + 1) for n in range(40)))
    form = recognise(path, TableSettings(delimiter="space"))
    assert form.dictionary == Dictionary(lowercases=False, has_sounds=False)
    corpus = read_pairs(path, settings=TableSettings(delimiter="space"))
    assert (corpus.pairs[1].source, corpus.pairs[1].target) == (
        "w1",
        "some longer text some longer text",
    )


def test_a_delimiter_may_have_several_characters(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"word {n} | x ||| Wort {n}\n" for n in range(30)) + "a ||| b ||| c\n")
    corpus = read_pairs(path, settings=TableSettings(delimiter="|||"))
    assert (corpus.pairs[3].source, corpus.pairs[3].target) == ("word 3 | x", "Wort 3")
    assert [problem.line for problem in corpus.problems] == [31]
