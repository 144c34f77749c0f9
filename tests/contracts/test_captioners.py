"""Properties of every captioner, as of sequence models."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.building.captioners import build_captioner
from regard.compiled.freeze import freeze
from regard.data.batch import PAD, START, GridFeatures, Images, pad
from regard.models.vision.backbone import Backbone
from regard.numerics import linear
from regard.search import BeamSettings, Limits, NoPenalty, beam, forced, greedy
from tests import configs
from tests.contracts.choices import BACKBONE, CAPTIONERS, DECODER_MAPS, small

SIDE, NUM_WORDS = 16, 17


class Network(nn.Module):
    """Pretrained network whose features come with the data."""

    def forward(self, pixel_values):
        return SimpleNamespace(last_hidden_state=torch.zeros(len(pixel_values), *BACKBONE))


def configured(name):
    """Return the model section of a captioner; recurrent decoders have one layer by default."""
    values = dict(CAPTIONERS[name])
    kinds = {part: values.pop(part) for part in ("encoder", "decoder") if part in values}
    config = configs.captioner(**kinds)
    sizes = small(config.encoder, config.decoder)
    if config.decoder.kind == "recurrent":
        sizes["layers"] = 1
    return configs.changed(config, **sizes | values)


@pytest.fixture(params=CAPTIONERS)
def model(request):
    torch.manual_seed(3)
    config = configured(request.param)
    return build_captioner(config, SIDE, NUM_WORDS, Backbone(Network())).eval()


@pytest.fixture
def heads(request):
    """Return the numbers of layers and heads of the attention to the image; none without
    attention."""
    decoder = configured(request.node.callspec.params["model"]).decoder
    maps = DECODER_MAPS[decoder.kind](decoder)
    return [maps["cross 0"]] if "cross 0" in maps else []


@pytest.fixture
def source(request):
    generator = torch.Generator().manual_seed(5)
    if request.node.callspec.params["model"] == "grid features":
        return GridFeatures(torch.randn(3, *BACKBONE, generator=generator))
    return Images(torch.randint(0, 256, (3, 3, SIDE, SIDE), generator=generator).byte())


INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])


def source_weights(output):
    """Return the weights of the attention to the image: one tensor, or none without attention."""
    return [block.weights for block in output.attention if block.kind == "image"]


@torch.no_grad()
def test_steps_equal_a_forced_pass(model, source):
    memories = model.encode(source)
    whole = model.decoder(INPUTS, memories, need_weights=True)
    state = model.decoder.start(memories)
    for position in range(4):
        token = INPUTS[:, position : position + 1]
        step, state = model.decoder.step(token, state, need_weights=True)
        torch.testing.assert_close(step.features[:, 0], whole.features[:, position])
        for weights, line in zip(source_weights(step), source_weights(whole), strict=True):
            torch.testing.assert_close(weights[..., 0, :], line[..., position, :])


@torch.no_grad()
def test_returning_weights_changes_no_output(model, source, heads):
    memories = model.encode(source)
    with_weights = model.decoder(INPUTS, memories, need_weights=True)
    plain = model.decoder(INPUTS, memories)
    torch.testing.assert_close(with_weights.features, plain.features)
    assert plain.attention == ()
    for weights, layers_and_heads in zip(source_weights(with_weights), heads, strict=True):
        assert weights.shape == (3, *layers_and_heads, 4, 16)
        sums = weights.sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))


@torch.no_grad()
def test_a_batch_equals_one_by_one(model, source):
    together = model.decoder(INPUTS, model.encode(source), need_weights=True)
    for row in range(3):
        alone = model.encode(type(source)(source.values[row : row + 1]))
        single = model.decoder(INPUTS[row : row + 1], alone, need_weights=True)
        torch.testing.assert_close(single.features[0], together.features[row])
        for weights, batched in zip(source_weights(single), source_weights(together), strict=True):
            torch.testing.assert_close(weights[0], batched[row])


@torch.no_grad()
def test_several_captions_of_an_image_equal_several_images(model, source):
    rows = torch.tensor([1, 1, 0, 2])
    inputs = INPUTS[[0, 1, 2, 0]]
    once = model.decoder(inputs, model.encode(type(source)(source.values, rows)))
    often = model.decoder(inputs, model.encode(type(source)(source.values[rows])))
    torch.testing.assert_close(once.features, often.features)


def test_two_calls_give_equal_outputs_and_keep_no_state(model, source):
    before = {key: value.clone() for key, value in model.state_dict().items()}
    memories = model.encode(source)
    first = model.decoder(INPUTS, memories).features
    model.decoder(INPUTS.flip(0), model.encode(source))
    assert torch.equal(first, model.decoder(INPUTS, memories).features)
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


@torch.no_grad()
def test_state_selects_hypotheses_and_keeps_images(model, source):
    decoder = model.decoder
    _, state = decoder.step(torch.full((3, 1), START), decoder.start(model.encode(source)))
    state = state.select(torch.zeros(3, 2, dtype=torch.long))
    tokens = torch.tensor([[4, 5], [6, 7], [8, 9]])
    _, state = decoder.step(tokens, state)
    straight, _ = decoder.step(tokens, state)
    swapped, _ = decoder.step(tokens.flip(1), state.select(torch.tensor([[1, 0]] * 3)))
    kept, _ = decoder.step(tokens[[2, 0]], state.keep(torch.tensor([2, 0])))
    torch.testing.assert_close(swapped.features.flip(1), straight.features)
    torch.testing.assert_close(kept.features, straight.features[[2, 0]])


@torch.no_grad()
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])
def test_a_model_frozen_in_bfloat16_gives_nearly_the_same_numbers(
    monkeypatch, model, source, packed
):
    """Weights are packed if oneDNN supports bfloat16 on this CPU, else unpacked."""
    expected = model.decoder.project(model.decoder(INPUTS, model.encode(source)).features)
    if not packed:
        monkeypatch.setattr(linear, "_TYPES", ())
    frozen = freeze(model, torch.bfloat16)
    output = frozen.decoder(INPUTS, frozen.encode(source), need_weights=True)
    logits = frozen.decoder.project(output.features)
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(logits.float(), expected, rtol=0.1, atol=0.1)


LIMITS = Limits(start=START, end=2, maximum=torch.tensor([7, 5, 3]), forbidden=(PAD, START))


def test_every_search_returns_the_attention_of_its_output(model, source):
    """Attention gathered step by step in greedy and beam search equals that of forced decoding."""
    memories = model.encode(source)
    alone = greedy(model.decoder, memories, LIMITS, need_weights=True)
    single_beam = beam(
        model.decoder, memories, LIMITS, BeamSettings(1, 1, NoPenalty()), need_weights=True
    )
    assert [each.tokens for each in alone] == [best.tokens for (best,) in single_beam]
    several = beam(model.decoder, memories, LIMITS, BeamSettings(5, 3), need_weights=True)
    for row, hypotheses in enumerate(several):
        for hypothesis in (alone[row], *hypotheses):
            written = pad([hypothesis.tokens])
            inputs = torch.nn.functional.pad(written.ids[:, :-1], (1, 0), value=START)
            picture = model.encode(type(source)(source.values[row : row + 1]))
            read = forced(
                model.decoder, picture, inputs, written.ids, written.mask, need_weights=True
            )
            expected = torch.tensor(hypothesis.log_probabilities)
            torch.testing.assert_close(read.log_probabilities[0], expected)
            for gathered, weights in zip(
                source_weights(hypothesis), source_weights(read), strict=True
            ):
                torch.testing.assert_close(gathered, weights[0])
