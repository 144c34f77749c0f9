"""Models with int8 weights give a text the same numbers in every batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import kernels
from regard.building.translators import build_translation
from regard.compiled.freeze import freeze
from regard.data.batch import Tokens
from regard.numerics.int8_panels import IntegerPanels
from regard.numerics.linear import PackedWeight
from tests import configs
from tests.contracts.choices import EXPERTS

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

TRANSFORMER = dict(size=16, heads=2, layers=2, feed_forward=24)
RECURRENT = dict(size=16, embedding=8, attention=dict(size=8))
EXACT = {
    "transformer": configs.transformer(**TRANSFORMER),
    "rotary": configs.transformer(**TRANSFORMER, positions="rotary", norm="post"),
    "bahdanau": configs.recurrent(**RECURRENT, wiring="bahdanau"),
    "luong": configs.recurrent(**RECURRENT, wiring="luong", layers=2),
    "mean of states": configs.translation("transformer", "recurrent", size=16, heads=2, layers=2),
    "plain": configs.recurrent(size=16, embedding=8, wiring="plain"),
}
VARYING = {
    "experts": configs.transformer(**TRANSFORMER, experts=EXPERTS),
    "encoder experts": configs.transformer(**TRANSFORMER, encoder_experts=EXPERTS),
    "decoder experts": configs.transformer(**TRANSFORMER, decoder_experts=EXPERTS),
    "recurrent experts": configs.recurrent(
        **RECURRENT, layers=3, wiring="gnmt", connections="residual", experts=EXPERTS
    ),
    "gnmt": configs.recurrent(**RECURRENT, layers=3, wiring="gnmt", connections="residual"),
    "location": configs.recurrent(size=16, embedding=8, attention=dict(size=8, score="location")),
    "sigmoid": configs.recurrent(
        size=16, embedding=8, attention=dict(size=8, normaliser="sigmoid")
    ),
    "memory vectors": configs.recurrent(**RECURRENT, memory_vectors=3),
    "intra-decoder": configs.recurrent(**RECURRENT, intra_attention=True),
    "convolution": configs.translation("gated_convolution", "gated_convolution", size=16),
    "general": configs.transformer(**TRANSFORMER, attention=dict(score="general")),
    "window": configs.transformer(**TRANSFORMER, window=1),
}
LENGTHS = torch.tensor([37, 2, 5, 7, 19, 9, 4, 31])


def largest_difference(config, seed: int, *, need_weights: bool) -> tuple[float, bool]:
    """Return the largest difference between logits of a text alone and in a batch, and whether a
    weight is int8."""
    torch.manual_seed(seed)
    model = build_translation(config, 13, 17).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    frozen = freeze(model, torch.int8)
    mask = torch.arange(37) < LENGTHS[:, None]
    ids = torch.randint(4, 13, mask.shape) * mask
    inputs = torch.randint(4, 17, (len(ids), 5))

    def logits(ids: torch.Tensor, mask: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        memories, _ = frozen.encode_with_attention(Tokens(ids, mask), need_weights=need_weights)
        state, steps = frozen.decoder.start(memories), []
        for tokens in inputs.unbind(1):
            output, state = frozen.decoder.step(tokens[:, None], state, need_weights=need_weights)
            steps.append(frozen.decoder.project(output.features))
        return torch.cat(steps, dim=1)

    with torch.inference_mode():
        together = logits(ids, mask, inputs)
        alone = [
            logits(ids[row : row + 1, :length], mask[row : row + 1, :length], inputs[row : row + 1])
            for row, length in enumerate(LENGTHS.tolist())
        ]
    panels = [weight.panels for weight in frozen.parameters() if isinstance(weight, PackedWeight)]
    is_int8 = any(isinstance(each, IntegerPanels) for each in panels)
    return float((torch.cat(alone) - together).abs().max()), is_int8


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", range(3))
def test_int8_models_do_not_depend_on_the_batch(name: str, seed: int, need_weights: bool):
    assert largest_difference(EXACT[name], seed, need_weights=need_weights) == (0.0, True)


@pytest.mark.parametrize("name", VARYING)
def test_models_that_depend_on_padding_stay_in_float32(name: str, caplog):
    difference, is_int8 = largest_difference(VARYING[name], 0, need_weights=False)
    assert difference < 1e-5
    assert not is_int8
    assert "int8 is not used" in caplog.text
