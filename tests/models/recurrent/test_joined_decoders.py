"""Gradients of decoders that run step by step, with and without joining."""

from __future__ import annotations

import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import pair_batch
from regard.numerics.joined_gradients import JoinedParameters
from regard.training.objectives.objective import NextToken
from regard.training.schedule import Progress
from tests import configs

ROWS = [[4, 5, 6, 7], [5, 6], [8, 4, 4]]
DECODERS = {
    "lstm": dict(feeding="attentional"),
    "gru": dict(cell="gru", feeding="attentional"),
    "elman": dict(cell="elman", feeding="context", attention=dict(score="general")),
    "two layers": dict(feeding="attentional", decoder_layers=2, encoder_layers=2),
    "bahdanau": dict(wiring="bahdanau", attention=dict(score="general")),
    "gnmt": dict(wiring="gnmt", decoder_layers=3, attention=dict(score="general")),
    "coverage": dict(wiring="bahdanau", attention=dict(score="coverage", size=5)),
    "location": dict(wiring="bahdanau", attention=dict(score="location", size=5)),
    "hard": dict(wiring="bahdanau", attention=dict(sampling="straight_through")),
    "local": dict(feeding="attentional", attention=dict(scope="local_m")),
}


def gradients_of(values, dtype):
    torch.manual_seed(1)
    model = build_translation(configs.recurrent(size=12, embedding=6, **values), 9, 9).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    torch.manual_seed(2)
    progress = Progress(update=1, total=2, epoch=1, ends_epoch=False)
    NextToken()(model, pair_batch(ROWS, ROWS), progress, torch.Generator()).sum.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", DECODERS)
def test_gradients_equal_those_of_single_steps(name, monkeypatch):
    values, saved = DECODERS[name], []
    monkeypatch.setattr(
        "regard.numerics.joined_gradients.JoinedParameters.save",
        lambda joined, *factors, save=JoinedParameters.save: (
            saved.append(joined),
            save(joined, *factors),
        ),
    )
    ours = gradients_of(values, torch.double)
    assert saved
    for module in ("regard.numerics.linear", "regard.compiled.recurrent.lookup"):
        monkeypatch.setattr(f"{module}.joined_parameters", lambda *_: None)
    saved.clear()
    theirs = gradients_of(values, torch.double)
    assert not saved
    for parameter, gradient in theirs.items():
        torch.testing.assert_close(ours[parameter], gradient, rtol=1e-10, atol=1e-10)
