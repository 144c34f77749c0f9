"""Frozen modules of every kind in every mode of PyTorch: the numbers of the module itself, or an
error with the reason."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard import kernels
from regard.attention import Additive, Attention, ScaledDot
from regard.building.captioners import build_captioner
from regard.building.translators import build_translation
from regard.compiled.accelerate import accelerate
from regard.compiled.freeze import freeze
from regard.data.batch import START, Images, Tokens
from regard.layers.experts import Experts, NoisyTopKGate
from regard.layers.recurrent.fast_forward_stack import FastForwardStack
from regard.layers.recurrent.residual_stack import ResidualStack
from regard.layers.recurrent.stack import RecurrentStack
from regard.layers.weight_norm import NormalisedLinear
from regard.models.ensemble import Ensemble
from regard.numerics.linear import Linear, is_packed
from tests import configs
from tests.contracts.choices import EXPERTS

pytestmark = [
    pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled"),
    pytest.mark.usefixtures("unchecked"),
]

TOLERANCE = {torch.float32: 2e-4, torch.int8: 0.12, torch.bfloat16: 0.06}
IDS = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [11, 12, 4, 0, 0]])
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 11], [START, 9, 10, 3]])


class Encoding(nn.Module):
    """Whole sequences of a stack."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, inputs: Tensor) -> Tensor:
        mask = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        output = self.stack.encode(inputs, mask, (inputs.size(1),) * len(inputs))
        return torch.cat([output.outputs[-1].flatten(), output.hidden.flatten()])


class Stepping(Encoding):
    """One step of a stack."""

    def forward(self, inputs: Tensor) -> Tensor:
        state = inputs.new_zeros(len(inputs), self.stack.num_layers, self.stack.hidden_size)
        cell = state if self.stack.kind == "lstm" else None
        return self.stack.step(inputs[:, 0], state, cell).hidden


class Attending(nn.Module):
    """Contexts or weights of an attention."""

    def __init__(self, attention: Attention, *, need_weights: bool) -> None:
        super().__init__()
        self.attention, self.need_weights = attention, need_weights

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        prepared = self.attention.prepare(keys)
        output = self.attention(queries, prepared, keys, need_weights=self.need_weights)
        return output.weights if self.need_weights else output.context


