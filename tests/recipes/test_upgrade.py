"""Recipes of version 0.1: each family, its defaults, renamed fields, rejected mixtures."""

import re
from dataclasses import replace

import pytest

from regard import recipes
from regard.config import (
    BackboneEncoderConfig,
    BagOfWordsEncoderConfig,
    ConvolutionalEncoderConfig,
    Experiment,
    LastHeadConfig,
    MeanHeadConfig,
    RecurrentDecoderConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    resolve,
)
from regard.errors import UserError
from regard.recipes.upgrade import FORMAT, upgrade, upgrade_tensor_name
from tests import configs


def read(tmp_path, text, is_run=False):
    path = tmp_path / "old.yaml"
    path.write_text(text, encoding="utf8")
    experiment = recipes.load_run(path) if is_run else recipes.load(path)
    return resolve(experiment)


def model(tmp_path, text):
    return read(tmp_path, text).model


def test_a_recurrent_recipe_is_upgraded(tmp_path):
    text = (
        "model: {wiring: bahdanau, cell: gru, hidden: 64, encoder_hidden: 24, embedding: 32, "
        "bidirectional: true, layers: 2, keys: [0, 1], values: [2], neighbours: 1, "
        "memory_vectors: 3, looks_at_written: true, query: same_place, dropout: 0.2, "
        "tied: output, output: deep, attention: {score: additive, size: 11}}"
    )
    expected = configs.recurrent(
        size=64,
        encoder_size=48,
        embedding=32,
        cell="gru",
        layers=2,
        bidirectional=True,
        dropout=0.2,
        tied="output",
        wiring="bahdanau",
        output="deep",
        key_layers=(0, 1),
        value_layers=(2,),
        context_window=1,
        memory_vectors=3,
        intra_attention=True,
        query="same_position",
        attention=dict(score="additive", size=11),
    )
    assert model(tmp_path, text) == expected.resolve()


def test_defaults_of_version_0_1(tmp_path):
    assert model(tmp_path, "model: {family: recurrent}") == resolve(Experiment()).model
    small = model(tmp_path, "model: {hidden: 16}").decoder
    assert (small.embedding, small.attention.size) == (256, 256)
    transformer = model(tmp_path, "model: {family: transformer, size: 128}")
    assert (transformer.encoder.feed_forward, transformer.dropout) == (1024, 0.1)
    classifier = read(tmp_path, "model: {family: classifier}")
    assert classifier.data.task == "classify"
    assert classifier.model.encoder.bidirectional
    assert (classifier.model.encoder.size, classifier.model.head.attention.size) == (256, 128)
    captioner = model(tmp_path, "data: {task: caption}\nmodel: {family: captioner}")
    decoder = captioner.decoder
    assert (decoder.wiring, decoder.output, decoder.gate) == ("bahdanau", "summed", True)
    assert (decoder.embedding, decoder.attention.doubly_stochastic) == (128, 1.0)


def test_a_decoder_without_attention_loses_its_attention(tmp_path):
    decoder = model(tmp_path, "model: {wiring: plain, attention: {score: dot}}").decoder
    assert decoder == RecurrentDecoderConfig(wiring="plain").resolve(256, 0.0)


def test_a_transformer_recipe_is_upgraded(tmp_path):
    text = (
        "model: {family: transformer, size: 16, layers: 4, decoder_layers: 2, heads: 2, "
        "feed_forward: 9, positions: learned, longest: 300, norm: post, window: 3, "
        "attention: {score: general, size: 7, normaliser: sparsemax}}"
    )
    parts = model(tmp_path, text)
    assert isinstance(parts.encoder, TransformerEncoderConfig)
    assert isinstance(parts.decoder, TransformerDecoderConfig)
    assert (parts.encoder.layers, parts.decoder.layers) == (4, 2)
    for part in (parts.encoder, parts.decoder):
        assert (part.size, part.heads, part.feed_forward) == (16, 2, 9)
        assert (part.max_positions, part.norm, part.window) == (300, "post", 3)
        assert (part.attention.normaliser, part.attention.size) == ("sparsemax", None)


