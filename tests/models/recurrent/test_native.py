"""Steps in C++ compared with those of `BahdanauDecoder` and `LuongDecoder`, the reference."""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from regard import kernels
from regard.attention import AdditiveKeys
from regard.building import build_translation
from regard.data.batch import START, pad
from regard.layers.recurrent.stack import RecurrentStack
from regard.linear import freeze
from regard.models.contracts import Memory, Summary
from regard.models.recurrent.decoders import BahdanauDecoder, LuongDecoder
from regard.models.recurrent.native.decoder import NativeRecurrentDecoder
from regard.models.recurrent.native.state import NativeState
from regard.models.recurrent.native.suitable import has_kernels
from regard.models.recurrent.parts import RecurrentState
from regard.names import CellKind, FeedingKind
from regard.search import BeamSettings, Limits, beam, greedy
from tests import configs

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

SIZE, VOCABULARY, BATCH, SOURCE = 14, 17, 3, 7


def model_of(**values):
    """Return a model whose biases have an effect."""
    torch.manual_seed(5)
    config = configs.recurrent(
        **{"size": SIZE, "embedding": 5, "bridge": "linear", "bidirectional": True, **values}
    )
    model = build_translation(config, 13, VOCABULARY).eval()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    return model


def decoders(**values):
    """Return the reference and the decoder of the frozen model."""
    model = model_of(**values)
    native = freeze(model).decoder
    assert isinstance(native, NativeRecurrentDecoder)
    return model.decoder, native


def memory(batch=BATCH, source=SOURCE, *, is_padded=True, layers=1, cell=True):
    """Return a memory with NaN at hidden positions. The last sentence has no visible position."""
    generator = torch.Generator().manual_seed(3)
    keys = torch.randn(batch, source, SIZE, generator=generator)
    mask = torch.ones(batch, source, dtype=torch.bool)
    if is_padded:
        for row in range(batch):
            mask[row, source - row :] = False
        mask[-1] = False
        keys[~mask] = math.nan
    states = torch.randn(2, batch, layers, SIZE, generator=generator)
    return (Memory(keys, keys, mask, Summary(states[0], states[1] if cell else None)),)


def tokens_of(batch, hypotheses, step=0):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(4, VOCABULARY, (batch, hypotheses), generator=generator)


def close(result, expected):
    torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-5)


def assert_equal_blocks(output, expected, visible=None):
    for block, other in zip(output.attention, expected.attention, strict=True):
        assert block.kind == other.kind
        close(block.weights, other.weights)
        if visible is None:
            close(block.scores, other.scores)
        else:  # NaN in hidden keys is read as another number
            close(block.scores * visible, other.scores * visible)
            assert block.scores.isfinite().all()


def assert_equal_states(ours, theirs):
    plain = ours.plain()
    close(plain.hidden, theirs.hidden)
    close(plain.fed, theirs.fed)
    assert (plain.cell is None) == (theirs.cell is None)
    if plain.cell is not None:
        close(plain.cell, theirs.cell)


def assert_equal_steps(
    reference, native, memories, num_steps=4, num_hypotheses=3, need_weights=False
):
    """Compare steps of hypotheses that are selected after each step, some of them twice."""
    ours, theirs = native.start(memories), reference.start(memories)
    assert isinstance(ours, NativeState)
    (batch, visible) = len(memories[0].keys), memories[0].mask[:, None, None, None]
    tokens = torch.full((batch, 1), START)
    for step in range(num_steps):
        output, ours = native.step(tokens, ours, need_weights=need_weights)
        expected, theirs = reference.step(tokens, theirs, need_weights=need_weights)
        assert isinstance(ours, NativeState)
        close(output.features, expected.features)
        assert_equal_blocks(output, expected, visible)
        close(native.project(output.features), reference.project(expected.features))
        assert_equal_states(ours, theirs)
        generator = torch.Generator().manual_seed(step)
        parents = torch.randint(tokens.size(1), (batch, num_hypotheses), generator=generator)
        ours, theirs = ours.select(parents), theirs.select(parents)
        tokens = tokens_of(batch, num_hypotheses, step)
    return ours, theirs


