"""Scheduled sampling in two passes, compared with the loop step by step."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from regard.building.translators import build_translation
from regard.data.batch import pair_batch, with_targets
from regard.data.special_tokens import END, PAD
from regard.models.contracts import Measure, Penalty
from regard.models.seq2seq import predicted_inputs
from tests import configs
from tests.contracts.choices import EXPERTS

CONFIG = configs.recurrent(size=7, embedding=5, bridge="linear", attention=dict(size=11))
SOURCES = [[4, 5, 6, 2], [7, 8, 2], [9, 10, 11, 12, 2]]
TARGETS = [[4, 5, 2], [6, 7, 8, 9, 2], [10, 2]]


def loop_logits(model, batch, forced):
    """Return the logits of the textbook loop: each input is the true token, if it has no target or
    is forced, or the most probable token before that an output can continue after."""
    state = model.decoder.start(model.encode(batch.source))
    token, rows = batch.inputs[:, :1], []
    for position in range(batch.inputs.size(1)):
        if position:
            logits = rows[-1].detach().clone()
            logits[:, [PAD, END]] = -math.inf
            true = batch.inputs[:, position]
            is_true = forced[:, position] | ~batch.mask[:, position]
            token = torch.where(is_true, true, logits.argmax(dim=-1))[:, None]
        output, state = model.decoder.step(token, state)
        rows.append(model.decoder.project(output.features)[:, 0])
    return torch.stack(rows, dim=1)[batch.mask]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 999), wiring=st.sampled_from(["bahdanau", "luong"]))
def test_mixed_teacher_forcing_has_the_gradients_of_a_plain_loop(seed, wiring):
    torch.manual_seed(seed)
    model = build_translation(
        configs.recurrent(size=7, embedding=5, wiring=wiring, attention=dict(size=11)),
        13,
        17,
    ).double()
    batch = pair_batch(SOURCES, TARGETS)
    forced = torch.rand(batch.inputs.shape) < 0.5

    ours = model(batch, forced)
    F.cross_entropy(ours.logits, ours.targets).backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    plain = loop_logits(model, batch, forced)
    F.cross_entropy(plain, batch.outputs[batch.mask]).backward()

    torch.testing.assert_close(ours.logits, plain)
    for gradient, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_share_one_is_teacher_forcing():
    model = build_translation(CONFIG, 13, 17)
    batch = pair_batch(SOURCES, TARGETS)
    forced = model(batch, torch.ones_like(batch.mask))
    assert torch.equal(forced.logits, model(batch).logits)
    assert forced.targets.tolist() == [token for target in TARGETS for token in target]


def test_share_zero_feeds_the_models_own_predictions():
    torch.manual_seed(5)
    model = build_translation(CONFIG, 13, 17)
    batch = pair_batch(SOURCES, TARGETS)
    free = model(batch, torch.zeros_like(batch.mask))
    torch.testing.assert_close(free.logits, loop_logits(model, batch, torch.zeros_like(batch.mask)))
    assert not torch.allclose(free.logits, model(batch).logits)


@pytest.mark.parametrize(
    "config",
    [
        configs.transformer(size=12, heads=2, layers=1, dropout=0.0, experts=EXPERTS),
        configs.recurrent(size=8, layers=2, connections="residual", experts=EXPERTS),
    ],
    ids=["transformer", "recurrent"],
)
def test_predictions_with_experts_are_those_of_the_loop(config):
    """END and padding have no experts. A model that prefers them feeds neither within a target,
    and the inputs without a target stay."""
    torch.manual_seed(6)
    model = build_translation(config, 13, 17).double().eval()
    nn.init.constant_(model.decoder.projection.bias[END : END + 1].detach(), 9.0)
    nn.init.constant_(model.decoder.projection.bias[PAD : PAD + 1].detach(), 9.0)
    batch = pair_batch(SOURCES, TARGETS)
    forced = torch.zeros_like(batch.mask)
    inputs = predicted_inputs(model.decoder, model.encode(batch.source), batch.inputs, forced)
    assert torch.equal(inputs[~batch.mask], batch.inputs[~batch.mask])
    assert not torch.isin(inputs[batch.mask], torch.tensor([PAD, END])).any()
    torch.testing.assert_close(model(batch, forced).logits, loop_logits(model, batch, forced))


class Reporting(nn.Module):
    """Encoder or decoder that adds a penalty and a measure to its output."""

    def __init__(self, inner, name):
        super().__init__()
        self.inner, self.name = inner, name

    def __getattr__(self, name):
        return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)

    def forward(self, *arguments, **options):
        output = self.inner(*arguments, **options)
        terms = Penalty(self.name, torch.ones(())), Measure(self.name, torch.ones(()))
        return replace(output, penalties=(terms[0],), measures=(terms[1],))


def test_penalties_and_measures_of_both_parts_reach_the_output():
    model = build_translation(CONFIG, 13, 17)
    model.encoder = Reporting(model.encoder, "encoder")
    model.decoder = Reporting(model.decoder, "decoder")
    output = model(pair_batch(SOURCES, TARGETS))
    for terms in (output.penalties, output.measures):
        assert [term.name for term in terms] == ["encoder", "decoder"]


@pytest.mark.parametrize(
    "config",
    [
        configs.recurrent(size=7, cell="lstm", attention=dict(size=5)),
        configs.transformer(size=6, heads=2),
        configs.translation("dilated_convolution", "dilated_convolution", size=6),
    ],
    ids=lambda config: config.decoder.kind,
)
def test_targets_that_share_a_source_equal_repeated_sources(config):
    """With their gradients."""
    torch.manual_seed(2)
    model = build_translation(config, 11, 13).double()
    sources = [[5, 6, 7, 2], [8, 2], [9, 10, 2]]
    targets, rows = [[4, 5, 2], [6, 2], [7, 8, 9, 2], [2]], [2, 0, 0, 1]
    shared = replace(
        with_targets(pair_batch(sources, targets[:3]).source, targets), rows=torch.tensor(rows)
    )
    repeated = pair_batch([sources[row] for row in rows], targets)
    values, gradients = [], []
    for batch in (shared, repeated):
        output = model(batch)
        values.append(output.features)
        loss = (output.features * torch.linspace(-1, 1, output.features.size(1))).sum()
        gradients.append(torch.autograd.grad(loss, [*model.parameters()], allow_unused=True))
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)
