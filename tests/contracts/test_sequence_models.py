"""Properties of every encoder with every decoder and every attention."""

from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import pairwise as neighbours
from itertools import product
from typing import get_args

import pytest
import torch

from regard import kernels
from regard.building.translators import build_translation
from regard.compiled.freeze import freeze
from regard.config import KINDS, ExpertsConfig
from regard.data.batch import PAD, START, Tokens, pad
from regard.errors import UserError
from regard.models.contracts import CopyingDecoder
from regard.names import EqualSizesScoreName
from regard.numerics import linear
from regard.search import BeamSettings, Limits, NoPenalty, Restrictions, beam, forced, greedy
from tests import configs
from tests.contracts.choices import (
    CONVOLUTIONS,
    COPY,
    DECODER_MAPS,
    ENCODER_MAPS,
    EXPERTS,
    RECURRENT,
    SMALL,
    TIED,
    TRANSFORMERS,
    WIRINGS,
    attention_maps,
    randomise_gates,
    small,
    sums_to_one,
)
from tests.pairwise import pairwise

SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE = 13, 17
SIZES = configs.recurrent(size=7, embedding=5, attention=dict(size=11))
TRANSFORMER = configs.transformer(size=14, heads=7, layers=2, feed_forward=11, max_positions=29)
CONVOLUTION = configs.translation(
    "gated_convolution", "gated_convolution", size=14, layers=2, max_positions=29
)


def configured(sizes, row):
    """Return the model section of a combination of options; names with a comma set several
    options."""
    values = {}
    for name, value in row.items():
        names = name.split(", ")
        values |= zip(names, value if len(names) > 1 else (value,), strict=True)
    attention = {
        name: values.pop(name)
        for name in {"score", "normaliser", "scope", "temperature"} & values.keys()
    }
    if attention.get("scope", "global") != "global":
        attention["window"] = 2
    if values.pop("bidirectional", False):  # the size covers both directions
        values |= dict(encoder_size=14, bidirectional=True)
    return configs.changed(sizes, attention=attention, **values)


def is_possible(sizes, row):
    """Whether these options build a model, and each of them has an effect."""
    if row.get("wiring, feeding") == ("plain", "none"):
        attends = ("score", "normaliser", "scope", "extra_vectors_shape")
        if any(row[name] != RECURRENT[name][0] for name in attends):
            return False
    alike = {name: values[0] for name, values in INDEPENDENT.items() if name in row}
    if row["score"] in get_args(EqualSizesScoreName):
        alike["score"] = "dot"
    try:
        configured(sizes, row)
    except UserError:
        return False
    return _is_built(sizes, tuple({**row, **alike}.items()))


INDEPENDENT = {
    name: RECURRENT[name] for name in ("cell", "output", "normaliser", "key_positions")
} | {
    name: TRANSFORMERS[name] for name in ("norm", "activation", "temperature", "window", "experts")
}
"""Options that are valid with all others, except with a decoder without attention."""


@cache
def _is_built(sizes, row):
    try:
        build_translation(
            configured(sizes, dict(row)), SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE
        )
    except UserError:
        return False
    return True


FAMILIES = ((SIZES, RECURRENT), (TRANSFORMER, TRANSFORMERS), (CONVOLUTION, CONVOLUTIONS))


@cache
def rows(sizes, names):
    """Return combinations with every possible pair of these options."""
    options = dict(FAMILIES)[sizes]
    return pairwise({name: options[name] for name in names}, partial(is_possible, sizes))


@pytest.mark.parametrize(
    ("sizes", "options"), FAMILIES, ids=["recurrent", "transformer", "convolution"]
)
def test_every_choice_is_in_a_variant(sizes, options):
    for name, values in options.items():
        assert {row[name] for row in rows(sizes, tuple(options))} == set(values), name


def test_every_kind_has_its_expected_attention():
    kinds = KINDS["translate"]
    assert ENCODER_MAPS.keys() == kinds["encoder"].keys()
    assert DECODER_MAPS.keys() == kinds["decoder"].keys()