class Mixing(nn.Module):
    """States of experts."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = Experts(NoisyTopKGate(16, 5, 2), 8)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.experts(inputs)


class Decoding(nn.Module):
    """Logits of a model, of whole targets or of single steps."""

    def __init__(self, model: nn.Module, *, has_steps: bool) -> None:
        super().__init__()
        self.model, self.has_steps = model, has_steps

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        model = self.model
        is_text = source.dim() == 2
        memories = model.encode(
            Tokens(source, source > 0, copies=source) if is_text else Images(source)
        )
        if not self.has_steps:
            return model.decoder.project(model.decoder(inputs, memories).features)
        state, logits = model.decoder.start(memories), []
        for tokens in inputs.unbind(1):
            output, state = model.decoder.step(tokens[:, None], state)
            logits.append(model.decoder.project(output.features))
        return torch.cat(logits, dim=1)


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def layers() -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...]]]:
    yield "linear", Linear(24, 17), (numbers(3, 5, 24),)
    yield "one column", Linear(24, 1), (numbers(3, 5, 24),)
    yield "weight norm", NormalisedLinear(24, 17, std=0.3), (numbers(3, 24),)
    for kind in ("elman", "gru", "lstm"):
        stack = RecurrentStack(kind, 12, 16, 2, bidirectional=True)
        yield f"{kind} stack", Encoding(stack), (numbers(3, 5, 12),)
        yield f"{kind} step", Stepping(RecurrentStack(kind, 12, 16, 2)), (numbers(3, 1, 12),)
    yield "residual stack", Encoding(ResidualStack("lstm", 12, 16, 3)), (numbers(3, 5, 12),)
    yield "residual step", Stepping(ResidualStack("gru", 12, 16, 3)), (numbers(3, 1, 12),)
    stack = FastForwardStack("gru", 12, 16, 2, bidirectional=True)
    yield "fast-forward stack", Encoding(stack), (numbers(3, 5, 12),)
    yield "fast-forward step", Stepping(FastForwardStack("lstm", 12, 16, 2)), (numbers(3, 1, 12),)
    yield "experts", Mixing(), (numbers(3, 5, 16),)
    for name, score in (("dot", ScaledDot()), ("additive", Additive(16, 16, 8))):
        for need_weights in (False, True):
            module = Attending(Attention(score), need_weights=need_weights)
            inputs = numbers(3, 2, 16), numbers(3, 5, 16)
            yield f"{name}{' weights' * need_weights}", module, inputs


RECURRENT = dict(size=16, embedding=8, attention=dict(size=8))
TRANSFORMER = dict(size=16, heads=2, layers=2, feed_forward=24, max_positions=29)
CONVOLUTION = dict(size=14, layers=2, max_positions=29)
MODELS = {
    "bahdanau": configs.recurrent(**RECURRENT, cell="gru", wiring="bahdanau", output="deep"),
    "luong": configs.recurrent(
        size=16, embedding=8, attention=dict(score="general"), feeding="attentional", output="tanh"
    ),
    "gnmt": configs.recurrent(**RECURRENT, layers=3, wiring="gnmt", connections="residual"),
    "fast-forward": configs.recurrent(**RECURRENT, layers=2, connections="fast_forward"),
    "transformer": configs.transformer(**TRANSFORMER),
    "rotary": configs.transformer(
        **TRANSFORMER, positions="rotary", activation="gelu", norm="post"
    ),
    "transformer experts": configs.transformer(**TRANSFORMER, experts=EXPERTS),
    "convolution": configs.translation("gated_convolution", "gated_convolution", **CONVOLUTION),
    "dilated": configs.translation("dilated_convolution", "dilated_convolution", size=14),
    "pointer": configs.recurrent(**RECURRENT, copy="pointer_generator"),
}


def models() -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...]]]:
    built = {name: build_translation(config, 13, 17) for name, config in MODELS.items()}
    members = [copy.deepcopy(built[name]) for name in ("bahdanau", "transformer")]
    for name, model in {**built, "ensemble": Ensemble(members)}.items():
        for has_steps in (False, True):
            module = Decoding(copy.deepcopy(model), has_steps=has_steps)
            yield f"{name} {'steps' if has_steps else 'whole'}", module, (IDS, INPUTS)
    sizes = dict(size=16, embedding=8, layers=1, channels=(3, 6), attention=dict(size=8))
    captioner = build_captioner(configs.captioner(**sizes), 16, 17)
    images = torch.randint(256, (3, 3, 16, 16), generator=torch.Generator().manual_seed(3))
    yield "captioner", Decoding(captioner, has_steps=True), (images.byte(), INPUTS)


@cache
def cases() -> dict[str, tuple[nn.Module, tuple[Tensor, ...]]]:
    torch.manual_seed(1)
    found = {}
    for name, module, inputs in (*layers(), *models()):
        for weight in module.parameters():
            nn.init.normal_(weight, std=0.3)
        accelerate(module)
        found[name] = module.eval(), inputs
    return found


def call(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    with torch.no_grad():
        return module(*inputs)


def with_gradients_enabled(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return module(*inputs).detach()


def in_inference_mode(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    with torch.inference_mode():
        return module(*inputs).clone()


def gradient_of_inputs(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    leaves = [each.clone().requires_grad_() for each in inputs if each.is_floating_point()]
    if not leaves:
        return with_gradients_enabled(module, inputs)
    gradients = torch.autograd.grad(module(*leaves).sin().sum(), leaves)
    return torch.cat([gradient.flatten() for gradient in gradients])


def under_autocast(module: nn.Module, inputs: tuple[Tensor, ...], *, grad: bool) -> Tensor:
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        return module(*inputs).detach()


def gradient_under_autocast(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return gradient_of_inputs(module, inputs)


def copied(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    call(module, inputs)  # makes structures of weights, which a copy does not have
    return call(copy.deepcopy(module), inputs)


def pickled(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    call(module, inputs)
    return call(pickle.loads(pickle.dumps(module)), inputs)


def saved(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    call(module, inputs)
    torch.save(module, file := io.BytesIO())
    file.seek(0)
    return call(torch.load(file, weights_only=False), inputs)


def with_default_type(
    module: nn.Module, inputs: tuple[Tensor, ...], *, dtype: torch.dtype
) -> Tensor:
    torch.set_default_dtype(dtype)
    try:
        return call(module, inputs)
    finally:
        torch.set_default_dtype(torch.float32)


def with_default_device(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    torch.set_default_device("meta")
    try:
        return call(module, inputs)
    finally:
        torch.set_default_device(None)


def converted(module: nn.Module, inputs: tuple[Tensor, ...], *, dtype: torch.dtype) -> Tensor:
    """Convert a module that was used, and its inputs."""
    module = copy.deepcopy(module)
    call(module, inputs)
    inputs = tuple(each.to(dtype) if each.is_floating_point() else each for each in inputs)
    return call(module.to(dtype), inputs)


def compiled(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    torch._dynamo.reset()
    return call(torch.compile(module, backend="eager"), inputs)


def shared(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return call(copy.deepcopy(module).share_memory(), inputs)


Mode = Callable[[nn.Module, tuple[Tensor, ...]], Tensor]
MODES: dict[str, Mode] = {
    "no gradients": call,
    "gradients": with_gradients_enabled,
    "inference": in_inference_mode,
    "gradient of inputs": gradient_of_inputs,
    "autocast": partial(under_autocast, grad=False),
    "autocast with gradients": partial(under_autocast, grad=True),
    "gradient under autocast": gradient_under_autocast,
    "copy": copied,
    "pickle": pickled,
    "file": saved,
    "default float64": partial(with_default_type, dtype=torch.float64),
    "default float16": partial(with_default_type, dtype=torch.float16),
    "default bfloat16": partial(with_default_type, dtype=torch.bfloat16),
    "default device": with_default_device,
    "to float64": partial(converted, dtype=torch.float64),
    "to bfloat16": partial(converted, dtype=torch.bfloat16),
    "shared memory": shared,
}


def check(name: str, dtype: torch.dtype, mode: Mode, tolerance: float) -> None:
    module, inputs = cases()[name]
    reference = copy.deepcopy(module)
    if dtype == torch.bfloat16:
        reference = reference.bfloat16()
        inputs = tuple(each.bfloat16() if each.is_floating_point() else each for each in inputs)
    assert_close(mode(freeze(module, dtype), inputs), mode(reference, inputs), tolerance)


def assert_close(result: Tensor, expected: Tensor, tolerance: float) -> None:
    assert result.dtype == expected.dtype
    largest = expected.double().nan_to_num(neginf=0).abs().max().clamp_min(1)
    torch.testing.assert_close(
        result.double(), expected.double(), rtol=0, atol=float(tolerance * largest)
    )


MODES_OF_MODELS = (
    *("gradients", "autocast", "autocast with gradients", "copy", "pickle"),
    *("default float64", "default device", "to float64"),
)


def combinations() -> Iterator[tuple[str, torch.dtype, str]]:
    """Every layer in every type and mode; models in the types and modes that differ for them."""
    for name, (module, _) in cases().items():
        is_model = isinstance(module, Decoding)
        types = (torch.float32, torch.int8) if is_model else TOLERANCE
        modes = MODES_OF_MODELS if is_model else MODES
        yield from product([name], types, modes)


@pytest.mark.parametrize(("name", "dtype", "mode"), list(combinations()))
def test_a_frozen_module_gives_the_numbers_of_the_module(name: str, dtype: torch.dtype, mode: str):
    is_rough = "autocast" in mode or mode == "to bfloat16"
    check(name, dtype, MODES[mode], max(TOLERANCE[dtype], 0.08 * is_rough))


@pytest.mark.parametrize("name", ["linear", "gru stack", "dot"])
def test_compiled_frozen_modules_give_the_numbers_of_the_module(name: str):
    module, inputs = cases()[name]
    result = compiled(freeze(module), inputs)
    assert_close(result, call(module, inputs), TOLERANCE[torch.float32])


class FirstStep(nn.Module):
    """Logits of the first step of a decoder."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.decoder = model.decoder
        self.state = self.decoder.start(model.encode(Tokens(IDS, IDS > 0)))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder.project(self.decoder.step(tokens, self.state)[0].features)


