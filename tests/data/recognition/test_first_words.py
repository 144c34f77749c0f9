"""Lines whose first word is a label, and texts without labels."""

import gzip
import random

import pytest

from regard.data.labels.readers import read_labelled
from regard.data.recognition.first_words import have_labels_first, split_labels
from regard.data.recognition.inspection import inspect
from regard.errors import UserError
from tests.messages import check_message, raises

WORDS = ["ox", "elm", "jar", "sky", "run", "tea", "cup", "hat", "pen", "map"]
DRAW = random.Random(4)


def text():
    return " ".join(DRAW.choices(WORDS, k=6))


def lines(first, write=lambda word, rest, number: f"{word} {rest}"):
    return [write(first[n % len(first)], text(), n) for n in range(300)]


def sentence(word, rest, number):
    return f"{word} {rest.capitalize()}."


LABELLED = {
    "TREC": lines(["DESC:def", "HUM:ind", "NUM:count"], sentence),
    "lower-case TREC": lines(["desc:def", "hum:ind"]),
    "capitals": lines(["DESC", "HUM", "NUM"], sentence),
    "fastText": lines(["__label__a", "__label__b"]),
    "fastText at the end": lines(["__label__a", "__label__b"], lambda a, b, _: f"{b} {a}"),
    "intents": lines(["card_arrival", "lost_card", "exchange_rate"]),
    "numbers": lines(["0", "1", "2"]),
    "signs": lines(["+1", "-1"]),
    "letters": lines(["A", "B", "C"]),
    "words": lines(["spam", "ham"]),
    "words before sentences": lines(["spam", "ham"], sentence),
    "capitalised words before sentences": lines(["Spam", "Ham"], sentence),
}
OPENINGS = {
    "English": ("I", "The", "It"),
    "German": ("Ich", "Das", "Der"),
    "French": ("Je", "La", "Il"),
    "Russian": ("Я", "Он", "Это"),
    "Greek": ("Ο", "Η", "Το"),
    "Turkish": ("Bu", "O", "Ben"),
}
PROSE = {
    **{
        language: lines(words, lambda a, b, n: f"{a} {b}, {OPENINGS['English'][n % 3]} {b}.")
        for language, words in OPENINGS.items()
    },
    "repeated opening": [f"Sentence {n} is {text()}." for n in range(300)]
    + ["It is so.", "The end."],
    "questions": lines(["What", "Who", "How"], lambda a, b, _: f"{a} is {b}?"),
    "titles": lines(["The", "A", "An"], lambda a, b, _: f"{a} {b.title()} of the {a} Ox"),
    "dialogue": lines(["A:", "B:"]),
    "names in a dialogue": lines(["HAMLET:", "KING:"]),
    "chat": lines(["<anna>", "<ben>"]),
    "dates": lines([f"2024-01-0{day}" for day in range(1, 9)]),
    "months": lines(["Jan", "Feb"], lambda a, b, n: f"{a} {n % 28} 12:00 {b}"),
    "levels": lines(["[INFO]", "[WARN]"]),
    "lists": lines(["-", "*"]),
    "amounts": lines(["1", "2", "4", "250"]),
    "code": lines(["if", "return", "x"], lambda a, b, _: f"{a} x == {b!r} if x else x"),
    "poem": lines(["O", "And", "My"], lambda a, b, _: f"{a} {b} and o my"),
    "capitals everywhere": [line.upper() for line in lines(["The", "An"])],
}


@pytest.mark.parametrize("name", LABELLED)
def test_lines_with_a_label_first_are_labels(tmp_path, name):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LABELLED[name]))
    assert inspect(path).roles.recipe == "labels"


@pytest.mark.parametrize("name", PROSE)
def test_texts_without_labels_are_rejected(tmp_path, name):
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(line.replace(",", "") for line in PROSE[name]))
    with pytest.raises(UserError, match=r"one column of texts.*--data\.task classify"):
        inspect(path)
    assert inspect(path, task="classify").roles.task == "classify"


@pytest.mark.parametrize("language", ["en", "de"])
def test_captions_without_images_are_rejected(real_data, language):
    with gzip.open(real_data / "multi30k" / f"train.{language}.gz", "rt", encoding="utf8") as file:
        first = [line.split(" ", 1) for line in file.read().splitlines()[:2000]]
    assert not have_labels_first([(rest, word) for word, rest in first])


def test_marks_of_fasttext_are_no_words_of_a_text():
    assert split_labels("__label__a __label__b-c How are you") == (("a", "b-c"), "How are you")
    assert split_labels("How are you __label__a") == (("a",), "How are you")
    assert split_labels("__label__a,__label__b How") == (("a", "b"), "How")
    assert split_labels("DESC:def What is it") == (("DESC:def",), "What is it")


def test_lines_of_fasttext_with_several_labels_and_with_none_are_listed(tmp_path):
    path = tmp_path / "hier.txt"
    both = lines(["__label__a __label__a-x", "__label__b"])
    path.write_text("\n".join([*both, "no label here", "__label__a"]))
    corpus = read_labelled(path)
    assert {pair.target for pair in corpus.pairs} == {"b"}
    assert not any("__label__" in pair.source for pair in corpus.pairs)
    check_message(*corpus.summary())


def test_lines_of_fasttext_have_no_columns(tmp_path):
    path = tmp_path / "commas.txt"
    path.write_text("\n".join(lines(["__label__a", "__label__b"], lambda a, b, _: f"{a} {b}, {b}")))
    assert inspect(path).form.delimiter is None
    path.write_text("\n".join(lines(["__label__a", "__label__b"], lambda a, b, _: f"{a} {b}\t{b}")))
    assert inspect(path).roles.recipe == "labels"
    assert "__label__" not in read_labelled(path).pairs[0].source


def test_a_file_whose_lines_all_have_several_labels_is_rejected(tmp_path):
    path = tmp_path / "all.txt"
    path.write_text("\n".join(lines(["__label__a __label__a-x", "__label__b __label__c"])))
    with raises(UserError):
        read_labelled(path)