def variants():
    """Return every possible pair of options of each family, and models with shared weights."""
    for sizes, options in FAMILIES:
        for row in rows(sizes, tuple(options)):
            yield configured(sizes, row)
    for tied in TIED:
        yield configs.changed(SIZES, embedding=7, tied=tied)
        yield configs.changed(TRANSFORMER, tied=tied)
    for copy in COPY:
        yield from copying(copy)
    yield from with_recurrent_experts()


def with_recurrent_experts():
    """Return models with experts between recurrent layers, computed in one call and in steps."""
    sizes = configs.changed(SIZES, experts=EXPERTS, connections="residual", layers=2)
    gnmt = dict(wiring="gnmt", query="first_layer", cell="lstm")
    yield configs.changed(sizes, bidirectional=True, encoder_size=14, **gnmt)
    yield configs.changed(sizes, wiring="luong", feeding="attentional", cell="gru", layers=3)


def copying(copy):
    """Return models that copy: every kind of encoder, every kind and wiring of decoder, and
    attention of every form."""
    for config in pairs():
        kinds = (config.encoder.kind, config.decoder.kind)
        if config.decoder.attends and ("recurrent" in kinds or kinds[0] == kinds[1]):
            yield replace(config, copy=copy)
    for scope in RECURRENT["scope"][1:]:
        attention = dict(scope=scope, window=2, score="general")
        yield configs.changed(SIZES, copy=copy, attention=attention)
    yield configs.changed(SIZES, copy=copy, attention=dict(score="coverage"), intra_attention=True)
    yield configs.changed(SIZES, copy=copy, memory_vectors=3, key_layers=(0, 1), value_layers=(0,))
    yield configs.changed(TRANSFORMER, copy=copy, attention=dict(normaliser="sparsemax"))


def build(config):
    """Build a model, with one vocabulary for both sides if their embeddings are shared."""
    source_vocabulary_size = (
        TARGET_VOCABULARY_SIZE if config.tied == "all" else SOURCE_VOCABULARY_SIZE
    )
    return build_translation(config, source_vocabulary_size, TARGET_VOCABULARY_SIZE)


def pairs():
    """Return every kind of encoder with every kind of decoder, in each of its wirings, except the
    pairs of `variants`."""
    in_variants = {(sizes.encoder.kind, sizes.decoder.kind) for sizes, _ in FAMILIES}
    for encoder, decoder in product(*KINDS["translate"].values()):
        if (encoder, decoder) not in in_variants:
            for wiring in wirings(decoder):
                yield paired(encoder, decoder, **wiring)


def wirings(decoder):
    """Return the fields of every wiring of a kind of decoder."""
    if decoder == "recurrent":
        return [dict(wiring=wiring, feeding=feeding) for wiring, feeding in WIRINGS]
    return [{}]


def paired(encoder, decoder, **values):
    """Return a small model of an encoder and a decoder of these kinds."""
    kinds = KINDS["translate"]
    sizes = small(kinds["encoder"][encoder], kinds["decoder"][decoder])
    return configs.translation(encoder, decoder, **sizes, **values)


def frozen():
    """Return variants for tests with packed weights and kernels: every wiring and cell, a score of
    each kind, Transformers, and every kind of encoder and of decoder."""
    for (wiring, feeding), cell in zip(
        [("bahdanau", "none"), ("luong", "attentional"), ("plain", "none")],
        ("elman", "gru", "lstm"),
        strict=True,
    ):
        values = dict(wiring=wiring, feeding=feeding, cell=cell)
        yield configs.changed(SIZES, layers=2, output="deep", **values)
    for score in ("general", "additive", "cosine"):
        attention = dict(score=score, size=7)
        both = {} if score == "cosine" else dict(bidirectional=True, encoder_size=14)
        yield configs.changed(SIZES, attention=attention, **both)
        yield configs.changed(TRANSFORMER, attention=attention, positions="rotary")
    for sizes, copy in product((SIZES, TRANSFORMER), COPY):
        yield configs.changed(sizes, copy=copy)
    yield configs.changed(SIZES, wiring="gnmt", layers=4, connections="residual", cell="lstm")
    yield configs.changed(SIZES, layers=2, connections="fast_forward", wiring="bahdanau")
    yield configs.changed(TRANSFORMER, activation="gelu")
    yield configs.changed(TRANSFORMER, norm="post")
    yield configs.changed(TRANSFORMER, experts=EXPERTS)
    yield from with_recurrent_experts()
    kinds = KINDS["translate"]
    for encoder in kinds["encoder"]:
        yield paired(encoder, "recurrent")
    for decoder in kinds["decoder"]:
        yield paired("recurrent", decoder)


