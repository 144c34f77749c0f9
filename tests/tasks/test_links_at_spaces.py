"""Links between the words of texts as they were typed."""

import pytest

from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.tasks.tracing import Output, TextSources, Tracer
from tests.cli.test_commands import regard
from tests.small_runs import RUNS

TEXT = "the kettle, is (in) riga."
WORDS = {
    "the": 0, "kettle": 1, ",": 1, "is": 2, "(": 3, "in": 3, ")": 3, "riga": 4, ".": 4,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["words", "spacy", "spaces", "bpe", "unigram", "characters"])
def test_pieces_belong_to_the_words_between_spaces(kind):
    tokenizer = Tokenizer.train([TEXT, TEXT], TokenizerSettings(kind=kind))
    ids = tokenizer.encode(TEXT).ids
    sources = TextSources(tokenizer, "en")
    tracer = Tracer.__new__(Tracer)  # without a model
    tracer.sources, tracer.tokenizer = sources, tokenizer
    output = Output(TEXT, [*ids, 2], ids)
    source, target = sources.words_at_spaces(output), tracer.words_at_spaces(output)
    assert source == [*target, 4]
    assert sorted(set(target)) == [0, 1, 2, 3, 4]
    if kind == "words":
        assert target == [WORDS[piece] for piece in tokenizer.pieces(ids)]
    for number, word in enumerate(TEXT.split()):
        pieces = [each for each, place in zip(ids, target, strict=True) if place == number]
        assert tokenizer.decode(pieces) == word


def test_spaces_around_a_text_and_unknown_words_are_counted():
    tokenizer = Tokenizer.train(["a b ("], TokenizerSettings(kind="words"))
    sources = TextSources(tokenizer, "en")
    text = "  a  (Zyx é b "
    ids = tokenizer.encode(text).ids
    assert sources.words_at_spaces(Output(text, [*ids, 2], [])) == [0, 1, 1, 2, 3, 3]


def test_the_command_writes_links_between_these_words(tmp_path, capsys):
    path, links = tmp_path / "in.txt", tmp_path / "links"
    path.write_text("a b c\n\nb, d\n")
    options = "--alignments", links, "--links", "spaces"
    assert regard(capsys, "translate", RUNS / "bahdanau", path, *options)[0] == 0
    first, blank, last = links.read_text().splitlines()
    assert first
    assert not blank
    assert {link.split("-")[0] for link in last.split()} <= {"0", "1"}