@pytest.mark.parametrize(
    ("fields", "encoder", "head"),
    [
        (
            "encoder: transformer, embedding: 8, pool: mean",
            TransformerEncoderConfig,
            MeanHeadConfig,
        ),
        ("encoder: recurrent, pool: last, hidden: 7", None, LastHeadConfig),
        ("encoder: embedding, embedding: 8, query: last", BagOfWordsEncoderConfig, None),
    ],
)
def test_classifier_recipes_are_upgraded(tmp_path, fields, encoder, head):
    parts = model(tmp_path, f"data: {{task: classify}}\nmodel: {{{fields}}}")
    assert encoder is None or (type(parts.encoder), parts.encoder.size) == (encoder, 8)
    assert head is None or type(parts.head) is head
    if head is None:
        assert parts.head.query == "last"
    if encoder is None:
        assert parts.encoder.size == 14


def test_captioner_recipes_are_upgraded(tmp_path):
    recipe = "data: {task: caption, pictures: here, picture_size: 32}\nmodel: "
    hard = read(tmp_path, recipe + "{channels: [4, 8], looks: hard, gate: false, reward: 0.1}")
    assert (str(hard.data.images), hard.data.image_size) == ("here", 32)
    assert hard.model.encoder == ConvolutionalEncoderConfig(channels=(4, 8), dropout=0.1)
    attention = hard.model.decoder.attention
    assert (attention.sampling, attention.reward) == ("hard", 0.1)
    assert attention.doubly_stochastic == 0
    text = "{decoder: transformer, size: 16, channels: [4, 8], heads: 2}"
    parts = model(tmp_path, recipe + text)
    assert parts.encoder.channels == (4, 16)
    assert (parts.decoder.kind, parts.decoder.size, parts.decoder.layers) == ("transformer", 16, 2)
    backbone = model(tmp_path, recipe + "{backbone: some/net, backbone_learns: true}").encoder
    assert backbone == BackboneEncoderConfig(name="some/net", fine_tune=True, size=128, dropout=0.1)


def test_renamed_fields_are_upgraded(tmp_path):
    text = "data: {generated: copy, generated_size: 9, one_source_length: true}"
    data = read(tmp_path, text + "\ntraining: {forced_by: token}").data
    assert (data.synthetic, data.synthetic_size, data.equal_lengths) == ("copy", 9, True)
    numbers = read(tmp_path, "data: {task: classify, answer: number}").data
    assert numbers.target == "number"


@pytest.mark.parametrize("head", ["format: 2\n", ""])
def test_columns_of_tables_have_new_names(tmp_path, head):
    path = tmp_path / "old.yaml"
    path.write_text(f"{head}data: {{task: classify, text_column: a, label_column: [b, c]}}\n")
    data = recipes.load(path).data
    assert (data.source_column, data.target_column) == ("a", ("b", "c"))
    path.write_text("data: {task: classify, text_column: a, source_column: b}\n")
    with pytest.raises(UserError, match=r"data\.text_column is an old name of data\.source_column"):
        recipes.load(path)


@pytest.mark.parametrize(
    ("recipe", "seed"), [("", 1), ("training: {seed: 3}", 3), ("data: {seed: 5}", 5)]
)
def test_old_runs_take_the_data_seed_from_the_training_seed(tmp_path, recipe, seed):
    assert read(tmp_path, recipe, is_run=True).data.seed == seed
    assert read(tmp_path, recipe).data.seed == (5 if seed == 5 else 1)


