"""Wrong and unusual inputs of products with panels, encoders and decoder steps in C++."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from regard.building.translators import build_translation
from regard.compiled.freeze import freeze
from regard.compiled.transformer.decoder import NativeTransformerDecoder
from regard.compiled.transformer.state import NativeState
from regard.data.batch import Tokens
from regard.errors import UserError
from regard.models.contracts import Memory
from regard.numerics.panels import Panels
from tests import configs
from tests.kernels.wrong_inputs import (
    SIZE,
    axis,
    batches,
    devices,
    fuzzed,
    mask_dtypes,
    must_be,
    outcome,
    record,
    sizes,
    tensor,
)

VOCABULARY = 11

pytestmark = pytest.mark.usefixtures("unchecked", "library", "outcomes")


@fuzzed
@given(st.data())
def test_panels_reject_wrong_inputs(library, data):
    draw = data.draw
    columns, inner = draw(axis), draw(sizes)
    shapes = st.one_of(*[st.just((columns, inner))] * 9, st.lists(axis, max_size=3).map(tuple))
    weight = tensor(draw, draw(shapes))
    if library == "torch":
        if weight.dim() == 2 and weight.dtype == torch.float32 and weight.is_cpu:
            with pytest.raises(RuntimeError, match="the kernels are not compiled"):
                Panels.of(weight)
        return
    similar, few = st.one_of(*[st.just(inner)] * 9, sizes), st.one_of(*[st.just(columns)] * 9, axis)
    batch = draw(batches)
    inputs = tensor(draw, (*batch, draw(similar)))
    bias = tensor(draw, (draw(few),)) if draw(st.booleans()) else None
    add = tensor(draw, (*batch, draw(few))) if draw(st.booleans()) else None
    activation = draw(st.sampled_from(["none", "relu", "gelu"] * 4 + ["tanh"]))
    result = outcome(lambda: Panels.of(weight).product(inputs, bias, activation, add))
    record("Panels", library, result)
    if result is None:
        return

    def formula():
        product = F.linear(
            inputs.double(), weight.double(), None if bias is None else bias.double()
        )
        product = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu}[activation](product)
        return product if add is None else product + add.double()

    must_be(result, formula, inputs, weight, bias, add)


@cache
def model(norm, positions, window, layers):
    torch.manual_seed(1)
    config = configs.transformer(
        size=SIZE, heads=3, feed_forward=5, layers=1, decoder_layers=layers, max_positions=7
    )
    changed = configs.changed(config, norm=norm, positions=positions, window=window)
    return build_translation(changed, 13, VOCABULARY).eval()


@cache
def frozen(*values):
    return freeze(model(*values)).decoder


@cache
def frozen_encoder(*values):
    return freeze(model(*values)).encoder


models = st.tuples(
    st.sampled_from(["pre", "post"]),
    st.sampled_from(["sinusoidal", "learned", "rotary"]),
    st.sampled_from([None, 1]),
    st.just(2),
)


def mask_for(draw, batch, source):
    """Draw a mask that mostly fits. Real positions may lie between padding."""
    shape = draw(st.one_of(*[st.just((batch, source))] * 12, st.lists(axis, max_size=3).map(tuple)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    mask = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    layout = draw(st.sampled_from(["dense", "turned", "expanded"]))
    if layout == "turned" and mask.dim() > 1:
        mask = mask.mT.contiguous().mT
    elif layout == "expanded" and len(shape) > 1 and shape[0]:
        mask = mask[:1].expand(shape)
    return mask.to(draw(mask_dtypes)).to(draw(devices))


@fuzzed
@given(st.data(), models)
@torch.no_grad()
def test_encoders_reject_wrong_inputs(library, data, values):
    """Results equal those of the reference. If PyTorch computes the states, errors are its own."""
    draw, native, reference = data.draw, frozen_encoder(*values), model(*values).encoder
    batch, source = draw(axis), draw(axis)
    shape = draw(st.one_of(*[st.just((batch, source))] * 12, st.lists(axis, max_size=3).map(tuple)))
    low, high = draw(st.sampled_from([(0, 13)] * 12 + [(-1, 1), (0, 22)]))
    ids = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3))
    dtype = draw(st.sampled_from([torch.int64] * 12 + [torch.int32, torch.int16, torch.float32]))
    tokens = Tokens(ids.to(dtype).to(draw(devices)), mask_for(draw, batch, source))
    has_kernel = library == "compiled" and values[2] is None
    errors = (IndexError, UserError) if has_kernel else (Exception,)
    result = step_outcome(lambda: native(tokens), (*errors, *errors_of_embedding(tokens.ids)))
    record("encoder", library, result)
    if not has_kernel or result is None:
        return
    expected = reference(tokens)
    mask = tokens.mask
    for ours, theirs in zip(result.layers, expected.layers, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours[mask], theirs[mask], rtol=2e-4, atol=2e-4)


def errors_of_embedding(ids):
    """Return PyTorch's own errors for token numbers of another type or number of axes."""
    is_usual = ids.dtype in (torch.int64, torch.int32) and ids.dim() == 2
    return () if is_usual else (RuntimeError,)


