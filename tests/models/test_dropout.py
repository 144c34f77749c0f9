"""Each dropout of the settings has an effect in training, and none in evaluation."""

import pytest
import torch
from torch import nn

from regard.building.translators import build_translation
from regard.data.batch import START, pad
from tests import configs

ATTENTION = dict(size=11)
RECURRENT = configs.recurrent(size=37, embedding=31, layers=2, attention=ATTENTION)
TRANSFORMER = configs.transformer(
    size=28, heads=7, layers=1, feed_forward=31, dropout=0.0, attention=ATTENTION
)
SHARE = 0.4
EMBEDDINGS_AND_LAYERS = (
    "encoder.dropout",
    "encoder.stack.dropout",
    "decoder.parts.dropout",
    "decoder.parts.stack.dropout",
)
WEIGHTS = ATTENTION | dict(dropout=SHARE)
SUBLAYERS = {"encoder": ("self", "feed_forward"), "decoder": ("self", "cross", "feed_forward")}


def of_heads(side, kind):
    return f"{side}.layers.0.{kind}_attention.heads.attention.dropout"


CASES = {
    **{
        f"{wiring}, {feeding}": (
            configs.changed(RECURRENT, wiring=wiring, feeding=feeding, dropout=SHARE),
            EMBEDDINGS_AND_LAYERS,
        )
        for wiring, feeding in (
            ("bahdanau", "none"),
            ("luong", "none"),
            ("luong", "attentional"),
            ("plain", "none"),
        )
    },
    **{
        f"weights, {wiring}": (
            configs.changed(RECURRENT, wiring=wiring, attention=WEIGHTS),
            ("decoder.attention.attention.dropout",),
        )
        for wiring in ("bahdanau", "luong")
    },
    **{
        f"transformer, {norm}": (
            configs.changed(TRANSFORMER, norm=norm, dropout=SHARE),
            (
                "encoder.embedder.dropout",
                "decoder.embedder.dropout",
                *(
                    f"{side}.layers.0.{kind}_residual.dropout"
                    for side, kinds in SUBLAYERS.items()
                    for kind in kinds
                ),
            ),
        )
        for norm in ("pre", "post")
    },
    "transformer, units": (
        configs.changed(TRANSFORMER, activation_dropout=SHARE),
        tuple(f"{side}.layers.0.feed_forward.dropout" for side in SUBLAYERS),
    ),
    **{
        f"transformer, weights, {score}": (
            configs.changed(TRANSFORMER, attention=WEIGHTS | dict(score=score)),
            (
                of_heads("encoder", "self"),
                of_heads("decoder", "self"),
                of_heads("decoder", "cross"),
            ),
        )
        for score in ("scaled_dot", "additive")
    },
}


def dropouts(model):
    """Return the dropouts with an effect, by name."""
    modules = dict(model.named_modules())
    return {name: each for name, each in modules.items() if isinstance(each, nn.Dropout) and each.p}


def features(model, seed):
    torch.manual_seed(seed)
    source = pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]])
    inputs = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])
    return model.decoder(inputs, model.encode(source)).features


@pytest.fixture(params=CASES)
def case(request):
    config, names = CASES[request.param]
    torch.manual_seed(5)
    return build_translation(config, 13, 17), names


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def built(request, case):
    """Build a model for the kernels and for PyTorch's layers."""
    model, names = case
    return model.to(request.param), names


def test_each_place_drops_in_training_and_none_afterwards(built):
    model, names = built
    result = dropouts(model)
    assert result.keys() == set(names)
    assert {each.p for each in result.values()} == {SHARE}
    whole = features(model.eval(), seed=1).detach()
    assert torch.equal(features(model, seed=2), whole)
    model.train()
    for name in names:
        for other, dropout in result.items():
            dropout.p = SHARE if other == name else 0.0
        first, second = features(model, seed=1), features(model, seed=2)
        assert not torch.allclose(first, whole), name
        assert not torch.allclose(first, second), name
    for dropout in result.values():
        dropout.p = 0.0
    torch.testing.assert_close(features(model, seed=1).detach(), whole)


@pytest.mark.parametrize("wiring", ["bahdanau", "luong", "plain"])
def test_a_recurrent_decoder_drops_of_its_inputs_and_before_the_logits(wiring):
    """One module serves both places."""
    torch.manual_seed(6)
    model = build_translation(configs.changed(RECURRENT, wiring=wiring), 13, 17).double()
    whole = features(model, seed=1)
    model.decoder.parts.dropout.p = SHARE
    result = features(model, seed=1)
    is_kept = result != 0
    assert is_kept.double().mean() == pytest.approx(1 - SHARE, abs=0.1)
    assert not torch.isclose(result * (1 - SHARE), whole)[is_kept].all()
