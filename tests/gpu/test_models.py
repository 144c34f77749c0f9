"""Every model on a GPU compared with the CPU: outputs, attention and gradients, in every precision,
and every search."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.compiled.attention.fused_additive import backends
from regard.compiled.freeze import freeze
from regard.data.batch import PAD, START, pad
from regard.search import BeamSettings, Limits, beam, forced, greedy, sample
from tests.contracts import test_sequence_models as contracts
from tests.contracts.choices import randomise_gates
from tests.gpu import devices
from tests.gpu.comparison import (
    all_precisions,
    assert_close,
    computing,
    differentiable,
    gradients,
)

pytestmark = pytest.mark.usefixtures("unchecked")

SOURCE = replace(
    pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]]),
    copies=pad([[4, 18, 18, 5, 20], [17, 2], [17, 6, 7]]).ids,
)
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])
LIMITS = Limits(start=START, end=2, maximum=torch.tensor([7, 5, 3]), forbidden=(PAD, START))
MODELS = devices.some([*contracts.variants(), *contracts.pairs()])
ADDITIVE = devices.some(
    config for config in MODELS if "additive" in contracts.name(config) or not devices.is_gpu()
)


def build(config: Any) -> nn.Module:
    torch.manual_seed(3)
    model = contracts.build(config).eval()
    randomise_gates(model)
    return model


def compute(model: nn.Module, device: torch.device, precision: str) -> dict[str, Tensor]:
    """Return outputs, attention weights and gradients."""
    differentiable(model)
    with computing(precision, device):
        memories = model.encode(SOURCE.to(device))
        output = model.decoder(INPUTS.to(device), memories, need_weights=True)
        logits = model.decoder.project(output.features)
    of_tokens = logits.float().log_softmax(dim=-1).gather(2, INPUTS.to(device)[..., None])
    of_tokens.sum().backward()
    results = {f"map {number}": block.weights for number, block in enumerate(output.attention)}
    return {"logits": logits, **results, "gradients": gradients(model)}


def expected(config: Any) -> dict[str, Tensor]:
    """Return the results of the formulas on the CPU in float64."""
    return compute(build(config).double(), torch.device("cpu"), "float32")


def has_choices(config: Any) -> bool:
    """Whether rounding may send a position to another expert, so that its numbers change."""
    return any(getattr(part, "experts", None) and part.experts.number for part in parts(config))


def parts(config: Any) -> list[Any]:
    return list(config.parts.values())


@pytest.mark.parametrize("precision", all_precisions())
@pytest.mark.parametrize("config", MODELS, ids=contracts.name)
def test_a_model_equals_the_cpu(device, config, precision):
    results = compute(build(config).to(device), device, precision)
    if precision == "float32" or not has_choices(config):
        assert_close(results, expected(config), precision)
    assert all(result.isfinite().any() for result in results.values())


@pytest.mark.skipif(not devices.is_gpu(), reason="Triton's kernels need a GPU here")
@pytest.mark.parametrize("config", ADDITIVE, ids=contracts.name)
def test_a_model_with_the_triton_kernels_equals_the_cpu(device, monkeypatch, config):
    monkeypatch.setenv("REGARD_TRITON", "1")
    backends._triton.cache_clear()
    try:
        assert backends.choose(torch.ones(1, device=device)).__name__.endswith("triton_kernels")
        assert_close(compute(build(config).to(device), device, "float32"), expected(config), "tf32")
    finally:
        monkeypatch.undo()
        backends._triton.cache_clear()


def search(model: nn.Module, device: torch.device) -> tuple[list[Any], list[Any]]:
    """Return the results of greedy and of beam search."""
    memories = model.encode(SOURCE.to(device))
    results = beam(model.decoder, memories, LIMITS, BeamSettings(5, 3), need_weights=True)
    return greedy(model.decoder, memories, LIMITS, need_weights=True), results


@pytest.mark.parametrize("config", MODELS, ids=contracts.name)
def test_greedy_and_beam_search_equal_the_cpu(device, config):
    model = build(config)
    alone, several = search(copy.deepcopy(model).double(), torch.device("cpu"))
    results, beams = search(model.to(device), device)
    for result, wanted in zip(results, alone, strict=True):
        assert result.tokens == wanted.tokens
        assert_close(of_hypothesis(result), of_hypothesis(wanted), "float32")
    for hypotheses, wanted in zip(beams, several, strict=True):
        scores = [torch.tensor([each.score for each in part]) for part in (hypotheses, wanted)]
        torch.testing.assert_close(*scores, rtol=1e-3, atol=1e-3)


def of_hypothesis(hypothesis: Any) -> dict[str, Tensor]:
    """Return log probabilities and attention of a hypothesis."""
    weights = {f"map {n}": block.weights for n, block in enumerate(hypothesis.attention)}
    return {"log probabilities": torch.tensor(hypothesis.log_probabilities), **weights}


@pytest.mark.parametrize("config", MODELS, ids=contracts.name)
def test_samples_have_the_probabilities_of_the_cpu(device, config):
    """Random numbers differ between devices, but not between two calls on one device."""
    model = build(config)
    whole = copy.deepcopy(model).double()
    memories = model.to(device).encode(SOURCE.to(device))

    def draw():
        torch.manual_seed(7)
        return sample(model.decoder, memories, LIMITS)

    samples = draw()
    assert [each.tokens for each in draw()] == [each.tokens for each in samples]
    texts = pad([each.tokens for each in samples])
    inputs = nn.functional.pad(texts.ids[:, :-1], (1, 0), value=START)
    read = forced(whole.decoder, whole.encode(SOURCE), inputs, texts.ids, texts.mask)
    for row, each in enumerate(samples):
        wanted = read.log_probabilities[row, : len(each.tokens)]
        result = torch.tensor(each.log_probabilities, dtype=wanted.dtype)
        torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("config", devices.some(contracts.frozen()), ids=contracts.name)
def test_a_frozen_model_equals_the_cpu(device, config, dtype):
    """Translation decodes with such a copy."""
    model = build(config)
    with torch.no_grad():
        memories = model.encode(SOURCE)
        wanted = model.decoder.project(model.decoder(INPUTS, memories).features)
        frozen = freeze(model.to(device), dtype)
        memories = frozen.encode(SOURCE.to(device))
        output = frozen.decoder(INPUTS.to(device), memories)
        logits = frozen.decoder.project(output.features)
    precision = str(dtype).removeprefix("torch.")
    assert_close({"logits": logits}, {"logits": wanted}, precision)