SCORES = [
    dict(score=score, temperature=temperature)
    for score in ("dot", "scaled_dot", "general", "additive", "concat", "shared_additive")
    for temperature in (1.0, 1.7)
]
OUTPUTS = ("state", "linear", "tanh", "deep", "summed")
VARIANTS = [
    *(dict(wiring=w, cell=c, decoder_layers=n) for w in ("bahdanau", "luong")
      for c in get_args(CellKind) for n in (1, 3)),
    *(dict(wiring=w, attention=a) for w in ("bahdanau", "luong") for a in SCORES),
    *(dict(wiring=w, output=o) for w in ("bahdanau", "luong") for o in OUTPUTS
      if (w, o) != ("luong", "state")),
    *(dict(wiring="luong", feeding=f, output=o) for f in get_args(FeedingKind)
      for o in ("tanh", "linear")),
    *(dict(wiring=w, query="first_layer", decoder_layers=2) for w in ("bahdanau", "luong")),
]  # fmt: skip


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("values", VARIANTS, ids=lambda x: "-".join(map(str, x.values())))
@torch.no_grad()
def test_steps_equal_those_of_the_reference(values, need_weights):
    reference, native = decoders(**values)
    for is_padded in (True, False):
        assert_equal_steps(
            reference, native, memory(is_padded=is_padded), need_weights=need_weights
        )


WIRINGS = [
    dict(wiring="luong", attention=dict(score="general"), output="tanh"),
    dict(wiring="luong", feeding="attentional", output="tanh"),
    dict(wiring="bahdanau", cell="gru", output="deep"),
]


@pytest.mark.parametrize("num_hypotheses", [1, 2, 5, 9])
@pytest.mark.parametrize(("batch", "source"), [(1, 1), (4, 0), (2, 37)])
@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_steps_of_any_sizes_equal_those_of_the_reference(values, batch, source, num_hypotheses):
    reference, native = decoders(**values)
    memories = memory(batch, source, is_padded=batch == 2)
    assert_equal_steps(reference, native, memories, 3, num_hypotheses)


@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_thousands_of_steps_equal_those_of_the_reference(values):
    """Hypotheses are selected in every step; sentences leave now and then, in any order."""
    reference, native = decoders(**values)
    generator = torch.Generator().manual_seed(1)
    for start in range(25):
        memories = memory(7, 1 + start % 11, is_padded=start % 2 == 1)
        ours, theirs = native.start(memories), reference.start(memories)
        batch, width = 7, 1
        for step in range(40):
            tokens = tokens_of(batch, width, step)
            output, ours = native.step(tokens, ours)
            expected, theirs = reference.step(tokens, theirs)
            close(output.features, expected.features)
            parents = torch.randint(width, (batch, 1 + step % 6), generator=generator)
            ours, theirs = ours.select(parents), theirs.select(parents)
            width = parents.size(1)
            if step % 9 == 8 and batch > 1:
                kept = torch.randperm(batch, generator=generator)[: batch - 1]
                ours, theirs, batch = ours.keep(kept), theirs.keep(kept), batch - 1
        assert_equal_states(ours, theirs)


@torch.no_grad()
def test_without_sentences_a_step_has_no_features():
    _, native = decoders()
    output, state = native.step(tokens_of(0, 1), native.start(memory(0, is_padded=False)))
    assert output.features.shape[:2] == (0, 1)
    output, _ = native.step(tokens_of(0, 2), state.select(torch.zeros(0, 2, dtype=torch.long)))
    assert output.features.shape[:2] == (0, 2)


@pytest.mark.parametrize("values", WIRINGS)
@torch.no_grad()
def test_steps_equal_the_whole_target(values):
    reference, native = decoders(**values)
    inputs = torch.cat([torch.full((BATCH, 1), START), tokens_of(BATCH, 5)], dim=1)
    expected, state = reference(inputs, memory()).features, native.start(memory())
    close(native(inputs, memory()).features, expected)
    for position in range(6):
        output, state = native.step(inputs[:, position : position + 1], state)
        close(output.features[:, 0], expected[:, position])