def name(config):
    """Return the kinds of the parts and every field that differs from its default."""
    parts = [
        f"{field}={value}"
        for field in ("tied", "copy")
        if (value := getattr(config, field)) != "none"
    ]
    for part, record in config.parts.items():
        usual = type(record)()
        values = {
            field.name: getattr(record, field.name)
            for field in fields(record)
            if field.name not in {"kind", *SMALL} - {"layers"}
        }
        parts.append(f"{part}_{record.kind}")
        for field, value in values.items():
            if isinstance(value, ExpertsConfig):
                parts += [f"{value.number}_experts"] * bool(value.number)
            elif is_dataclass(value):
                parts += [value.score, value.normaliser, getattr(value, "scope", "")]
            elif value != getattr(usual, field):
                parts.append(f"{field}={value}".replace(" ", ""))
    return "-".join(filter(None, parts))


def by_kernels(configs):
    """Return variants in float32, the type of the kernels."""
    return [pytest.param((each, torch.float32), id=f"float32-{name(each)}") for each in configs]


def by_formulas(configs):
    return [pytest.param((each, torch.float64), id=name(each)) for each in configs]


@pytest.fixture(scope="module", params=by_formulas([*variants(), *pairs()]) + by_kernels(frozen()))
def model(request):
    config, precision = request.param
    torch.manual_seed(3)
    model = build(config).to(precision).eval()
    randomise_gates(model)
    return model


@pytest.fixture
def expected(request):
    """Return the expected kinds of attention with their numbers of layers and heads."""
    config, _ = request.node.callspec.params["model"]
    return attention_maps(config)


@pytest.fixture
def source():
    """Sources, with numbers to copy: those of the target vocabulary, and larger ones."""
    tokens = pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]])
    return replace(tokens, copies=pad([[4, 18, 18, 5, 20], [17, 2], [17, 6, 7]]).ids)


def part(tokens, rows, num_more=0):
    """Return these rows without common padding, with more padding if wanted."""
    length = int(tokens.mask[rows].sum(dim=1).max())
    ids, mask, copies = (
        torch.nn.functional.pad(values[rows, :length], (0, num_more), value=padding)
        for values, padding in ((tokens.ids, PAD), (tokens.mask, False), (tokens.copies, PAD))
    )
    return Tokens(ids, mask, copies=copies)


def in_common(left, right):
    """Return features without the numbers of source positions that only one of the batches has."""
    size = min(left.size(-1), right.size(-1))
    for features in (left, right):
        assert features[..., size:].eq(-torch.inf).all()
    return left[..., :size], right[..., :size]


@pytest.fixture
def inputs():
    return torch.tensor([[START, 4, 5, 6], [START, 7, 8, 16], [START, 9, 15, 3]])


def counted(blocks):
    """Count attention blocks by kind."""
    result = {}
    for block in blocks:
        same = sum(name.startswith(f"{block.kind} ") for name in result)
        result[f"{block.kind} {same}"] = block
    return result


def maps(output):
    """Return the weights of each kind."""
    return {kind: block.weights for kind, block in counted(output.attention).items()}


UNCHECKED = pytest.mark.usefixtures("unchecked")
"""For tests whose calls have their types of shapes checked by another test of the same model."""


