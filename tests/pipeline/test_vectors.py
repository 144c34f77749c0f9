from dataclasses import replace

import pytest

from regard.errors import UserError
from regard.pipeline.training import train
from regard.pipeline.translator import Translator


def test_the_toys_vectors_are_fixed(toy, tmp_path):
    train(toy, tmp_path / "toy")
    model = Translator.load(tmp_path / "toy").model
    expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert model.encoder.embedding.weight[:5].tolist() == expected
    assert model.decoder.parts.embedding.weight[:5].tolist() == expected


def test_vectors_that_do_not_fit_are_named(toy, tmp_path):
    vectors = tmp_path / "some.vec"
    vectors.write_text("the 1 2 3\n")
    with pytest.raises(UserError, match="no vector for '<pad>'"):
        train(replace(toy, model=replace(toy.model, vectors=vectors)), tmp_path / "a")
    vectors.write_text("the one\n")
    with pytest.raises(UserError, match="line 1: expected a token and its numbers"):
        train(replace(toy, model=replace(toy.model, vectors=vectors)), tmp_path / "b")


def test_vectors_are_read_line_by_line_as_texts_are(toy, tmp_path):
    usual = toy.model.vectors.read_text(encoding="utf8").splitlines()
    vectors = tmp_path / "odd.vec"
    vectors.write_bytes("\r\n".join(["", "a\u2028b\u00a0c 1 2 3", *usual, "", ""]).encode())
    toy = replace(toy, model=replace(toy.model, vectors=vectors))
    train(toy, tmp_path / "odd")
    vectors.write_bytes(b"caf\xe9 1 2 3\n")
    with pytest.raises(UserError, match=r"odd.vec, line 1 is not UTF-8"):
        train(toy, tmp_path / "b")
    with pytest.raises(UserError, match=r"cannot read .*gone.vec"):
        train(replace(toy, model=replace(toy.model, vectors=tmp_path / "gone.vec")), tmp_path / "b")