@pytest.mark.parametrize("values", WIRINGS)
@torch.no_grad()
def test_kept_sentences_go_on_alone(values):
    reference, native = decoders(**values)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    for sentences in ([2, 0], [1], [0, 0, 0], []):
        index = torch.tensor(sentences, dtype=torch.long)
        tokens = tokens_of(len(sentences), 2)
        output, state = native.step(tokens, ours.keep(index))
        expected, other = reference.step(tokens, theirs.keep(index))
        close(output.features, expected.features)
        assert_equal_states(state, other)


@torch.no_grad()
def test_branches_of_a_state_are_independent():
    reference, native = decoders(wiring="luong", feeding="context")
    ours, theirs = assert_equal_steps(reference, native, memory(), 2, 2)
    branches = [(ours, theirs)] * 3
    for step in range(3):
        for number, (mine, other) in enumerate(branches):
            tokens = tokens_of(BATCH, 2, 10 * step + number)
            output, mine = native.step(tokens, mine)
            expected, other = reference.step(tokens, other)
            close(output.features, expected.features)
            branches[number] = mine, other


@torch.no_grad()
def test_large_keys_have_split_powers():
    reference, native = decoders(wiring="bahdanau")
    (given,) = memory(is_padded=False)
    keys = given.keys * 300
    memories = (replace(given, keys=keys, values=keys),)
    state = native.start(memories)
    assert state.powers.size(2) == 2 * state.keys.size(2)
    assert_equal_steps(reference, native, memories, need_weights=True)


@pytest.mark.parametrize("factor", [1, 20, 60])
@pytest.mark.usefixtures("instruction_set")
@torch.no_grad()
def test_keys_without_powers(factor):
    """In and beyond the range of float32 powers."""
    reference, native = decoders(wiring="bahdanau", attention=dict(size=256))
    (given,) = memory(is_padded=False)
    memories, tokens = (replace(given, keys=given.keys * factor),), tokens_of(BATCH, 1)
    state = native.start(memories)
    prepared = AdditiveKeys(state.keys)
    state = replace(state, memory=replace(state.memory, prepared=prepared))
    output, _ = native.step(tokens, state, need_weights=True)
    expected, _ = reference.step(tokens, reference.start(memories), need_weights=True)
    close(output.features, expected.features)
    assert_equal_blocks(output, expected)


@torch.no_grad()
def test_values_may_have_another_size_than_keys():
    reference, native = decoders(
        wiring="luong", key_layers=(0, -1), attention=dict(score="general")
    )
    torch.manual_seed(2)
    keys = torch.randn(2, 5, native.decoder.attention.attention.score.key.in_features)
    values = torch.randn(2, 5, SIZE)
    assert keys.size(2) != SIZE
    (given,) = memory(2, 5, is_padded=False)
    assert_equal_steps(reference, native, (replace(given, keys=keys, values=values),))


def features_of(native, memories, num_hypotheses=2, num_steps=3):
    """Return the features of all steps, and the state after them."""
    state, batch = native.start(memories), len(memories[0].keys)
    tokens, features = torch.full((batch, 1), START), []
    for step in range(num_steps):
        output, state = native.step(tokens, state)
        features.append(output.features)
        parents = torch.arange(num_hypotheses).expand(batch, -1) % tokens.size(1)
        state = state.select(parents)
        tokens = tokens_of(1, num_hypotheses, step).expand(batch, -1)
    return features, state


@pytest.fixture
def two_threads():
    at_first = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(at_first)


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
@pytest.mark.usefixtures("two_threads")
@torch.no_grad()
def test_threads_change_no_bit(wiring):
    """With products and attention large enough for two threads."""
    native = freeze(model_of(size=144, wiring=wiring)).decoder
    keys = torch.randn(6, 300, 144)
    summary = Summary(torch.randn(6, 1, 144), torch.randn(6, 1, 144))
    memories = (Memory(keys, keys, torch.rand(6, 300) < 0.8, summary),)
    together, _ = features_of(native, memories, num_hypotheses=5)
    torch.set_num_threads(1)
    alone, _ = features_of(native, memories, num_hypotheses=5)
    for ours, theirs in zip(alone, together, strict=True):
        assert torch.equal(ours, theirs)


