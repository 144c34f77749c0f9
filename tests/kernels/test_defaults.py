"""Kernels get arrays of their own types on a CPU, whatever PyTorch's default type and device
are."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from regard.attention import AdditiveKeys, Attention, ScaledDot
from regard.building.translators import build_translation
from regard.compiled import candidates
from regard.compiled.attention.fused_additive import additive_attention, additive_scores, prepare
from regard.compiled.dropout import Dropout
from regard.compiled.freeze import freeze
from regard.compiled.losses.linear_cross_entropy import linear_cross_entropy
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.encoder import NativeTransformerEncoder
from regard.compiled.transformer.state import NativeState
from regard.data.batch import Tokens
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import Memory
from regard.numerics.panels import Panels
from tests import configs


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)


def numbers(*shape: int) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")


def with_gradients(function: Callable[..., Tensor], *leaves: Tensor) -> list[Tensor]:
    leaves = tuple(leaf.requires_grad_() for leaf in leaves)
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output.sin().sum(), leaves)]


def dots() -> list[Tensor]:
    attention = Attention(ScaledDot())
    vectors = numbers(2, 3, 7), numbers(2, 5, 7), numbers(2, 5, 11)
    with torch.no_grad():
        output = attention(*vectors, need_weights=True)
    gradients = with_gradients(lambda *leaves: attention(*leaves).context, *vectors)
    return [output.context, output.weights, output.scores, *gradients]


def additive() -> list[Tensor]:
    torch.manual_seed(3)
    return with_gradients(
        lambda *leaves: additive_attention(*leaves, dropout=0.5)[0],
        numbers(2, 3, 7),
        numbers(2, 5, 7),
        numbers(7),
        numbers(2, 5, 11),
    )


def prepared() -> list[Tensor]:
    queries, keys, vector, values = (
        numbers(2, 1, 7),
        numbers(2, 5, 7),
        numbers(7),
        numbers(2, 5, 11),
    )
    with torch.no_grad():
        return [
            *additive_attention(queries, prepare(AdditiveKeys(keys)), vector, values),
            additive_scores(queries, keys, vector),
        ]


def step(layers: RecurrentStack) -> list[Tensor]:
    with torch.no_grad():
        return [layers.step(numbers(2, 5), numbers(2, 1, 7), numbers(2, 1, 7)).hidden]


def drop() -> list[Tensor]:
    torch.manual_seed(3)
    return with_gradients(Dropout(0.5), numbers(3, 7))


def stack(layers: RecurrentStack, inputs: Tensor) -> list[Tensor]:
    mask = torch.tensor([[True] * 3, [True, True, False]], device="cpu")
    return [
        *with_gradients(lambda leaf: layers.encode(leaf, mask).outputs[-1], inputs),
        layers.encode(inputs, mask, (3, 2)).hidden,
    ]


def best() -> list[Tensor]:
    top = candidates.top_candidates(
        numbers(2, 3, 13), numbers(2, 3), torch.tensor([1], device="cpu"), 4
    )
    return list(vars(top).values())


def loss() -> list[Tensor]:
    targets = torch.tensor([0, 12, 5], device="cpu")
    return with_gradients(
        lambda *leaves: linear_cross_entropy(*leaves, targets, 0.1),
        numbers(3, 7),
        numbers(13, 7),
        numbers(13),
    )


def panels() -> list[Tensor]:
    weight = Panels.of(numbers(11, 7))
    return [weight.product(numbers(2, 3, 7), numbers(11), "gelu"), weight.plain()]


def decoder_step(decoder: NativeTransformerDecoder) -> list[Tensor]:
    keys = numbers(2, 5, 6)
    memory = Memory(keys, keys, torch.ones(2, 5, dtype=torch.bool, device="cpu"))
    tokens = torch.ones(2, 1, dtype=torch.long, device="cpu")
    with torch.no_grad():
        _, state = decoder.step(tokens, decoder.start((memory,)))
        output, state = decoder.step(tokens, state, need_weights=True)
    assert isinstance(state, NativeState)
    return [output.features, *[block.weights for block in output.attention]]


def encode(encoder: NativeTransformerEncoder) -> list[Tensor]:
    ids = torch.tensor([[4, 5, 6], [7, 8, 0]], device="cpu")
    with torch.no_grad():
        return list(encoder(Tokens(ids, ids > 0)).layers)


def calls() -> dict[str, Callable[[], list[Tensor]]]:
    lstm = RecurrentStack("lstm", 5, 7)
    transformer = configs.transformer(size=6, heads=3, feed_forward=5, positions="rotary")
    frozen = freeze(build_translation(transformer, 13, 11))
    return {
        "dots": dots,
        "additive": additive,
        "prepared": prepared,
        "dropout": drop,
        "step": lambda: step(lstm),
        "lstm": lambda: stack(lstm, numbers(2, 3, 5)),
        "candidates": best,
        "loss": loss,
        "panels": panels,
        "encoder": lambda: encode(frozen.encoder),
        "decoder step": lambda: decoder_step(frozen.decoder),
    }


@pytest.mark.parametrize("name", calls())
def test_torchs_default_dtype_changes_no_result(name: str):
    call = calls()[name]
    expected = call()
    torch.set_default_dtype(torch.float64)
    for result, number in zip(call(), expected, strict=True):
        assert result.dtype == number.dtype
        torch.testing.assert_close(result, number)


@pytest.mark.parametrize("name", calls())
def test_torchs_default_device_changes_no_result(name: str):
    call = calls()[name]
    expected = call()
    torch.set_default_device("meta")
    for result, number in zip(call(), expected, strict=True):
        torch.testing.assert_close(result, number)
