"""Texts with features, by hand."""

import pytest

from regard.data.batch import END, PAD, UNKNOWN
from regard.data.text.copying import CopyEncoder
from regard.data.text.features import FeatureTokenizer, load_source, source_from_json, split_source
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError

TEXT = Tokenizer.train(["abc d"], TokenizerSettings(kind="characters"))
SOURCES = ["ab\tV;PST\t3", "c d\tN|PL\t"]
TOKENIZER = FeatureTokenizer.train(TEXT, SOURCES)
SIZE = len(TEXT)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("gehen\tV;PST", ("gehen", ("V", "PST"))),
        ("gehen\tV|PST 3\t SG ", ("gehen", ("V", "PST", "3", "SG"))),
        ("zu gehen", ("zu gehen", ())),
        ("gehen\t", ("gehen", ())),
    ],
)
def test_values_are_between_semicolons_bars_and_spaces(source, expected):
    assert split_source(source) == expected


def test_values_are_numbered_after_the_pieces_of_the_text():
    assert TOKENIZER.values == ("3", "N", "PL", "PST", "V")
    assert len(TOKENIZER) == len(TOKENIZER.vocabulary) == SIZE + 5
    letters = TEXT.encode("ab").ids
    assert TOKENIZER.encode_batch(SOURCES[:1]) == [[*letters, SIZE + 4, SIZE + 3, SIZE]]
    assert TOKENIZER.encode("ab\tX").ids == [*letters, UNKNOWN]


def test_values_are_pieces_and_words_of_their_own():
    encoding = TOKENIZER.encode("ab d\tV;PST")
    assert encoding.pieces[-2:] == ("V", "PST")
    assert "".join(encoding.pieces[:-2]) == "".join(TEXT.encode("ab d").pieces)
    assert encoding.words == (*TEXT.encode("ab d").words, 2, 3)
    assert TOKENIZER.words([SIZE, SIZE + 1]) == (0, 1)
    assert TOKENIZER.decode(encoding.ids) == "ab d"
    assert TOKENIZER.texts("ab\tV;PST", ("a", "b", "V", "PST", "<eos>"))[2:] == ("V", "PST", "")
    assert TOKENIZER.found_in("ab\tV") == (*TEXT.found_in("ab"), "\tV")
    assert TOKENIZER.normalise("a  b\tV;PST") == "a b\tV\tPST"


def test_features_are_no_unknown_words():
    assert TOKENIZER.unknown_share_of(["ab\tX", "xy\tV"]) == 0.5
    assert TOKENIZER.unknown_in("xb\tY") == ("x",)


def test_a_saved_tokenizer_is_loaded_with_its_features(tmp_path):
    TOKENIZER.save(tmp_path / "source.json")
    TEXT.save(tmp_path / "text.json")
    assert load_source(tmp_path / "source.json").vocabulary == TOKENIZER.vocabulary
    assert isinstance(load_source(tmp_path / "text.json"), Tokenizer)
    assert source_from_json(TOKENIZER.to_json()).to_json() == TOKENIZER.to_json()


@pytest.mark.parametrize("features", ['"V"', '["V", "V"]', "[1]"])
def test_damaged_features_are_an_error(tmp_path, features):
    text = TEXT.to_json().replace("{", f'{{"features": {features},', 1)
    (tmp_path / "source.json").write_text(text, encoding="utf8")
    with pytest.raises(UserError, match="is not a tokenizer that regard wrote"):
        load_source(tmp_path / "source.json")


def test_features_need_an_unknown_token():
    settings = TokenizerSettings(kind="spaces", vocabulary=("a",), unknown=False)
    with pytest.raises(UserError, match="has no <unk>"):
        FeatureTokenizer(Tokenizer.train([], settings), ["V"])


def test_features_are_not_copied():
    texts = ["ab\tV;X"]
    (result,) = CopyEncoder(TOKENIZER, TEXT).sources(
        texts, [[*ids, END] for ids in TOKENIZER.encode_batch(texts)], has_end=True
    )
    assert result.copies == [*TEXT.encode("ab").ids, PAD, PAD, END]


def test_values_are_compared_in_nfc():
    tokenizer = FeatureTokenizer.train(TEXT, ["ab\tfe\u0301minin", "ab\tf\u00e9minin"])
    assert tokenizer.values == ("féminin",)
    assert tokenizer.encode("ab\tfe\u0301minin").ids == tokenizer.encode("ab\tféminin").ids
    assert UNKNOWN not in tokenizer.encode("ab\tfe\u0301minin").ids
