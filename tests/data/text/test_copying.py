"""Numbers of copied words, by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


SPACED = [
    *("in {city}", "100 %d", 'a "Peter" b', "the (Zyx)", "l'Xyz", "a-Xyz b", "#Xyz", "Xyz,Zyx Xyz"),
    *("x <b>Xyz</b>", "(Xyz) Xyz", 'Xyz"Xyz (Xyz', "Xyz ,Zyx", "( Xyz )", "(%d)", "~/Xyz.Zyx"),
]
"""Texts with unknown words and symbols, with and without spaces before them."""
FORMS = 'in { a { } b 100 % s % " c " , d , the ( e ) l\' f - # g < h > / . i'
"""Known words; each symbol is known with a space before it, some without."""


@pytest.mark.parametrize("text", SPACED)
@pytest.mark.parametrize("kind", ["words", "spacy", "spaces", "bpe", "unigram", "characters"])
@pytest.mark.parametrize("known", [FORMS, "a b c", "{x} (x) x,x 'x' x-x #x %x \"x\" <x>"])
def test_a_copied_source_is_the_source_as_it_was_typed(text, kind, known):
    both = tokenizer(known, kind)
    encoder = CopyEncoder(both, both)
    (source,) = encoder.sources([text], both.encode_batch([text]), has_end=False)
    vocabulary = CopyVocabulary(both, source.texts, source.spaced)
    assert vocabulary.decode(source.copies) == text
    (target,) = encoder.targets([text], both.encode_batch([text]), [source])
    assert vocabulary.decode(target) == text
    assert not any(map(both.is_unknown, target))


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet="ab é\u0301▁_{(%,'\"-<>", max_size=20).filter(str.strip),
    st.sampled_from(["words", "spacy", "spaces", "characters"]),
)
def test_any_copied_source_is_the_normalised_text(text, kind):
    both = tokenizer("a ( b , ' é", kind)
    (source,) = CopyEncoder(both, both).sources([text], both.encode_batch([text]), has_end=False)
    vocabulary = CopyVocabulary(both, source.texts, source.spaced)
    assert vocabulary.decode(source.copies) == both.normalise(text)


def test_equal_words_with_other_spaces_have_other_numbers():
    (source,) = sources(["Brno (Brno Brno"])
    assert source.copies[0] == source.copies[3] == SIZE
    assert source.copies[2] == SIZE + 2
    assert source.spaced == (True, True, False, True, True)


def test_a_word_is_copied_with_another_space_if_there_is_no_other():
    texts = ["ich bin Brno"]
    (target,) = ENCODER.targets(texts, TARGET.encode_batch(texts), sources(["my (Brno ."]))
    assert target == [number("ich"), number("bin"), SIZE + 2]
