"""Replacements of <unk>, worked out by hand from small attention weights."""

import numpy as np
import pytest

from regard.config import SearchConfig
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.unknown_words import (
    UnknownReplacement,
    cross_weights,
    read_lexicon,
)
from regard.trace import AttentionMap, TokenSequence, Trace
from tests.messages import raises

UNKNOWN, END = 3, 2


def tokenizer(kind, *texts, **settings):
    return Tokenizer.train(texts, TokenizerSettings(kind=kind, **settings))


def traced(source, text, target, tokens, rows, end=True):
    """A trace of one layer and head: each token looked most at the piece that its row names."""
    encoding = source.encode(text)
    ids = encoding.ids + [END] * end
    weights = np.full((1, 1, len(tokens), len(ids)), 0.1)
    for token, most in enumerate(rows):
        weights[0, 0, token, most] = 0.7
    return Trace(
        TokenSequence(text, source.pieces(ids), source.words(ids), "en"),
        TokenSequence(target.decode(tokens), target.pieces(tokens), target.words(tokens), "de"),
        (AttentionMap("cross", weights),),
    )


def replaced(source, text, target, tokens, rows, lexicon=None, **how):
    replacement = UnknownReplacement(Tokenizers(source, target), lexicon or {})
    assert replacement.is_needed(tokens)
    seen = traced(source, text, target, tokens, rows, **how)
    return replacement.text(tokens, seen.source, seen.attention)


ENGLISH = tokenizer("words", "the cat sat on the mat .")
GERMAN = tokenizer("words", "die katze saß .")


def test_an_unknown_word_is_replaced_by_the_attended_source_word():
    tokens = [*GERMAN.encode("die").ids, UNKNOWN, *GERMAN.encode("saß").ids, UNKNOWN, END]
    text = replaced(ENGLISH, "the Zyx sat on Mars", GERMAN, tokens, [0, 1, 2, 4, 5])
    assert text == "die Zyx saß Mars"


def test_the_end_of_the_source_is_not_a_replacement():
    assert replaced(ENGLISH, "Zyx sat", GERMAN, [UNKNOWN, END], [2, 2]) == "Zyx"
    assert replaced(ENGLISH, "Zyx", GERMAN, [UNKNOWN], [0], end=False) == "Zyx"


def test_the_lexicon_has_priority_and_ignores_case():
    lexicon = {"mars": "Mond", "Zyx": "Ypsilon", "zyx": "falsch"}
    tokens = [UNKNOWN, UNKNOWN, UNKNOWN]
    text = replaced(ENGLISH, "Mars Zyx 17", GERMAN, tokens, [0, 1, 2], lexicon)
    assert text == "Mond Ypsilon 17"


def test_replacements_are_normalised_as_the_targets():
    small = tokenizer("words", "die katze", lowercase=True)
    assert replaced(ENGLISH, "Zyx  ZWÖ", small, [UNKNOWN, UNKNOWN], [0, 1]) == "zyx zwö"


def test_a_source_word_of_several_pieces_is_copied_whole():
    letters = tokenizer("characters", "the cat sat on mars")
    assert replaced(letters, "the Cattle sat", GERMAN, [UNKNOWN, END], [6, 0]) == "Cattle"


def test_a_target_of_characters_copies_one_character():
    letters = tokenizer("characters", "abcde")
    tokens = [*letters.encode("ab").ids, UNKNOWN, *letters.encode("e").ids, END]
    assert replaced(letters, "abξe", letters, tokens, [0, 1, 2, 3, 4]) == "abξe"


def test_space_tokens_are_replaced_whole():
    spaces = tokenizer("spaces", "a b")
    assert replaced(spaces, "<unk> a.b", spaces, [UNKNOWN, UNKNOWN], [1, 0]) == "a.b <unk>"


def test_a_vocabulary_without_unk_has_nothing_to_replace():
    whole = tokenizer("spaces", vocabulary=("a", "b"), unknown=False)
    assert whole.vocabulary[UNKNOWN] == "a"
    assert not UnknownReplacement(Tokenizers(whole, whole), {}).is_needed([UNKNOWN, 4])


def test_the_attended_word_is_from_the_last_layers_mean_over_heads_and_models():
    """Two models: two layers of two heads, and one of one. By hand, for one token:
    ((0.2 + 0.4) / 2 + 0.9) / 2 and ((0.8 + 0.6) / 2 + 0.1) / 2."""
    first = np.array([[[[1.0, 0.0]], [[1.0, 0.0]]], [[[0.2, 0.8]], [[0.4, 0.6]]]])
    second = np.array([[[[0.9, 0.1]]]])
    own = AttentionMap("decoder", np.ones((1, 1, 1, 1)))
    maps = (AttentionMap("cross", first), own, AttentionMap("cross", second))
    np.testing.assert_allclose(cross_weights(maps), [[0.6, 0.4]], rtol=1e-6)


def test_a_changed_lexicon_is_read_again(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("cat\tKatze\ncat\tKater\nmat\tMatte\n")
    assert read_lexicon(path) == {"cat": "Katze", "mat": "Matte"}
    path.write_text("cat\tKater\n")
    assert read_lexicon(path) == {"cat": "Kater"}
    path.write_text("cat\tKatze\nmat Matte\n")
    with raises(UserError, "line 2"):
        read_lexicon(path)
    with pytest.raises(UserError, match=r"cannot read the lexicon .*gone"):
        UnknownReplacement.of(SearchConfig(lexicon=tmp_path / "gone"), Tokenizers(GERMAN, GERMAN))


SPACED = [
    "{Zyx}",
    "100 %Zyx",
    'the "Zyx" cat',
    "(Zyx",
    "l'Zyx",
    "a-Zyx",
    "#Zyx",
    "<b>Zyx",
    "x,Zyx,x",
]


@pytest.mark.parametrize("text", SPACED)
@pytest.mark.parametrize("kind", ["words", "spacy"])
def test_a_replacement_has_the_space_of_its_source_word(text, kind):
    both = tokenizer(kind, text.replace("Zyx", "cat"), "dog - ' , the")
    encoding = both.encode(text)
    assert UNKNOWN in encoding.ids
    places = list(range(len(encoding.ids)))
    assert replaced(both, text, both, encoding.ids, places, end=False) == text
    spelled = tokenizer("characters", text)
    if kind == "words":  # words of characters are those of this tokenizer
        starts = [text.index(part) for part in both.found_in(text)]
        assert replaced(spelled, text, both, encoding.ids, starts, end=False) == text


def test_a_lexicon_entry_has_the_space_of_its_source_word():
    tokens = [UNKNOWN, *GERMAN.encode(".").ids]
    assert replaced(ENGLISH, "cat(Zyx .", GERMAN, tokens, [2, 3], {"Zyx": "Ypsilon"}) == "Ypsilon ."