def test_recipes_of_the_current_format_are_unchanged(tmp_path):
    experiment = Experiment(model=configs.translation("bag_of_words", "transformer", size=8))
    text = recipes.dump(resolve(experiment))
    assert text.startswith(f"format: {FORMAT}\n")
    assert read(tmp_path, text, is_run=True) == replace(resolve(experiment))
    values = {"model": {"size": 8}, "data": {"limit": 3}}
    assert upgrade(values, is_run=False) == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("format: 1\nmodel: {encoder: {kind: transformer}}", "write the line `format: 2`"),
        ("format: 1\ndata: {task: classify}\nmodel: {head: mean}", "model.head has fields of"),
        ("model: {hidden: 8, decoder: {size: 8}}", "also has model.decoder: write model.size"),
        ("model: {family: classifier, encoder: {size: 8}}", "also has model.encoder: leave it out"),
        ("data: {generated: copy, synthetic: reverse}", "has both: leave data.generated"),
        (
            "data: {task: translate}\nmodel: {family: classifier}",
            "model.family is classifier, which is of data.task classify, but",
        ),
    ],
)
@pytest.mark.parametrize("is_run", [False, True])
def test_contradictions_between_formats_are_named(tmp_path, text, words, is_run):
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        read(tmp_path, text, is_run=is_run)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_run_without_its_format_is_rejected(tmp_path):
    text = recipes.dump(resolve(Experiment()))
    with pytest.raises(UserError, match="write the line `format: 2`"):
        read(tmp_path, text.replace("format: 2\n", ""), is_run=True)


def test_a_recipe_with_fields_of_both_formats_is_rejected(tmp_path):
    with pytest.raises(UserError, match=r"data.generated is a field of version 0.1, .* data.synth"):
        read(tmp_path, "data: {generated: copy}\nmodel: {decoder: {kind: transformer}}")


@pytest.mark.parametrize(
    "text",
    [
        "model: 3",
        "data: [1]",
        "model: {family: [recurrent]}",
        "model: {hidden: many}",
        "model: {hidden: 4, bidirectional: 2}",
        "model: {hidden: 4, attention: additive}",
        "data: {task: caption}\nmodel: {channels: many}",
        "data: {task: classify}\nmodel: {encoder: [1], pool: {a: 1}}",
        "data: {task: [1]}\nmodel: {hidden: 4}",
        "training: 3",
    ],
)
@pytest.mark.parametrize("is_run", [False, True])
def test_invalid_values_are_named(tmp_path, text, is_run):
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, is_run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("decoder.look.attention.score.vector", "decoder.attention.attention.score.vector"),
        ("decoder.look.look.attention.soft", "decoder.attention.attention.attention.soft"),
        ("decoder.look.looks.1.attention", "decoder.attention.attentions.1.attention"),
        ("decoder.look.gate.bias", "decoder.attention.gate.bias"),
        ("decoder.look.query.query", "decoder.attention.query.vector"),
        ("attention.score.query.weight", "attention.score.query.weight"),
        ("attention.score.shared.weight", "attention.score.shared.weight"),
        ("attention.score.joined.bias", "attention.score.projection.bias"),
        ("attention.score.past.taken.weight", "attention.score.history.projection.weight"),
        ("attention.score.past.seen.weight", "attention.score.history.projection.weight"),
        ("attention.score.past.filters.weight", "attention.score.history.filters.weight"),
        ("decoder.parts.output.joined.weight", "decoder.parts.output.projection.weight"),
        ("decoder.layers.0.around_cross.norm", "decoder.layers.0.cross_residual.norm"),
        ("decoder.layers.0.around_self.norm", "decoder.layers.0.self_residual.norm"),
        ("layers.1.around_feed_forward.norm", "layers.1.feed_forward_residual.norm"),
        ("encoder.places.vectors", "encoder.positions.vectors"),
        ("encoder.into.weight", "encoder.projection.weight"),
        ("encoder.backbone.network.places.into", "encoder.backbone.network.places.into"),
        ("encoder.embedder.embedding.weight", "encoder.embedder.embedding.weight"),
        ("readout.pool.query.query", "head.pool.query.vector"),
        ("readout.output.bias", "head.output.bias"),
        ("remember.remember.vectors", "build_memory.build_memory.vectors"),
    ],
)
def test_tensors_of_version_0_1_have_new_names(old, new):
    assert upgrade_tensor_name(old, 1) == new
    assert upgrade_tensor_name(new, 1) == new
    assert upgrade_tensor_name(old, FORMAT) == old


def test_frozen_modules_have_new_names(tmp_path):
    recipe = "model: {hidden: 4}\ntraining: {freeze: [encoder.embedding, decoder.look, readout]}"
    experiment = read(tmp_path, recipe)
    assert experiment.training.freeze == ("encoder.embedding", "decoder.attention", "head")