@torch.no_grad()
def test_the_instruction_set_may_change_between_steps():
    best = kernels.lanes()
    reference, native = decoders()
    ours, theirs = native.start(memory()), reference.start(memory())
    try:
        for step, lanes in enumerate((4, best, 4, 8)):
            kernels.lanes(lanes)
            output, ours = native.step(tokens_of(BATCH, 1, step), ours)
            assert isinstance(ours, NativeState)
            expected, theirs = reference.step(tokens_of(BATCH, 1, step), theirs)
            close(output.features, expected.features)
            close(native.project(output.features), reference.project(expected.features))
    finally:
        kernels.lanes(best)


def assert_reference_steps(reference, native, memories, state=None, tolerance=2e-5):
    """Check that steps run in PyTorch, with the results of the reference."""
    tokens = torch.full((len(memories[0].keys), 1), START)
    ours = native.start(memories) if state is None else state
    output, ours = native.step(tokens, ours, need_weights=True)
    assert isinstance(ours, RecurrentState)
    expected, _ = reference.step(tokens, reference.start(memories), need_weights=True)
    assert output.features.dtype == expected.features.dtype
    torch.testing.assert_close(output.features, expected.features, rtol=tolerance, atol=tolerance)


def test_with_gradients_steps_are_those_of_the_reference():
    reference, native = decoders()
    with torch.no_grad():
        state = native.start(memory())
    assert isinstance(state, NativeState)
    assert_reference_steps(reference, native, memory(is_padded=False))
    assert_reference_steps(reference, native, memory(), state)


@pytest.mark.parametrize("wiring", ["luong", "bahdanau"])
@torch.no_grad()
def test_the_reference_goes_on_from_a_native_state(wiring):
    """In the middle of a search, under a transform."""
    reference, native = decoders(wiring=wiring)
    ours, theirs = assert_equal_steps(reference, native, memory(), 3, 2)
    kept = torch.tensor([1, 0])
    ours, theirs = ours.keep(kept), theirs.keep(kept)
    tokens = tokens_of(2, 2)
    with forward_ad.dual_level():
        output, ours = native.step(tokens, ours)
    expected, theirs = reference.step(tokens, theirs)
    assert isinstance(ours, RecurrentState)
    close(output.features, expected.features)
    close(native.step(tokens, ours)[0].features, reference.step(tokens, theirs)[0].features)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_types_use_the_reference(dtype):
    model = model_of(wiring="luong")
    reference, native = model.to(dtype).decoder, freeze(model, dtype).decoder
    (given,) = memory(is_padded=False)
    keys, summary = given.keys.to(dtype), given.summary
    summary = Summary(summary.hidden.to(dtype), summary.cell.to(dtype))
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-9
    memories = (Memory(keys, keys, given.mask, summary),)
    assert_reference_steps(reference, native, memories, tolerance=tolerance)


@torch.no_grad()
def test_autocast_uses_the_reference():
    reference, native = decoders()
    state = native.start(memory(is_padded=False))
    with torch.autocast("cpu", torch.bfloat16):
        assert_reference_steps(reference, native, memory(is_padded=False), tolerance=0.1)
        assert_reference_steps(reference, native, memory(is_padded=False), state, tolerance=0.1)


@torch.no_grad()
def test_hooks_use_the_reference():
    _, native = decoders()
    called = []
    native.decoder.parts.output.register_forward_hook(lambda *_: called.append(1))
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    assert called


@torch.no_grad()
def test_a_hook_after_the_start_is_called_from_the_next_start_on():
    """`start` reads the hooks."""
    _, native = decoders()
    state, called = native.start(memory()), []
    native.decoder.parts.output.register_forward_hook(lambda *_: called.append(1))
    native.step(tokens_of(BATCH, 1), state)
    assert not called
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    assert called


@torch.no_grad()
def test_a_decoder_in_training_uses_the_reference():
    """Also if the frozen decoder around it is not in training, from the start and between steps."""
    native = freeze(model_of(dropout=0.5)).decoder
    tokens, state = tokens_of(BATCH, 1), native.start(memory())
    native.decoder.train()
    for start in (state, native.start(memory())):
        results = [native.step(tokens, start)[0].features for _ in range(2)]
        assert not torch.equal(*results)
    assert isinstance(native.start(memory()), RecurrentState)