def memory_for(draw):
    """Draw a memory that mostly fits."""
    batch, source = draw(axis), draw(axis)
    few = st.one_of(*[st.just(batch)] * 9, axis)
    shapes = st.one_of(
        *[st.just((batch, source, SIZE))] * 9,
        st.just((batch, source, draw(sizes))),
        st.lists(axis, max_size=4).map(tuple),
    )
    keys = tensor(draw, draw(shapes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    base = torch.rand(draw(few), source, generator=generator) < 0.7
    layout = draw(st.sampled_from(["dense", "turned", "expanded"]))
    mask = {
        "dense": base,
        "turned": base.T.contiguous().T,
        "expanded": base[:1].expand(len(base), -1) if len(base) else base,
    }[layout]
    mask = mask.to(draw(mask_dtypes)).to(draw(devices))
    return Memory(keys, keys, mask)


def tokens_for(draw, state):
    """Draw tokens that mostly fit."""
    shape = tuple(state.slots.shape[:2])
    shape = draw(st.one_of(*[st.just(shape)] * 12, st.lists(axis, max_size=3).map(tuple)))
    low, high = draw(st.sampled_from([(0, VOCABULARY)] * 9 + [(-1, 1), (0, VOCABULARY + 9)]))
    tokens = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(3))
    dtype = draw(st.sampled_from([torch.int64] * 9 + [torch.int32, torch.int16, torch.float32]))
    return tokens.to(dtype).to(draw(devices))


def selected(draw, *states):
    """Select hypotheses and sentences of equal states."""
    batch, num_hypotheses = states[0].slots.shape[:2]
    if num_hypotheses and draw(st.booleans()):
        count = draw(st.integers(0, 4))
        index = torch.tensor([draw(st.integers(0, num_hypotheses - 1)) for _ in range(count)])
        states = [state.select(index.long().expand(batch, -1)) for state in states]
    if batch and draw(st.booleans()):
        count = draw(st.integers(0, 3))
        index = torch.tensor([draw(st.integers(0, batch - 1)) for _ in range(count)])
        states = [state.keep(index.long()) for state in states]
    return states


def step_outcome(call, errors=IndexError):
    """Return the result of a step, or None for an error."""
    try:
        return outcome(call)
    except errors:
        return None


@fuzzed
@given(st.data(), models, st.booleans())
@torch.no_grad()
def test_steps_reject_wrong_inputs(library, data, values, need_weights):
    """Results equal those of the reference. If PyTorch computes the steps, errors are its own."""
    draw, native, reference = data.draw, frozen(*values), model(*values).decoder
    given_memory = memory_for(draw)
    try:
        state = step_outcome(lambda: native.start((given_memory,)))
    except RuntimeError:
        assert not given_memory.keys.is_cpu or library == "torch"
        return
    record("start", library, state)
    if not isinstance(state, NativeState):
        return
    expected = reference.start((given_memory,))
    has_kernel = values[2] is None or not need_weights
    errors = IndexError if has_kernel else (IndexError, RuntimeError)
    for _ in range(draw(st.integers(1, 4))):
        tokens = tokens_for(draw, state)
        result = step_outcome(
            lambda: native.step(tokens, state, need_weights=need_weights),  # noqa: B023
            errors,
        )
        record("step", library, result)
        if result is None:
            return
        output, state = result
        right, expected = reference.step(tokens, expected, need_weights=need_weights)
        # large keys give large scores, whose roundings change the weights: compared by shape only
        must_be(output.features, lambda: right.features, 1e3 * given_memory.keys)  # noqa: B023
        state, expected = selected(draw, state, expected)
        if not isinstance(state, NativeState):
            return


ARRAYS = ("memory", "mask", "entries", "slots", "rows")


def attacked(draw, state, native):
    """Change one field of a state, so that kernels would read or write other memory."""
    name = draw(st.sampled_from([*ARRAYS, *ARRAYS, "length", "filled", "layers"]))
    storage = state.cache.storage
    if name == "length":
        length = draw(st.sampled_from([-1, 0, 1, 63, 64, 1 << 40]))
        return replace(state, cache=replace(state.cache, length=length))
    if name == "filled":
        storage = replace(storage, filled=draw(st.sampled_from([-1, 0, 1, 63, 64, 1 << 40])))
        return replace(state, cache=replace(state.cache, storage=storage))
    if name == "layers":
        (keys, mask) = torch.ones(len(state.slots), 2, SIZE), torch.ones(len(state.slots), 2)
        decoder = frozen("pre", "learned", None, draw(st.sampled_from([1, 3])))
        return decoder.start((Memory(keys, keys, mask.bool()),))
    array = storage.rows if name == "rows" else getattr(state, name)
    if array is None:
        array = torch.ones(state.memory.shape[2:4], dtype=torch.bool)
    kinds = ["shape", "dtype", "turned", "expanded", "device", "shorter", "numbers"]
    kind = draw(st.sampled_from(kinds))
    if kind == "shape":
        array = array.new_zeros(draw(st.lists(axis, max_size=5).map(tuple)))
    elif kind == "dtype":
        array = array.to(draw(st.sampled_from([torch.int32, torch.float64, torch.bool])))
    elif kind == "turned" and array.dim() > 1:
        array = array.mT
    elif kind == "expanded":
        array = array[..., :1].expand(array.shape)
    elif kind == "device":
        array = array.to("meta")
    elif kind == "shorter":
        along = draw(st.integers(0, array.dim() - 1))
        array = array.narrow(along, 0, max(0, array.size(along) - 1))
    elif name in ("entries", "slots"):
        numbers = st.sampled_from([-1, -(1 << 62), 1 << 62, 64, 1 << 31, 3])
        array = array.clone().fill_(draw(numbers))
    if name == "rows":
        storage = replace(storage, rows=array)
        return replace(state, cache=replace(state.cache, storage=storage))
    return replace(state, **{name: array})


@fuzzed
@given(st.data(), models, axis, axis)
@torch.no_grad()
def test_steps_reject_states_of_other_sizes(library, data, values, batch, source):
    """States that were built by hand, or by another decoder."""
    if library == "torch":
        return
    draw, native = data.draw, frozen(*values)
    assert isinstance(native, NativeTransformerDecoder)
    keys = torch.randn(batch, source, SIZE, generator=torch.Generator().manual_seed(3))
    state = native.start((Memory(keys, keys, keys[..., 0] > -1),))
    for _ in range(draw(st.integers(0, 3))):
        tokens = torch.ones(tuple(state.slots.shape[:2]), dtype=torch.long)
        _, state = native.step(tokens, state)
        (state,) = selected(draw, state)
    wrong = attacked(draw, state, native)
    tokens = torch.ones(tuple(state.slots.shape[:2]), dtype=torch.long)
    if not wrong.memory.is_cpu or wrong.memory.dtype != torch.float32:
        return  # steps of such a state are those of PyTorch
    result = step_outcome(lambda: native.step(tokens, wrong))
    record("states", library, result)
    if result is not None:
        assert result[0].features.shape == (*tokens.shape, SIZE)
