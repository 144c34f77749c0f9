import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.building.classifiers import build_classifier
from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.data.examples import Pair
from regard.data.text.vectors import read_external
from regard.errors import UserError
from regard.pipeline.train import train
from regard.tasks.classification.embeddings import VectorCoverage, set_embeddings
from regard.tasks.classification.inputs import InputsAndTargets
from regard.tasks.translation.model import TranslationModel
from tests import configs
from tests.messages import raises
from tests.small_runs import translation


def test_vectors_of_small_models_are_fixed(toy, tmp_path):
    train(toy, tmp_path / "toy")
    model = TranslationModel.load(tmp_path / "toy").model
    expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert model.encoder.embedding.weight[:5].tolist() == expected
    assert model.decoder.parts.embedding.weight[:5].tolist() == expected


def test_a_run_whose_vectors_were_moved_is_resumed(toy, tmp_path):
    train(toy, tmp_path / "toy")
    moved, other = tmp_path / "moved.vec", tmp_path / "other.vec"
    shutil.copy(toy.model.vectors, moved)
    longer = replace(toy, training=replace(toy.training, epochs=toy.training.epochs + 1))
    elsewhere = replace(longer, model=replace(toy.model, vectors=moved))
    train(elsewhere, tmp_path / "toy", resume=True)
    other.write_text(moved.read_text().replace("1", "2"))
    changed = replace(longer, model=replace(toy.model, vectors=other))
    with raises(UserError, "model.vectors"):
        train(changed, tmp_path / "toy", resume=True)


def test_vectors_that_do_not_fit_are_named(toy, tmp_path):
    vectors = tmp_path / "some.vec"
    vectors.write_text("the 1 2 3\n")
    with pytest.raises(UserError, match="no vector for '<pad>'"):
        train(replace(toy, model=replace(toy.model, vectors=vectors)), tmp_path / "a")
    vectors.write_text("the one\n")
    with pytest.raises(UserError, match="line 1: expected a word and its numbers"):
        train(replace(toy, model=replace(toy.model, vectors=vectors)), tmp_path / "b")


def test_vectors_are_read_line_by_line(toy, tmp_path):
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


def test_models_attend_to_extra_vectors(tmp_path):
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "own.npy", table)
    np.savetxt(tmp_path / "own.txt", table)
    np.testing.assert_array_equal(read_external(tmp_path / "own.txt"), table)
    path, experiment = tmp_path / "own.npy", translation()
    model = configs.changed(experiment.model, extra_vectors=path)
    train(replace(experiment, model=model), tmp_path / "run")
    path.unlink()  # a run has all that it needs
    model = regard.load(tmp_path / "run")
    assert model.experiment.model.decoder.extra_vectors_shape == (3, 4)
    assert torch.equal(model.model.build_memory.vectors, torch.from_numpy(table))
    cross, memory = model.translate("a b").maps
    assert (cross.kind, memory.kind, memory.weights.shape[3]) == ("cross", "memory", 3)


@pytest.mark.parametrize(
    ("text", "said"), [("1 2\n3\n", "cannot read vectors"), ("1 nan\n", "rows of finite numbers")]
)
def test_arrays_that_are_not_tables_are_rejected(tmp_path, text, said):
    path = tmp_path / "own.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_external(path)


def test_words_in_the_file_start_from_its_vectors(tmp_path):
    pairs = [Pair("The cat sat", "x", 1), Pair("a dog", "y", 2)]
    reading = InputsAndTargets.learn(ClassificationDataConfig(), pairs)
    model = build_classifier(configs.classifier(embedding=2), reading.vocabulary_size, 0, 2)
    before = model.encoder.embedding.weight.detach().clone()
    path = tmp_path / "glove.txt"
    path.write_text("3 2\nthe 1 2\ncat 3 4\nCat 9 9\nunseen 5 6\n")
    coverage = set_embeddings(model, reading.reader, path)
    assert coverage == VectorCoverage(2, 5)
    assert str(coverage) == "model.vectors has 2 of the 5 words"
    after = dict(
        zip(reading.reader.tokenizer.vocabulary, model.encoder.embedding.weight, strict=True)
    )
    assert after["▁The"].tolist() == [1, 2]
    assert after["▁cat"].tolist() == [3, 4]
    number = reading.reader.tokenizer.vocabulary.index("▁dog")
    assert torch.equal(after["▁dog"], before[number])
    path.write_text("the 1 2 3\n")
    with raises(UserError):
        set_embeddings(model, reading.reader, path)
    path.write_text("nothing 1 2\n")
    with pytest.raises(UserError, match="has none of the words"):
        set_embeddings(model, reading.reader, path)


@pytest.mark.parametrize("above", ["", "5 2\n"])
def test_words_in_a_file_of_vectors_may_have_spaces(toy, tmp_path, above):
    reading = InputsAndTargets.learn(
        ClassificationDataConfig(), [Pair("at 7 .", "x", 1), Pair("a dog", "y", 2)]
    )
    model = build_classifier(configs.classifier(embedding=2), reading.vocabulary_size, 0, 2)
    path = tmp_path / "glove.txt"
    lines = ["7 1 2", ". . . 3 4", "at name@domain.com 5 6", "dog 7 8", "at 9 10"]
    path.write_text(above + "\n".join(lines) + "\n")
    assert set_embeddings(model, reading.reader, path).num_known == 3
    after = dict(
        zip(reading.reader.tokenizer.vocabulary, model.encoder.embedding.weight, strict=True)
    )
    assert [after[f"▁{word}"].tolist() for word in ("7", "dog", "at")] == [[1, 2], [7, 8], [9, 10]]
    path.write_text(path.read_text() + "a 1 x\n")
    number = len(path.read_text().splitlines())
    with pytest.raises(UserError, match=rf"glove.txt, line {number}: expected a word and its num"):
        set_embeddings(model, reading.reader, path)
    path.write_text("word\n")
    with raises(UserError, "line 1"):
        set_embeddings(model, reading.reader, path)

    usual = toy.model.vectors.read_text(encoding="utf8")
    path.write_text(f"{usual.rstrip()}\n. . . 1 2 3\n", encoding="utf8")
    train(replace(toy, model=replace(toy.model, vectors=path)), tmp_path / "toy")


def test_training_reports_the_number_of_words_with_vectors(tmp_path):
    words, vectors = tmp_path / "train.tsv", tmp_path / "glove.txt"
    words.write_text("a dog\tx\na cat\ty\n" * 4)
    vectors.write_text("a 1 2\ndog 3 4\nsea 5 6\n")
    experiment = Experiment(
        data=ClassificationDataConfig(path=words, dev_size=0, test_size=0),
        model=configs.classifier(embedding=2, size=2, vectors=vectors),
        training=TrainingConfig(epochs=1, device="cpu"),
    )
    calls = []
    train(experiment, tmp_path / "run", begin=lambda plan: calls.extend(plan.left_out))
    assert calls == ["model.vectors has 2 of the 3 words"]