class Doubled(nn.Module):
    """Output layer of another class."""

    feature_size = SIZE

    def forward(self, state, context, embedded):
        return 2 * state


@pytest.mark.parametrize(
    "values",
    [
        dict(gate=True),
        dict(query="input"),
        dict(query="learned"),
        dict(attention=dict(normaliser="sparsemax")),
        dict(attention=dict(score="cosine")),
        dict(attention=dict(score="coverage")),
        dict(attention=dict(score="location")),
        dict(attention=dict(sampling="hard")),
        dict(attention=dict(scope="local_m")),
        dict(wiring="plain"),
        dict(wiring="gnmt", decoder_layers=2),
    ],
    ids=lambda values: "-".join(map(str, values)),
)
def test_decoders_with_other_parts_are_not_replaced(values):
    model = model_of(**values)
    assert type(freeze(model).decoder) is type(model.decoder)


@pytest.mark.usefixtures("unchecked")
def test_replaced_parts_and_hooks_are_not_replaced():
    for change in ("output", "stack", "hook"):
        decoder = model_of().decoder
        if change == "output":
            decoder.parts.output = Doubled()
        elif change == "stack":
            stack = decoder.parts.stack
            decoder.parts.stack = type("Other", (RecurrentStack,), {})(
                "lstm", stack.input_size, SIZE
            )
        else:
            decoder.parts.register_forward_pre_hook(lambda *_: None)
        assert not has_kernels(decoder)
        assert decoder.folded() is decoder
        with pytest.raises(ValueError, match="a part has no kernel"):
            NativeRecurrentDecoder(decoder)


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_wrong_tokens_and_states_are_rejected():
    _, native = decoders()
    state = native.start(memory())
    for tokens in (tokens_of(BATCH, 2), tokens_of(BATCH, 1)[:, 0], tokens_of(BATCH, 1).double()):
        with pytest.raises(ValueError, match="tokens: expected"):
            native.step(tokens, state)
    for token in (-1, VOCABULARY, 1 << 40):
        with pytest.raises(ValueError, match="recurrent step"):
            native.step(torch.full((BATCH, 1), token), state)
    tokens = tokens_of(BATCH, 1)
    for number in (-1, BATCH, 1 << 40):
        for name in ("entries", "parents"):
            wrong = torch.full_like(getattr(state, name), number)
            with pytest.raises(ValueError, match="recurrent step"):
                native.step(tokens, replace(state, **{name: wrong}))
    fields = ["entries", "hidden", "cell", "fed", "parents"]
    for name, change in itertools.product(fields, [lambda x: x.half(), lambda x: x[:, None]]):
        wrong = replace(state, **{name: change(getattr(state, name))})
        with pytest.raises(ValueError, match="state: expected"):
            native.step(tokens, wrong)
    _, other = decoders(decoder_layers=2)
    with pytest.raises(ValueError, match="hidden of the state"):
        other.step(tokens, state)


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_masks_are_checked():
    """Also if every number is true, because such a mask is dropped."""
    reference, native = decoders()
    (given,) = memory(is_padded=False)
    whole = torch.ones(BATCH, SOURCE, dtype=torch.bool)
    more = torch.ones(BATCH + 1, SOURCE + 2, dtype=torch.bool)
    wrong = [
        *(whole.float(), whole.long(), whole[0], whole[:-1], whole[:, :-2], whole.to("meta")),
        *(more[:-1], more[:, :-2]),
    ]
    for mask in wrong:
        with pytest.raises(ValueError, match=r"^mask: expected \(3, 7\) of bool on cpu, got"):
            native.start((replace(given, mask=mask),))
    mask = torch.arange(SOURCE) < 4
    for right in (whole[:1], whole[:, :1], mask[None], torch.tensor([[True], [False], [True]])):
        memories = (replace(given, mask=right),)
        state = native.start(memories)
        assert (state.mask is None) == bool(right.all())
        output, _ = native.step(tokens_of(BATCH, 1), state, need_weights=True)
        expected, _ = reference.step(
            tokens_of(BATCH, 1), reference.start(memories), need_weights=True
        )
        close(output.features, expected.features)
        assert_equal_blocks(output, expected)
        assert_equal_states(
            native.step(tokens_of(BATCH, 1), state)[1],
            reference.step(tokens_of(BATCH, 1), reference.start(memories))[1],
        )