@torch.no_grad()
def test_steps_equal_a_forced_pass(model, source, inputs):
    memories = model.encode(source)
    whole = model.decoder(inputs, memories, need_weights=True)
    whole_maps, state = maps(whole), model.decoder.start(memories)
    for position in range(inputs.size(1)):
        token = inputs[:, position : position + 1]
        step, state = model.decoder.step(token, state, need_weights=True)
        torch.testing.assert_close(step.features[:, 0], whole.features[:, position])
        for kind, result in maps(step).items():
            line = whole_maps[kind][:, :, :, position]
            if kind == "decoder 0":
                assert result.size(4) == position + 1
                line = line[..., : position + 1]
            torch.testing.assert_close(result[:, :, :, 0], line)
        assert maps(step).keys() == whole_maps.keys()


@torch.no_grad()
def test_returning_weights_changes_no_output(model, source, inputs, expected):
    memories, attention = model.encode_with_attention(source, need_weights=True)
    others = model.encode(source)
    for memory, plain in zip(memories, others, strict=True):
        torch.testing.assert_close(memory.values[memory.mask], plain.values[plain.mask])
    with_weights = model.decoder(inputs, memories, need_weights=True)
    plain = model.decoder(inputs, others)
    torch.testing.assert_close(with_weights.features, plain.features)
    assert plain.attention == ()
    blocks = attention + with_weights.attention
    assert sorted(counted(blocks)) == sorted(expected)
    for name, block in counted(blocks).items():
        length = {"cross": 5, "encoder": 5, "decoder": 4}
        target = 5 if block.kind.startswith("encoder") else 4
        seen = length.get(block.kind, block.weights.size(-1))
        assert block.weights.shape == (3, *expected[name], target, seen)
        assert block.scores.shape == block.weights.shape
        sums = block.weights.sum(dim=-1)
        assert block.weights.ge(0).all()
        if block.kind.startswith(
            "encoder"
        ):  # padding may see nothing but padding, and has no experts
            sums = sums.transpose(1, 3)[source.mask]
        if sums_to_one(model, block.kind):
            torch.testing.assert_close(sums, torch.ones_like(sums))
        else:
            assert sums.gt(0).all()
        shown = source.mask[:, None, None, None]
        if block.kind == "decoder":
            shown = torch.ones(4, 4).tril().bool()
        if block.kind not in ("cross", "encoder", "decoder"):
            shown = torch.ones(seen, dtype=torch.bool)
        assert block.weights[~shown.expand_as(block.weights)].eq(0).all()


@UNCHECKED
@torch.no_grad()
def test_batched_equals_one_by_one_and_padding_changes_nothing(model, source, inputs):
    together = model.decoder(inputs, model.encode(source), need_weights=True)
    all_maps = maps(together)
    for row in range(3):
        length = int(source.mask[row].sum())
        for arguments in (part(source, [row]), part(source, [row], num_more=4)):
            single = model.decoder(
                inputs[row : row + 1], model.encode(arguments), need_weights=True
            )
            features = in_common(single.features[0], together.features[row])
            torch.testing.assert_close(*features)
            for kind, result in maps(single).items():
                seen = {"cross": length, "encoder": length}.get(kind.split()[0])
                torch.testing.assert_close(result[0, ..., :seen], all_maps[kind][row, ..., :seen])


@UNCHECKED
@torch.no_grad()
def test_state_selects_hypotheses_and_keeps_sentences(model, source):
    decoder = model.decoder
    _, state = decoder.step(torch.full((3, 1), START), decoder.start(model.encode(source)))
    state = state.select(torch.zeros(3, 2, dtype=torch.long))
    tokens = torch.tensor([[4, 5], [6, 7], [8, 9]])
    output, state = decoder.step(tokens, state)
    swapped, _ = decoder.step(tokens, state.select(torch.tensor([[1, 0], [0, 1], [1, 1]])))
    kept, _ = decoder.step(tokens[[2, 0]], state.keep(torch.tensor([2, 0])))
    straight, _ = decoder.step(tokens, state)
    assert output.features.shape[:2] == (3, 2)
    assert not torch.equal(output.features[:, 0], output.features[:, 1])
    torch.testing.assert_close(swapped.features[1], straight.features[1])
    torch.testing.assert_close(kept.features, straight.features[[2, 0]])
    single_beam, _ = decoder.step(tokens[:, :1], state.select(torch.tensor([[1], [1], [1]])))
    torch.testing.assert_close(swapped.features[0, 0], single_beam.features[0, 0])


