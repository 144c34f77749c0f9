"""Numbers of copied words, by hand."""

import pytest

from regard.data.batch import END, PAD, UNKNOWN
from regard.data.text.copying import CopyEncoder, CopySource, CopyVocabulary, pad_copied
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError


def tokenizer(text, kind="words", **settings):
    return Tokenizer.train([text], TokenizerSettings(kind=kind, **settings))


SOURCE = tokenizer("my name is Tom .")
TARGET = tokenizer("ich bin Tom .")
ENCODER = CopyEncoder(SOURCE, TARGET)
SIZE = len(TARGET)


def sources(texts, *, has_end=True):
    ids = [[*ids, END] for ids in SOURCE.encode_batch(texts)]
    return ENCODER.sources(texts, ids, has_end=has_end)


def number(piece):
    return TARGET.encode(piece).ids[0]


def test_known_words_are_copied_as_themselves_and_others_by_their_first_position():
    (result,) = sources(["my Brno is Tom Brno ."])
    assert result.ids[1] == result.ids[4] == UNKNOWN
    assert result.copies == [SIZE, SIZE + 1, SIZE + 2, number("Tom"), SIZE + 1, number("."), END]
    assert result.texts == ("my", "Brno", "is", "Tom", "Brno", ".", "")


def test_a_source_without_an_end_to_copy_has_padding_there():
    (result,) = sources(["Tom"], has_end=False)
    assert result.copies == [number("Tom"), PAD]


def test_unknown_words_of_a_target_are_copied_where_the_source_has_them():
    texts = ["ich bin Brno .", "ich bin Graz ."]
    targets = [[*ids, END] for ids in TARGET.encode_batch(texts)]
    result = ENCODER.targets(texts, targets, sources(["my Brno .", "my Brno ."]))
    assert result[0] == [number("ich"), number("bin"), SIZE + 1, number("."), END]
    assert result[1] == targets[1]
    assert UNKNOWN in result[1]


def test_decoding_returns_the_words_of_the_source():
    (source,) = sources(["my Brno"])
    vocabulary = CopyVocabulary(TARGET, source.texts)
    ids = [number("ich"), SIZE + 1, UNKNOWN, SIZE, number("."), END]
    assert vocabulary.decode(ids) == "ich Brno <unk> my ."
    assert vocabulary.decode(ids, ["Graz"]) == "ich Brno Graz my ."
    assert vocabulary.pieces(ids) == ("ich", "Brno", "<unk>", "my", ".", "<eos>")
    assert vocabulary.words(ids) == (0, 1, 2, 3, 4, 5)


def test_a_number_after_the_source_has_no_text():
    (source,) = sources(["my"])
    assert CopyVocabulary(TARGET, source.texts).pieces([SIZE + 9]) == ("",)


def test_letters_are_copied_into_words_that_are_spelled():
    source, target = tokenizer("abc d", "characters"), tokenizer("ab", "characters")
    (result,) = CopyEncoder(source, target).sources(
        ["abø c"], source.encode_batch(["abø c"]), has_end=True
    )
    vocabulary = CopyVocabulary(target, result.texts)
    assert result.copies[2] >= len(target)
    assert vocabulary.decode(result.copies) == "abø c"


def test_case_is_that_of_the_vocabulary():
    lower = tokenizer("tom", lowercase=True)
    (result,) = CopyEncoder(lower, lower).sources(
        ["Tom BRNO"], lower.encode_batch(["Tom BRNO"]), has_end=True
    )
    assert result.texts == ("tom", "brno")


def test_words_and_letters_do_not_fit_each_other():
    with pytest.raises(UserError, match=r"data\.target_tokenizer characters: set both"):
        CopyEncoder(SOURCE, tokenizer("abc", "characters"))


def test_padding_copies_padding():
    batch = pad_copied([CopySource([5, 6], [7, 8], ("a", "b")), CopySource([5], [9], ("c",))])
    assert batch.copies.tolist() == [[7, 8], [9, PAD]]
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert batch.to("cpu").copies.tolist() == batch.copies.tolist()