@pytest.mark.parametrize("count", [1, 2, BATCH + 1])
@torch.no_grad()
def test_summaries_of_another_number_of_sentences_are_rejected(count):
    _, native = decoders()
    states = torch.randn(2, count, 1, SIZE)
    memories = (replace(memory()[0], summary=Summary(*states)),)
    with pytest.raises(ValueError, match=rf"^summary: expected .* 3 sentences .*, got {count}$"):
        native.start(memories)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("embeddings", "parts.embedding.weight"),
        ("vector of the score", "attention.attention.score.vector"),
        ("bias of a linear layer", "parts.stack.layers.0.bias_ih_l0"),
    ],
)
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_weights_of_another_type_are_rejected(name, path):
    _, native = decoders(wiring="bahdanau")
    parameter = native.decoder.get_parameter(path)
    parameter.data = parameter.data.double()
    with pytest.raises(ValueError, match=rf"^{name}: expected .* of float32 on cpu, got"):
        native.start(memory())


@torch.no_grad()
def test_copies_and_pickles_are_packed_again():
    reference, native = decoders()
    native.step(tokens_of(BATCH, 1), native.start(memory()))
    copies = copy.deepcopy(native), pickle.loads(pickle.dumps(native))
    room = io.BytesIO()
    torch.save(native, room)
    room.seek(0)
    for other in (*copies, torch.load(room, weights_only=False)):
        assert isinstance(other, NativeRecurrentDecoder)
        assert_equal_steps(reference, other, memory(), 2, 2)


@torch.no_grad()
def test_a_model_may_be_frozen_twice():
    model = model_of()
    native = freeze(freeze(model)).decoder
    assert isinstance(native.decoder, LuongDecoder)
    assert_equal_steps(model.decoder, native, memory(), 2, 2)


@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference():
    """Parts that are replaced before the first call, or before the model is frozen again."""
    frozen = freeze(model_of(output="state", wiring="bahdanau"))
    native = frozen.decoder
    native.decoder.parts.output = Doubled()
    assert_reference_steps(native.decoder, native, memory(is_padded=False))
    assert type(freeze(frozen).decoder) is BahdanauDecoder


@torch.no_grad()
def test_a_frozen_decoder_that_is_not_folded_again_has_one_reference():
    """Because it has a hook, or is the whole model that is frozen."""
    reference, native = decoders()
    assert_equal_steps(reference, freeze(native), memory(), 2, 2)
    frozen = freeze(model_of())
    frozen.decoder.register_forward_hook(lambda *_: None)
    again = freeze(frozen).decoder
    assert isinstance(again.decoder, LuongDecoder)
    assert_equal_steps(reference, again, memory(), 2, 2)


@pytest.mark.parametrize("values", WIRINGS)
@pytest.mark.parametrize("need_weights", [False, True])
@torch.no_grad()
def test_searches_equal_those_of_the_model(values, need_weights):
    model = model_of(**values)
    frozen = freeze(model)
    assert isinstance(model.decoder, BahdanauDecoder | LuongDecoder)
    sources = pad([[4, 5, 6, 7], [8, 4], [9, 10, 11]])
    limits = Limits(start=START, end=3, maximum=9)
    for search in (greedy, lambda *args, **kw: beam(*args, BeamSettings(size=3), **kw)):
        ours = search(frozen.decoder, frozen.encode(sources), limits, need_weights=need_weights)
        theirs = search(model.decoder, model.encode(sources), limits, need_weights=need_weights)
        for one, other in zip(ours, theirs, strict=True):
            pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
            for mine, right in pairs:
                assert mine.tokens == right.tokens
                assert mine.score == pytest.approx(right.score, abs=1e-4)
                for block, expected in zip(mine.attention, right.attention, strict=True):
                    close(block.weights, expected.weights)
