"""Text goes to numbers and comes back; nothing in it can pass for a special token."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import END, PAD, START, UNKNOWN
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.names import TokenizerKind
from tests.messages import raises

KINDS: tuple[TokenizerKind, ...] = get_args(TokenizerKind)
SPECIAL = ("<pad>", "<sos>", "<eos>", "<unk>")

TEXTS = (
    "the low lower lowest tower",
    "Don't stop -- it's 7.30 p.m.!",
    "Ein Äpfelchen, zwei Bäume; 100 % „gut“.",
    "השלום כאן مرحبا بالعالم می‌خواهم",
    "猫坐在垫子上。 किताब नमस्ते",
    "👩‍💻 ❤️ 🇩🇪 e\u0301te\u0301 a_b c-d",
    "the tower is the lowest of the low",
)


def train(kind: TokenizerKind, texts: tuple[str, ...] = TEXTS, **options: object) -> Tokenizer:
    return Tokenizer.train(texts, TokenizerSettings(kind=kind, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_decoding_restores_the_text(kind: TokenizerKind, text: str) -> None:
    tokenizer = train(kind, size=150 if kind in ("bpe", "unigram") else None)
    ids = tokenizer.encode(text).ids
    assert UNKNOWN not in ids
    assert tokenizer.decode(ids) == unicodedata.normalize("NFC", text)


ALPHABET = st.sampled_from(
    "aAbÄß \t\u00a0\u3000.,'-_<>/▁7é猫ש\u05c1ّم👩\u200d\u0301\u200bosek\x00\x1d"
)
texts = st.lists(ALPHABET | st.sampled_from([*SPECIAL, "▁▁"]), max_size=23).map("".join)


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "spaces", "spacy"])
@pytest.mark.parametrize("lowercase", [False, True])
@given(texts=st.lists(texts, min_size=1, max_size=5))
@settings(max_examples=25, deadline=None)
def test_decoding_restores_any_text_up_to_white_space_and_case(
    kind: TokenizerKind, lowercase: bool, texts: list[str]
) -> None:
    tokenizer = train(kind, tuple(texts), lowercase=lowercase)
    for text in texts:
        ids = tokenizer.encode(text).ids
        assert not {PAD, START, END, UNKNOWN} & set(ids)
        assert tokenizer.decode(ids) == tokenizer.normalise(text)
        expected = unicodedata.normalize("NFC", text.lower() if lowercase else text)
        assert "".join(tokenizer.normalise(text).split()) == "".join(expected.split())


def test_normalised_text_has_single_spaces_and_one_form() -> None:
    tokenizer = train("words", lowercase=True)
    assert tokenizer.normalise("  Cafe\u0301\u00a0\u3000 AU\tLAIT\n") == "café au lait"
    assert tokenizer.normalise("▁ <eos> \u2028x") == "▁ <eos> x"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("don't stop!", "don ' t stop !"),
        ("3.5% of A_b", "3 . 5 % of A_b"),
        ("„gut“ --", "„ gut “ - -"),
        ("किताब می‌خواهم", "किताब می‌خواهم"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("猫坐在。", "猫坐在 。"),
        ("ok ❤️👍", "ok ❤️ 👍"),
    ],
)
def test_words_are_runs_of_letters_and_single_symbols(text: str, pieces: str) -> None:
    encoding = train("words", (text,)).encode(text)
    assert encoding.pieces == tuple(unicodedata.normalize("NFC", pieces).split(" "))
    assert encoding.words == tuple(range(len(encoding.pieces)))


def test_words_after_a_space_have_their_own_pieces() -> None:
    tokenizer = train("words", ("a b", "a-b"))
    assert tokenizer.vocabulary == (*SPECIAL, "▁a", "-", "b", "▁b")
    assert tokenizer.decode([4, 7, 6, 5]) == "a bb-"


def test_space_tokens_keep_tokenized_text() -> None:
    tokenizer = train("spaces", ("do n't ▁stop , <eos>",))
    encoding = tokenizer.encode("do  n't ▁stop , <eos>")
    assert encoding.pieces == ("do", "n't", "▁stop", ",", "<eos>")
    assert END not in encoding.ids
    assert tokenizer.decode(encoding.ids) == "do n't ▁stop , <eos>"


def test_characters_have_the_number_of_their_word() -> None:
    encoding = train("characters").encode("the low.")
    assert encoding.pieces == tuple("the▁low.")
    assert encoding.words == (0, 0, 0, 1, 1, 1, 1, 2)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_have_the_number_of_their_word(kind: TokenizerKind) -> None:
    tokenizer = train(kind, ("low lower lowest",) * 7, size=15)
    encoding = tokenizer.encode("lower low")
    joined = [
        "".join(p for p, w in zip(encoding.pieces, encoding.words, strict=True) if w == n)
        for n in (0, 1)
    ]
    assert joined == ["▁lower", "▁low"]
    assert len(encoding.pieces) > 2


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "unigram"])
@given(text=texts)
@settings(max_examples=60, deadline=None)
def test_word_numbers_do_not_depend_on_the_tokenizer(kind: TokenizerKind, text: str) -> None:
    """The library says of each piece which word of the text it was cut from."""
    tokenizer = train(kind, (*TEXTS, text), size=200 if kind in ("bpe", "unigram") else None)
    ids = tokenizer.encode(text).ids
    assert tokenizer.words(ids) == tuple(tokenizer._encode(text).word_ids)
    end = (max(tokenizer.words(ids), default=-1) + 1,)
    assert tokenizer.words([*ids, END]) == tokenizer.words(ids) + end


def test_unknown_characters_belong_to_their_word_and_end_tokens_to_none() -> None:
    tokenizer = train("characters", ("the cat, sat.",))
    the, unknown, cat = tokenizer.encode("the caz").ids, UNKNOWN, tokenizer.encode("cat,").ids
    assert the[-1] == unknown
    assert tokenizer.words([*the, START, *cat, END, END]) == (
        *(0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 4, 5, 6),
    )


def test_bpe_merges_the_most_frequent_pair_first() -> None:
    """▁ a b: "ab" occurs 5 times, "▁a" 4 times, so ab, then ▁ab (4 times)."""
    tokenizer = train("bpe", ("ab ab ab", "ab", "cab"), size=4 + 4 + 2)
    assert tokenizer.vocabulary == (*SPECIAL, "a", "b", "c", "▁", "ab", "▁ab")
    assert tokenizer.encode("cab ab").pieces == ("▁", "c", "ab", "▁ab")


def test_spacy_tokenizes_by_the_rules_of_the_language() -> None:
    english = train("spacy", ("I can't (or won't) stop.",))
    encoding = english.encode("I can't (or won't) stop.")
    assert encoding.pieces == ("I", "ca", "n't", "(", "or", "wo", "n't", ")", "stop", ".")
    assert encoding.words == tuple(range(10))
    german = train("spacy", ("z.B. heute",), language="de")
    assert german.encode("z.B. heute").pieces == ("z.B.", "heute")


def test_missing_spacy_and_unknown_languages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="spaCy cannot tokenize 'qqq'"):
        train("spacy", language="qqq")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(UserError, match=r"-m pip install spacy"):
        train("spacy", language="da")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "   ", "\u3000\n"])
def test_an_empty_text_has_no_tokens(kind: TokenizerKind, text: str) -> None:
    tokenizer = train(kind)
    assert tokenizer.encode(text).ids == [] == tokenizer.encode_batch([text])[0]
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_encoding_a_batch_equals_encoding_each_text(kind: TokenizerKind) -> None:
    tokenizer = train(kind)
    texts = [*TEXTS, "", "unseen ☂ words", "<pad><sos>x<eos>"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text).ids for text in texts]
    assert not {PAD, START, END} & {
        number for ids in tokenizer.encode_batch(texts) for number in ids
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_is_complete(kind: TokenizerKind, tmp_path: Path) -> None:
    tokenizer = train(kind, lowercase=True, language="de")
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert loaded.settings == tokenizer.settings
    assert loaded.vocabulary == tokenizer.vocabulary
    texts = [*TEXTS, "unseen ☂ WORDS"]
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert [loaded.decode(ids) for ids in loaded.encode_batch(texts)] == [
        tokenizer.decode(ids) for ids in tokenizer.encode_batch(texts)
    ]
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["again.json", "tokenizer.json"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "spacy"])
def test_the_tokenizers_library_alone_gives_equal_tokens(kind: TokenizerKind) -> None:
    tokenizer = train(kind, size=150 if kind in ("bpe", "unigram") else None)
    library = tokenizers.Tokenizer.from_str(tokenizer.to_library())
    for text in (*TEXTS, "  the   tower is\tlow "):
        ids = tokenizer.encode(text).ids
        assert library.encode(text).ids == ids
        if UNKNOWN not in ids:  # its id does not tell whether a space precedes it
            assert library.decode(ids) == tokenizer.decode(ids)
    marks = [number for number, piece in enumerate(tokenizer.vocabulary) if piece == "▁"]
    for nothing in ([], marks, 2 * marks):
        assert library.decode(nothing) == tokenizer.decode(nothing) == ""


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"settings": {}, "tokenizer": {}}'])
def test_other_files_are_rejected(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"other\.json is not a tokenizer"):
        Tokenizer.load(path)
    with pytest.raises(UserError, match=r"cannot read .*nothing: no such file"):
        Tokenizer.load(tmp_path / "nothing")


def test_the_saved_file_is_reproducible_in_another_process(tmp_path: Path) -> None:
    """In a process where strings hash differently. It also shows that torch is not needed."""
    texts = ("the cat sat on the mat and the dog sat on the log", "cats, dogs; logs & mats") * 7
    code = (
        "import sys\n"
        "from regard.data.text.tokenizer import *\n"
        "for kind in ('words', 'characters', 'bpe'):\n"
        "    settings = TokenizerSettings(kind=kind, size=60)\n"
        f"    Tokenizer.train({texts!r}, settings).save(f'{{sys.argv[1]}}/{{kind}}.there')\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    for kind in ("words", "characters", "bpe"):
        train(kind, texts, size=60).save(tmp_path / f"{kind}.here")
        there = (tmp_path / f"{kind}.there").read_bytes()
        assert (tmp_path / f"{kind}.here").read_bytes() == there


def test_the_vocabulary_is_sorted_by_count_then_alphabetically() -> None:
    tokenizer = train("spaces", ("b b a a c", "d c b"))
    assert tokenizer.vocabulary == (*SPECIAL, "b", "a", "c", "d")
    assert len(tokenizer) == 8


def test_rare_words_and_words_beyond_the_size_are_unknown() -> None:
    texts = ("b b a a c", "d c b")
    assert train("spaces", texts, min_count=2).vocabulary[4:] == ("b", "a", "c")
    assert train("spaces", texts, size=5).vocabulary == (*SPECIAL, "b")
    tokenizer = train("spaces", texts, min_count=3)
    encoding = tokenizer.encode("a b c")
    assert encoding.ids == [UNKNOWN, 4, UNKNOWN]
    assert encoding.pieces == ("<unk>", "b", "<unk>")
    assert tokenizer.decode(encoding.ids) == "<unk> b <unk>"


def test_unknown_words_are_one_token_and_unknown_characters_stay_in_their_word() -> None:
    words = train("words", ("the cat .",))
    assert words.decode(words.encode("the dog, the cat").ids) == "the <unk> <unk> the cat"
    characters = train("characters", ("the cat",))
    assert characters.decode(characters.encode("the bat").ids) == "the <unk>at"


def test_special_tokens_are_shown_as_pieces_but_not_as_text() -> None:
    tokenizer = train("words", ("a b",))
    assert tokenizer.pieces([START, 4, 5, END, PAD]) == ("<sos>", "a", "b", "<eos>", "<pad>")
    assert tokenizer.decode([START, 4, 5, END, PAD]) == "a b"


def test_a_given_vocabulary_keeps_its_order_and_may_leave_out_unk() -> None:
    tokenizer = train("spaces", (), vocabulary=("the", "cat", "猫"), unknown=False)
    assert tokenizer.vocabulary == ("<pad>", "<sos>", "<eos>", "the", "cat", "猫")
    assert tokenizer.encode("猫 the").ids == [5, 3]
    assert tokenizer.decode([3, 5, END]) == "the 猫"
    with_unknown = train("spaces", (), vocabulary=("the", "cat"))
    assert with_unknown.vocabulary == (*SPECIAL, "the", "cat")
    assert with_unknown.encode("cat dog").ids == [5, UNKNOWN]


@pytest.mark.parametrize(
    ("kind", "vocabulary", "piece"),
    [
        ("spaces", ("the", "cat"), "dog"),
        ("words", ("▁the", "▁cat"), "dog"),
        ("spacy", ("▁the", "▁cat"), "dog"),
        ("characters", tuple("the▁ca"), "d"),
    ],
)
def test_an_unknown_piece_is_named_where_there_is_no_unk(
    kind: TokenizerKind, vocabulary: tuple[str, ...], piece: str, tmp_path: Path
) -> None:
    trained = train(kind, (), vocabulary=vocabulary, unknown=False)
    trained.save(tmp_path / "tokenizer.json")
    for tokenizer in (trained, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert tokenizer.decode(tokenizer.encode("the cat").ids) == "the cat"
        with pytest.raises(UserError, match=f"^'{piece}' in 'the  dog' is not among"):
            tokenizer.encode("the  dog")
        with pytest.raises(UserError, match=f"^'{piece}' in 'the  dog' is not among"):
            tokenizer.encode_batch(["the cat", "the  dog"])


def test_a_given_vocabulary_has_distinct_words() -> None:
    with raises(UserError):
        train("spaces", (), vocabulary=("a", "b", "a"))
    with raises(UserError):
        train("spaces", (), vocabulary=("a", "<eos>"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(min_count=0), "min_count is 0"),
        (dict(size=4), "size is 4"),
        (dict(kind="bpe", vocabulary=("a",)), "bpe learns its own vocabulary"),
        (dict(kind="unigram", unknown=False), "unigram learns its own vocabulary"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TokenizerSettings(**options)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_need_room_for_every_character(kind: TokenizerKind) -> None:
    """abcde and ▁, four special tokens, and one to be learned."""
    assert set("abcde▁") <= set(train(kind, ("ab cde",), size=11).vocabulary)
    with raises(UserError):
        train(kind, ("ab cde",), size=10)


@pytest.mark.parametrize("kind", KINDS)
def test_learning_from_no_texts_gives_special_tokens_only(kind: TokenizerKind) -> None:
    tokenizer = train(kind, ())
    assert tokenizer.vocabulary == SPECIAL
    assert set(tokenizer.encode("any thing").ids) == {UNKNOWN}


def test_one_tokenizer_of_both_sides_is_shared() -> None:
    tokenizer = train("words", ("the cat", "die Katze"))
    assert UNKNOWN not in tokenizer.encode("die cat").ids


def test_the_saved_file_is_readable_and_names_its_format(tmp_path: Path) -> None:
    train("words", ("猫",)).save(tmp_path / "tokenizer.json")
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf8")
    assert json.loads(text)["format"] == 1
    assert "▁猫" in text


@pytest.mark.parametrize("kind", ["words", "bpe", "spacy"])
def test_decoding_restores_real_text(kind: TokenizerKind, real_data: Path) -> None:
    content = (real_data / "tatoeba" / "deu.txt").read_text(encoding="utf8")
    texts = [line.split("\t")[1] for line in content.splitlines()[:3000]]
    tokenizer = train(kind, tuple(texts), language="de")
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert tokenizer.decode(ids) == unicodedata.normalize("NFC", " ".join(text.split()))


@pytest.mark.parametrize("kind", ["words", "spacy"])
def test_a_word_is_known_with_and_without_a_space_before_it(kind: TokenizerKind) -> None:
    if kind == "spacy":
        pytest.importorskip("spacy")
    settings = TokenizerSettings(kind, lowercase=True)
    tokenizer = Tokenizer.train(["She kissed him.", "Who (is) she?"], settings)
    usual = tokenizer.encode("she kissed him.").ids
    for text in ("She kissed him .", " she  kissed HIM ."):
        assert tokenizer.encode(text).ids == usual
        assert tokenizer.encode_batch([text, "she"])[0] == usual
    assert UNKNOWN in tokenizer.encode("she kissed nobody .").ids
    assert tokenizer.encode("she kissed nobody .").ids.count(UNKNOWN) == 1


@pytest.mark.parametrize("kind", ["words", "bpe", "unigram"])
def test_learning_can_be_interrupted(kind: TokenizerKind) -> None:
    """The library asks for texts in threads that signals do not reach."""

    def many() -> Iterator[str]:
        for number in range(300_007):
            if number == 1009:
                os.kill(os.getpid(), signal.SIGINT)
            yield f"text {number}"

    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train(many(), TokenizerSettings(kind=kind))


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_an_error_of_the_texts_is_raised(kind: TokenizerKind) -> None:
    def failing() -> Iterator[str]:
        yield "text"
        raise UserError("a file was changed")

    with pytest.raises(UserError, match="a file was changed"):
        Tokenizer.train(failing(), TokenizerSettings(kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_texts_of_pieces_are_what_was_typed(kind: TokenizerKind) -> None:
    tokenizer = train(
        kind, ("the tower é", "the low é"), size=40 if kind in ("bpe", "unigram") else None,
        lowercase=True,
    )  # fmt: skip
    text = "The XYZ e\u0301  Tower"
    pieces = (*tokenizer.encode(text).pieces, "<eos>")
    parts = tokenizer.texts(text, pieces)
    assert (len(parts), parts[-1]) == (len(pieces), "")
    typed = "".join(parts).replace("▁", "")
    assert unicodedata.normalize("NFC", typed) == unicodedata.normalize(
        "NFC", text.replace(" ", "")
    )
    assert kind == "spacy" or "e\u0301" in typed
    if tokenizer.cuts_words:
        assert parts[:2] == ("The", "XYZ")
        assert pieces[1] == "<unk>"


def test_a_text_is_split_once_however_many_words_are_unknown(monkeypatch):
    tokenizer = Tokenizer.train(["a b"], TokenizerSettings())
    calls, found_in = [], Tokenizer.found_in
    monkeypatch.setattr(
        Tokenizer, "found_in", lambda own, text: calls.append(text) or found_in(own, text)
    )
    tokenizer.encode_batch([" ".join("cdefg"), "a b"])
    assert calls == ["c d e f g"]


@pytest.mark.parametrize("kind", ["words", "spaces", "characters", "bpe", "unigram"])
def test_nothing_is_learned_from_very_long_words(kind: TokenizerKind) -> None:
    texts = [f"the cat {number} walks" for number in range(60)]
    packed = f"the {'Q7z/' * 500_000} end"
    vocabulary = Tokenizer.train([*texts, packed], TokenizerSettings(kind=kind)).vocabulary
    assert not any("Q" in piece for piece in vocabulary)
    assert any("c" in piece for piece in vocabulary)
    chinese = ["猫坐在垫子上" * 1000]
    assert len(Tokenizer.train(chinese, TokenizerSettings(kind=kind)).vocabulary) > 4


def test_learning_that_is_interrupted_does_not_wait_for_the_library() -> None:
    """A text that the library needs long for."""
    draw = random.Random(1)
    texts = [" ".join("".join(draw.choices("abcdefgh", k=40)) for _ in range(30_000))]
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train(texts, TokenizerSettings(kind="unigram"))
    assert time.monotonic() - begin < 8