@torch.no_grad()
def test_a_compiled_frozen_transformer_gives_the_numbers_of_the_model():
    """One layer and one step: a compiler reads every call of every layer."""
    config = configs.changed(MODELS["transformer"], layers=1)
    model, inputs = build_translation(config, 13, 17).eval(), (INPUTS[:, :1],)
    result = compiled(FirstStep(freeze(model)), inputs)
    assert_close(result, call(FirstStep(model), inputs), TOLERANCE[torch.float32])


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
def test_an_export_of_packed_weights_is_rejected(dtype: torch.dtype, strict: bool):
    module, inputs = cases()["linear"]
    with pytest.raises(ValueError, match="export the model itself"):
        torch.export.export(freeze(module, dtype), inputs, strict=strict)


@pytest.mark.parametrize("name", ["linear", "gru stack", "transformer steps"])
def test_gradients_of_packed_weights_are_rejected(name: str):
    module, inputs = cases()[name]
    frozen = freeze(module).requires_grad_(True)
    with pytest.raises(ValueError, match="a packed weight has no gradient"):
        frozen(*inputs)


def tangents(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return torch.func.jvp(module, inputs, inputs)[1].detach()


def mapped(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return call(torch.vmap(module), (torch.stack([inputs[0], -inputs[0]]),))


@pytest.mark.parametrize("mode", [tangents, mapped])
@pytest.mark.parametrize("name", ["linear", "lstm stack", "lstm step", "gru stack", "gru step"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
def test_transforms_of_functions_read_plain_weights(name: str, dtype: torch.dtype, mode: Mode):
    """PyTorch has no rules for some recurrent operators on some CPUs: then its error is raised."""
    module, inputs = cases()[name]
    try:
        mode(module, inputs)
    except (NotImplementedError, RuntimeError) as error:
        with pytest.raises(type(error), match="implemented"):
            mode(freeze(module, dtype), inputs)
    else:
        check(name, dtype, mode, TOLERANCE[dtype])


def test_state_dictionaries_have_plain_weights():
    layer = Linear(24, 17)
    frozen = freeze(layer)
    assert is_packed(frozen.weight)
    assert torch.equal(frozen.state_dict()["weight"], layer.weight)
    with pytest.raises(RuntimeError, match="a packed weight cannot be overwritten"):
        frozen.load_state_dict(layer.state_dict())
    frozen.weight.data = 2 * layer.weight.data
    assert not is_packed(frozen.weight)
    torch.testing.assert_close(call(frozen, (torch.eye(24),)), 2 * layer.weight.T + layer.bias)
