"""A Transformer through the whole pipeline: trained, resumed, translating, traced."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.cli.main import run as command
from regard.config import SearchConfig
from regard.errors import UserError
from regard.estimators import Translator
from regard.pipeline.train import train
from regard.tasks.translation.limits import LengthLimit
from regard.tasks.translation.model import TranslationModel
from tests import configs
from tests.messages import check_message, raises
from tests.small_runs import small

LAYERS, DECODER_LAYERS, HEADS = 2, 3, 4


def attending(**model):
    """An experiment that takes two seconds."""
    experiment = small(epochs=2)
    fields = {
        "size": 16,
        "layers": LAYERS,
        "decoder_layers": DECODER_LAYERS,
        "heads": HEADS,
        "feed_forward": 24,
        **model,
    }
    return replace(experiment, name="attending", model=configs.transformer(**fields))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "attending"
    train(attending(), folder)
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return TranslationModel.load(folder)


def check(trace):
    """Every kind, layer and head, each as large as its sequences."""
    source, target = len(trace.source.pieces), len(trace.target.pieces)
    shapes = {each.kind: each.weights.shape for each in trace.attention}
    assert shapes == {
        "encoder": (LAYERS, HEADS, source, source),
        "cross": (DECODER_LAYERS, HEADS, target, source),
        "decoder": (DECODER_LAYERS, HEADS, target, target),
    }
    for each in trace.attention:
        np.testing.assert_allclose(each.weights.sum(axis=3), 1, atol=1e-5)
        assert np.isfinite(each.scores[each.weights > 0]).all()
    assert not np.triu(trace.map("decoder").weights, 1).any()


@pytest.mark.parametrize(("beam", "num_best"), [(1, 1), (4, 1), (4, 3)])
def test_results_have_all_attention_maps(translator, beam, num_best):
    search = SearchConfig(beam=beam, max_length=9)
    texts = ["a b c", "d", "e f g h i j"]
    for found in translator.translate(texts, search=search, num_best=num_best):
        assert len(found.alternatives) == num_best - 1
        for each in (found, *found.alternatives):
            check(each.trace)
            assert each.attention.shape[:2] == (DECODER_LAYERS, HEADS)


def test_forced_targets_have_equal_traces(translator):
    for found in translator.score([("a b c", "c b a"), ("d e", "f")]):
        check(found.trace)


def test_texts_and_maps_do_not_depend_on_the_batch(translator):
    texts = ["a b c", "d", "e f g h i j k l m"]
    search = SearchConfig(beam=3, max_length=12)
    for text, found in zip(texts, translator.translate(texts, search=search), strict=True):
        alone = translator.translate(text, search=search)
        assert alone.text == found.text
        for one, other in zip(alone.trace.attention, found.trace.attention, strict=True):
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


def test_a_resumed_run_is_bit_equal(tmp_path, folder):
    experiment = attending(dropout=0.2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(experiment, whole)
    first_half = replace(experiment, training=replace(experiment.training, epochs=1))
    train(first_half, parts)
    train(experiment, parts, resume=True)
    states = [load_file(each / "state/training.safetensors") for each in (whole, parts)]
    models = [TranslationModel.load(each).model.state_dict() for each in (whole, parts)]
    for first, second in (states, models):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    with pytest.raises(UserError, match=r"model\.\w+ was .* and is .* now"):
        train(small(), folder, resume=True)


def short():
    """With a dozen learned positions."""
    experiment = attending()
    return replace(
        experiment,
        data=replace(experiment.data, max_length=12),
        model=configs.changed(experiment.model, positions="learned", max_positions=12),
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_limit_outputs_and_sources(tmp_path, beam):
    train(short(), tmp_path / "run")
    translator = TranslationModel.load(tmp_path / "run")
    endless = SearchConfig(beam=beam, min_length=12)
    translation = translator.translate(["a b c"], search=endless)[0]
    assert len(translation.trace.target.pieces) == 12
    long = "a " * 12  # and the end
    assert translator.source_limit() == LengthLimit(12, "model.encoder.max_positions")
    for results in (
        translator.translate(["b", long, "a " * 11], beam=beam),
        translator.score([("b", "b"), ("b", long), ("a", "a " * 11)]),
        translator.score([("b", "b"), (long, "b"), ("a " * 11, "a")]),
    ):
        assert [each.is_refused for each in results] == [False, True, False]
        assert results[1].trace is None


def test_lines_beyond_the_learned_positions_are_reported(tmp_path, capsys, caplog):
    """The other lines are translated, evaluated and scored."""
    train(short(), tmp_path / "run")
    run, lines, pairs = (tmp_path / name for name in ("run", "lines.txt", "pairs.tsv"))
    long = "a " * 14
    lines.write_text(f"a b\n{long}\nb\n")
    pairs.write_text(f"a b\tb a\n{long}\ta\nb\tb\n")
    for words, status, message in (
        (["translate", run, lines], 1, "1 line of more than 12 tokens (line 2): no output (mod"),
        (["score", run, pairs], 1, "1 line of more than 12 tokens (line 2): no score"),
        (["evaluate", run, pairs], 0, "1 of 3 sources have more than 12 tokens (model.encoder."),
    ):
        assert command(list(map(str, words))) == status
        out, err = capsys.readouterr()
        assert message in err + caplog.text
        if words[0] != "evaluate":
            assert out.count("\n") == 3
    estimator = Translator()
    estimator.model_ = TranslationModel.load(run)
    with pytest.warns(UserWarning, match=r"1 of 2 texts have more than 12 tokens \(model.encoder"):
        assert list(estimator.predict(["a b", long]))[1] == ""
    limit = TranslationModel.load(run).source_limit(SearchConfig(max_source=12))
    assert limit == LengthLimit(12, "model.encoder.max_positions")
    assert TranslationModel.load(run).source_limit(SearchConfig(max_source=11)) == LengthLimit(11)


def test_dev_pairs_beyond_the_positions_are_left_out_and_counted(tmp_path):
    pairs = tmp_path / "dev.tsv"
    long = "a b\t" + "c " * 12 + "\n"
    experiment = short()
    data = replace(experiment.data, dev_path=pairs, dev_size=None)
    pairs.write_text(long)
    with raises(UserError, "model.encoder.max_positions"):
        train(replace(experiment, data=data), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    pairs.write_text(f"{long}a b\tb a\n")
    plans = []
    train(replace(experiment, data=data), tmp_path / "run", begin=lambda plan: plans.append(plan))
    check_message(*plans[0].left_out)


def test_vectors_from_a_file_are_fixed_on_both_sides(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tb a\nb a\ta b\n" * 5)
    words = ("<pad>", "<unk>", "<sos>", "<eos>", "a", "b")
    rows = {word: [number + part / 16 for part in range(16)] for number, word in enumerate(words)}
    vectors = tmp_path / "all.vec"
    experiment = attending(vectors=vectors)
    data = replace(
        experiment.data, synthetic=None, path=pairs, dev_size=0, test_size=0, vocabulary=("a", "b")
    )
    experiment = replace(experiment, data=data)
    lines = [" ".join([word, *map(str, row)]) for word, row in rows.items()]
    vectors.write_text("\n".join(lines) + "\n")
    train(experiment, tmp_path / "run")
    translator = TranslationModel.load(tmp_path / "run")
    for side, tokenizer in (
        (translator.model.encoder, translator.tokenizers.source),
        (translator.model.decoder, translator.tokenizers.target),
    ):
        for number, token in enumerate(tokenizer.vocabulary):
            row = side.embedder.embedding.weight[number].tolist()
            assert row == pytest.approx(rows[token])