@UNCHECKED
def test_two_calls_give_equal_outputs_and_keep_no_state(model, source, inputs):
    before = {key: value.clone() for key, value in model.state_dict().items()}
    memories = model.encode(source)
    first = model.decoder(inputs, memories).features
    model.decoder(inputs.flip(0), model.encode(source))
    second = model.decoder(inputs, memories).features
    assert torch.equal(first, second)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert {name for name, _ in model.named_buffers()} <= {"build_memory.vectors"}


@pytest.mark.parametrize("model", by_formulas(pairs()), indirect=True)
def test_the_gradient_reaches_every_parameter(model, source, inputs):
    """A decoder without attention depends on the source through its initial state only."""
    output = model.decoder(inputs, model.encode(source))
    model.decoder.project(output.features).square().sum().backward()
    for parameter, weight in model.named_parameters():
        assert weight.grad is not None, parameter
        assert weight.grad.isfinite().all(), parameter
        assert weight.grad.abs().sum() > 0, parameter


LIMITS = Limits(start=START, end=2, maximum=torch.tensor([7, 5, 3]), forbidden=(PAD, START))


@UNCHECKED
def test_every_search_returns_the_attention_of_its_output(model, source, expected):
    """Attention gathered step by step in greedy and beam search equals that of forced decoding."""
    memories = model.encode(source)
    alone = greedy(model.decoder, memories, LIMITS, need_weights=True)
    single_beam = beam(
        model.decoder, memories, LIMITS, BeamSettings(1, 1, NoPenalty()), need_weights=True
    )
    assert [each.tokens for each in alone] == [best.tokens for (best,) in single_beam]
    several = beam(model.decoder, memories, LIMITS, BeamSettings(5, 3), need_weights=True)
    result = [
        (row, each)
        for row, first in enumerate(alone)
        for each in (first, *single_beam[row], *several[row])
    ]
    written = pad([each.tokens for _, each in result])
    rows = torch.tensor([row for row, _ in result])
    inputs = torch.nn.functional.pad(written.ids[:, :-1], (1, 0), value=START)
    read_again = model.encode(part(source, rows.tolist()))
    read = forced(model.decoder, read_again, inputs, written.ids, written.mask, need_weights=True)
    read_maps = maps(read)
    for place, (_, hypothesis) in enumerate(result):
        length = len(hypothesis.tokens)
        torch.testing.assert_close(
            read.log_probabilities[place, :length],
            torch.tensor(hypothesis.log_probabilities, dtype=read.log_probabilities.dtype),
        )
        attention = counted(hypothesis.attention)
        assert attention.keys() == {kind for kind in expected if not kind.startswith("encoder")}
        for kind, gathered in attention.items():
            weights = read_maps[kind][place, :, :, :length]
            seen = length if gathered.kind == "decoder" else gathered.weights.size(-1)
            torch.testing.assert_close(gathered.weights, weights[..., :seen])
            assert weights[..., seen:].eq(0).all()


