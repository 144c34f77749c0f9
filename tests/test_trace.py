"""A trace says the same after every round trip, and refuses what does not fit together."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from regard.errors import UserError
from regard.names import AttentionKind
from regard.trace import AttentionMap, BeamLattice, Step, TokenSequence, Trace
from tests.messages import raises


def sequence(number: int, language: str | None = None) -> Sequence:
    pieces = tuple(f"piece{i}" for i in range(number))
    return TokenSequence(" ".join(pieces), pieces, tuple(range(number)), language)


def weights(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def full_trace() -> Trace:
    scores = weights(2, 3, 5, 7) - 3
    scores[..., 1] = -np.inf
    return Trace(
        source=TokenSequence(
            "猫 sits", ("猫", "si", "##ts", "x", "y", "z", "<eos>"), (0, 1, 1, 2, 3, 4, 5)
        ),
        target=sequence(5, "de"),
        attention=(
            AttentionMap("cross", weights(2, 3, 5, 7), scores),
            AttentionMap("encoder", weights(1, 2, 7, 7)),
            AttentionMap("decoder", weights(1, 1, 5, 5)),
            AttentionMap("image", weights(1, 1, 5, 13)),
            AttentionMap("memory", weights(1, 1, 5, 3)),
            AttentionMap("encoder_experts", weights(2, 1, 7, 4)),
            AttentionMap("decoder_experts", weights(2, 1, 5, 4)),
            AttentionMap("gradient", weights(1, 1, 5, 7)),
        ),
        steps=tuple(
            Step(f"piece{i}", -0.1 * i, (("a", -0.1), ("b", -math.inf)), 0.3) for i in range(5)
        ),
        score=-1.75,
        lattice=BeamLattice((("a", "b"), ("c",)), ((0, 0), (1,)), ((-0.5, -math.inf), (-0.7,))),
    )


@pytest.mark.parametrize("name", ["trace.json", "trace.npz"])
def test_saving_and_loading_preserves_a_trace(name: str, tmp_path: Path) -> None:
    trace = full_trace()
    trace.save(tmp_path / name)
    assert Trace.load(tmp_path / name) == trace
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_trace_is_not_the_same_when_one_weight_differs() -> None:
    one, other = full_trace(), full_trace()
    assert one == other
    other.attention[0].weights[1, 2, 4, 6] += 0.001
    assert one != other
    assert AttentionMap("cross", weights(1, 1, 2, 3)) != AttentionMap(
        "cross", weights(1, 1, 2, 3), weights(1, 1, 2, 3)
    )


@settings(max_examples=25, deadline=None)
@given(
    st.data(),
    st.integers(0, 5),
    st.integers(0, 7),
    st.floats(allow_nan=False, max_value=1e9),
)
def test_json_preserves_every_float(
    data: st.DataObject, rows: int, columns: int, score: float
) -> None:
    shape = (1, 2, rows, columns)
    numbers = st.floats(0, 1, width=32)
    scores = st.one_of(st.just(-math.inf), st.floats(-9, 9, width=32))
    trace = Trace(
        source=sequence(columns),
        target=sequence(rows),
        attention=(
            AttentionMap(
                "cross",
                data.draw(hnp.arrays(np.float32, shape, elements=numbers)),
                data.draw(hnp.arrays(np.float32, shape, elements=scores)),
            ),
        ),
        score=score,
    )
    assert Trace.from_json(trace.to_json()) == trace


def test_json_is_strict_short_and_versioned() -> None:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    trace = Trace(
        sequence(1),
        sequence(1),
        (AttentionMap("cross", np.array([[[[0.1]]]], np.float32), np.full((1, 1, 1, 1), -np.inf)),),
    )
    record = json.loads(trace.to_json(), parse_constant=refuse)
    assert record["format"] == 1
    assert record["attention"] == [
        {"kind": "cross", "weights": [[[[0.1]]]], "scores": [[[[None]]]]}
    ]
    assert "0.1]" in trace.to_json()
    assert "\n" not in trace.to_json()


def test_maps_are_found_by_kind() -> None:
    trace = full_trace()
    assert trace.map().weights.shape == (2, 3, 5, 7)
    assert trace.map("encoder").weights.shape == (1, 2, 7, 7)
    bare = Trace(sequence(2), sequence(3), (AttentionMap("cross", weights(1, 1, 3, 2)),))
    with raises(ValueError):
        bare.map("decoder")


@pytest.mark.parametrize(
    ("kind", "shape", "axis"),
    [
        ("cross", (1, 1, 5, 3), "3 source positions, but there are 7 pieces"),
        ("cross", (1, 1, 3, 7), "3 target positions, but there are 5 pieces"),
        ("encoder", (1, 1, 5, 7), "5 target positions, but there are 7 pieces"),
        ("decoder", (1, 1, 5, 7), "7 source positions, but there are 5 pieces"),
        ("image", (1, 1, 7, 5), "7 target positions, but there are 5 pieces"),
        ("encoder_experts", (1, 1, 5, 4), "5 target positions, but there are 7 pieces"),
        ("decoder_experts", (1, 1, 7, 4), "7 target positions, but there are 5 pieces"),
    ],
)
def test_axes_must_be_as_long_as_the_pieces(
    kind: AttentionKind, shape: tuple[int, ...], axis: str
) -> None:
    with pytest.raises(ValueError, match=axis):
        Trace(sequence(7), sequence(5), (AttentionMap(kind, weights(*shape)),))


def test_records_reject_inconsistent_shapes() -> None:
    with pytest.raises(ValueError, match="got 2 numbers for 3 pieces"):
        TokenSequence("a b c", ("a", "b", "c"), (0, 1))
    with raises(ValueError):
        AttentionMap("cross", weights(0, 1, 5, 7))
    with pytest.raises(ValueError, match="must be finite"):
        AttentionMap("cross", np.full((1, 1, 2, 3), np.nan))
    with pytest.raises((ValueError, TypeError), match="scores"):  # TypeError: the types' own check
        AttentionMap("cross", weights(1, 1, 2, 3), weights(1, 1, 3, 2))
    with pytest.raises(ValueError, match="numbers or -inf"):
        AttentionMap("cross", weights(1, 1, 2, 3), np.full((1, 1, 2, 3), np.inf))
    with pytest.raises(ValueError, match="got 1 steps for 2 pieces"):
        Trace(sequence(1), sequence(2), steps=(Step("a", -0.1),))
    with pytest.raises(ValueError, match="equal numbers of hypotheses"):
        BeamLattice((("a", "b"),), ((0,),), ((-0.1, -0.2),))
    with pytest.raises(ValueError, match="parents of step 2 must be from 0 to 1"):
        BeamLattice((("a", "b"), ("c",)), ((0, 0), (2,)), ((-0.1, -0.2), (-0.3,)))


def test_other_float_types_are_converted_to_float32() -> None:
    assert AttentionMap("cross", weights(1, 1, 2, 3).astype(np.float64)).weights.dtype == np.float32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "expected the JSON of a trace"),
        ("[1]", "expected the JSON of a trace"),
        ('{"format": 1}', "KeyError"),
        ('{"format": 2}', "format 2, and this version of regard reads 1"),
    ],
)
def test_files_that_are_not_traces_are_rejected(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        Trace.from_json(text)
    for name in ("bad.json", "bad.npz"):
        (tmp_path / name).write_text(text)
        with pytest.raises(UserError, match=f"{name} is not a trace"):
            Trace.load(tmp_path / name)


def test_only_known_suffixes_are_written(tmp_path: Path) -> None:
    with raises(UserError):
        full_trace().save(tmp_path / "trace.txt")


def test_pickled_arrays_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", trace=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UserError, match="pickle"):
        Trace.load(tmp_path / "evil.npz")


def test_decoder_maps_cover_earlier_tokens_only() -> None:
    trace = full_trace()
    seen = trace.columns("decoder")
    assert seen.pieces == ("<sos>", *trace.target.pieces[:-1])
    assert seen.words == (-1, *trace.target.words[:-1])
    assert trace.columns("encoder") == trace.columns("cross") == trace.source
    assert trace.columns("image") is None
    nothing = TokenSequence("", (), ())
    empty = Trace(nothing, nothing, (AttentionMap("decoder", np.zeros((1, 1, 0, 0))),))
    assert empty.columns("decoder") == nothing


def test_labels_are_the_typed_texts_with_unknown_ones_marked() -> None:
    typed = TokenSequence(
        "How XYZ <unk>", ("how", "<unk>", "<unk>", "<eos>"), (0, 1, 2, 3), "en",
        ("How", "XYZ", "<unk>", ""),
    )  # fmt: skip
    assert typed.labels == ("How", "XYZ*", "<unk>", "<eos>")
    assert typed.unknown == (False, True, False, False)
    assert TokenSequence("a", ("a",), (0,)).labels == ("a",)
    trace = Trace(typed, typed, (AttentionMap("decoder", weights(1, 1, 4, 4)),))
    assert Trace.from_json(trace.to_json()) == trace
    columns = trace.columns("decoder")
    assert columns is not None
    assert columns.labels == ("<sos>", "How", "XYZ*", "<unk>")
    with raises(ValueError):
        TokenSequence("a b", ("a", "b"), (0, 1), None, ("a",))


def test_steps_say_whether_pieces_were_copied() -> None:
    steps = Step("a", -0.1, copied=0.9), Step("b", -0.2, copied=0.5), Step("c", -0.3)
    trace = Trace(sequence(1), sequence(3), steps=steps)
    assert trace.copied == (True, False, False)
    assert Trace.from_json(trace.to_json()) == trace
    assert Trace(sequence(1), sequence(2)).copied == (False, False)
