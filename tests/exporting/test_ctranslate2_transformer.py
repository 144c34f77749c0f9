"""Exported Transformers have the probabilities of the model in CTranslate2."""

import pytest
import torch

from regard.building.translators import build_translation
from regard.config import ExpertsConfig
from regard.data.batch import pair_batch
from regard.data.special_tokens import SPECIAL
from regard.errors import UserError
from regard.models.memory import first_and_last
from regard.search import forced
from tests import configs, needs

ctranslate2 = needs.export("ctranslate2")
exporting = needs.export("regard.exporting.ctranslate2_transformer")

SOURCE = exporting.Vocabularies([*SPECIAL, *"abcdefghi"], [*SPECIAL, *"ABCDEFGHIJKLM"], True)
SOURCES = [[4, 5, 6, 7, 2], [8, 2], [9, 10, 11, 4, 5, 6, 2]]
TARGETS = [[4, 5, 6, 9, 2], [7, 2], [5, 5, 5, 16, 12, 2]]

MODELS = {
    "pre": {},
    "post": dict(norm="post"),
    "learned": dict(positions="learned", max_positions=31),
    "rotary": dict(positions="rotary"),
    "gelu": dict(activation="gelu"),
    "fewer layers to write": dict(decoder_layers=1),
    "tied": dict(tied="output"),
}
MODELS |= {
    name: dict(attention=dict(score=name, temperature=0.7))
    for name in ("dot", "scaled_dot", "general")
}


def build(source_vocabulary_size=13, target_vocabulary_size=17, **changes):
    torch.manual_seed(5)
    fields = dict(size=20, heads=2, layers=2, feed_forward=29) | changes
    model = build_translation(
        configs.transformer(**fields), source_vocabulary_size, target_vocabulary_size
    )
    for parameter in model.parameters():  # biases that start at zero could be lost unseen
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def texts(vocabulary, sentences):
    """Pieces without the end, which CTranslate2 puts there itself."""
    return [[vocabulary[number] for number in sentence[:-1]] for sentence in sentences]


def log_probabilities(model, vocabularies, folder):
    """Return log probabilities of every target token, by CTranslate2."""
    exporting.save_transformer(model, vocabularies, folder)
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    sources, targets = texts(vocabularies.source, SOURCES), texts(vocabularies.target, TARGETS)
    return [each.log_probs for each in translator.score_batch(sources, targets)]


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)
def test_probabilities_equal_those_of_the_model(changes, tmp_path):
    model = build(**changes)
    batch = pair_batch(SOURCES, TARGETS)
    ours = forced(
        model.decoder, model.encode(batch.source), batch.inputs, batch.outputs, batch.mask
    )
    result = log_probabilities(model, SOURCE, tmp_path)
    for row, target, values in zip(ours.log_probabilities, TARGETS, result, strict=True):
        torch.testing.assert_close(torch.tensor(values), row[: len(target)], rtol=1e-5, atol=1e-5)


def test_one_vocabulary_for_both_sides_is_stored_once(tmp_path):
    pieces = [*SPECIAL, *"abcdefghi"]
    model = build(13, 13, tied="all")
    exporting.save_transformer(model, exporting.Vocabularies(pieces, pieces, True), tmp_path)
    assert (tmp_path / "shared_vocabulary.json").exists()
    weights = sum(parameter.numel() for parameter in model.parameters())
    positions = exporting.LONGEST * 20
    assert (tmp_path / "model.bin").stat().st_size < 4 * (weights + positions) + 10_000


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (dict(score="additive"), "softmax of Additive"),
        (dict(score="cosine"), "softmax of Cosine"),
        (dict(score="scaled_dot", normaliser="scaled_softmax"), "scaled_softmax of ScaledDot"),
    ],
)
def test_unsupported_attention_is_named(given, named):
    model = build(attention=dict(size=11, **given))
    with pytest.raises(UserError, match=named):
        exporting.transformer_spec(model, SOURCE)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (dict(window=2), "self-attention has a window"),
        (dict(experts=ExpertsConfig(number=3)), "layers have experts"),
        (
            dict(positions="rotary", attention=dict(score="general")),
            "after rotation",
        ),
    ],
)
def test_models_that_ctranslate2_computes_differently_are_rejected(given, named):
    with pytest.raises(UserError, match=named):
        exporting.transformer_spec(build(**given), SOURCE)


def test_other_models_are_refused():
    with pytest.raises(UserError, match="LuongDecoder: use --to onnx"):
        exporting.transformer_spec(build_translation(configs.recurrent(), 13, 17), SOURCE)
    for kinds in (("transformer", "recurrent"), ("recurrent", "transformer")):
        mixed = build_translation(configs.translation(*kinds, size=8), 13, 17)
        with pytest.raises(UserError, match="no export format supports this combination"):
            exporting.transformer_spec(mixed, SOURCE)
    model = build()
    model.build_memory = first_and_last
    with pytest.raises(UserError, match="top layer"):
        exporting.transformer_spec(model, SOURCE)