@UNCHECKED
def test_restrictions_hold_in_every_hypothesis(model, source):
    """Prefixes have the probabilities of forced decoding, and no pair of tokens is repeated."""
    prefixes = (4, 5, 4), (7,), ()
    restrictions = Restrictions(no_repeat_ngram=2, repetition_penalty=1.3, prefixes=prefixes)
    limits, memories = replace(LIMITS, restrictions=restrictions), model.encode(source)
    alone = greedy(model.decoder, memories, limits, need_weights=True)
    single_beam = beam(model.decoder, memories, limits, BeamSettings(1, 1, NoPenalty()))
    assert [each.tokens for each in alone] == [best.tokens for (best,) in single_beam]
    several = beam(model.decoder, memories, limits, BeamSettings(5, 3))
    for prefix, first, hypotheses in zip(prefixes, alone, several, strict=True):
        for hypothesis in (first, *hypotheses):
            assert hypothesis.tokens[: len(prefix)] == prefix
            pairs = [*neighbours(hypothesis.tokens)]
            free = range(max(len(prefix) - 1, 0), len(pairs))
            assert not any(pairs[place] in pairs[:place] for place in free)
    inputs, outputs = torch.tensor([[START, 4, 5]]), torch.tensor([[4, 5, 4]])
    read_again = model.encode(part(source, [0]))
    read = forced(model.decoder, read_again, inputs, outputs, outputs > 0)
    expected = read.log_probabilities[0]
    result = torch.tensor(alone[0].log_probabilities[:3], dtype=expected.dtype)
    torch.testing.assert_close(result, expected)


@UNCHECKED
@torch.no_grad()
def test_branches_of_one_state_are_independent(model, source):
    """A state is not changed by its continuations."""
    decoder = model.decoder
    _, state = decoder.step(torch.full((3, 1), START), decoder.start(model.encode(source)))
    for tokens in ([[4], [5], [6]], [[7], [8], [9]]):  # so that there is room left
        _, state = decoder.step(torch.tensor(tokens), state)
    single_beam, other = torch.tensor([[4], [5], [6]]), torch.tensor([[10], [11], [12]])
    _, after_one = decoder.step(single_beam, state)
    _, after_other = decoder.step(other, state)
    expected, _ = decoder.step(single_beam, after_one)
    decoder.step(other, after_one)
    decoder.step(other, after_other)
    again, _ = decoder.step(single_beam, decoder.step(single_beam, state)[1])
    torch.testing.assert_close(again.features, expected.features)
    assert not torch.allclose(decoder.step(single_beam, after_other)[0].features, expected.features)


@pytest.mark.parametrize("model", by_kernels(frozen()), indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("path", ["kernels", "formulas", "unpacked"])
def test_a_frozen_model_gives_equal_numbers(monkeypatch, model, source, dtype, path):
    """With kernels, without them, and on CPUs for which oneDNN does not support the type, as
    without AVX-512: there weights are frozen unpacked."""
    if dtype == torch.int8 and (path == "formulas" or not kernels.available()):
        pytest.skip("int8 needs the kernels")
    if path == "formulas":
        monkeypatch.setattr(kernels, "_LIBRARY", None)
    if path == "unpacked":
        monkeypatch.setattr(linear, "_TYPES", ())
    frozen = freeze(model, dtype)
    inputs = torch.tensor([[START, 4, 7, 9], [START, 5, 5, 16], [START, 8, 6, 4]])
    with torch.inference_mode():
        memories, decoder = frozen.encode(source), frozen.decoder
        state, logits = decoder.start(memories), []
        for tokens in inputs.split(1, dim=1):
            output, state = decoder.step(tokens, state)
            logits.append(decoder.project(output.features))
            state = state.select(torch.zeros_like(tokens))
        stepped = torch.cat(logits, dim=1)
        whole = decoder.project(decoder(inputs, memories).features)
        shown = decoder(inputs, memories, need_weights=True)
        expected = model.decoder.project(model.decoder(inputs, model.encode(source)).features)
    precise = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
    if isinstance(decoder, CopyingDecoder):
        precise = torch.float32
    assert stepped.dtype == whole.dtype == decoder.project(shown.features).dtype == precise
    exact = dict(rtol=1e-4, atol=1e-5) if dtype == torch.float32 else dict(rtol=0.1, atol=0.1)
    for result in (stepped, whole):
        torch.testing.assert_close(result.float(), expected, **exact)
