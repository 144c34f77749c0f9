"""What one output looked at. Everything that draws, links or exports reads a Trace.

    source    she     kissed  him   .   <eos>          pieces; `words` says which word each is of
    target    sie     küsste  ihn   .   <eos>
    attention one AttentionMap a kind, weights "layer head target source"
    steps     one Step a target piece: how sure the model was, and what else it thought of
    lattice   what the beam held, step by step

Numbers and texts only, numpy and no torch: a Trace can be kept, mailed and drawn without a model.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import UserError
from regard.files import check_input, read_text, whole
from regard.names import AttentionKind

FORMAT = 1
"""The version that files carry. A change that an older reader would misread raises it."""

START_PIECE, END_PIECE = "<sos>", "<eos>"
"""How what stands before a sequence, and its end where it is one of the pieces, are shown."""

SUFFIXES = (".json", ".npz")

Weights = Float[np.ndarray, "layer head target source"]


@dataclass(frozen=True)
class TokenSequence:
    """One side: its text, the pieces the model saw, and the number of the word each is of.

    `language` is a code such as "de"; it helps to choose a font."""

    text: str
    pieces: tuple[str, ...]
    words: tuple[int, ...]
    language: str | None = None

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.words):
            raise ValueError(
                f"words must give one number a piece: {len(self.words)} numbers came for "
                f"{len(self.pieces)} pieces"
            )


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Who looked at what, of one kind: `cross` (target at source), `encoder` and `decoder` (at
    themselves), `image` (target at cells), `memory` (target at vectors that are of no source). Any
    floats come in, float32 is kept.

    `scores` are what the weights were made of; -inf where a position was masked."""

    kind: AttentionKind
    weights: Weights
    scores: Weights | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _four_axes("weights", self.weights))
        if not np.isfinite(self.weights).all():
            raise ValueError(f"weights of kind {self.kind!r} must be finite, but some are not")
        if self.scores is None:
            return
        object.__setattr__(self, "scores", _four_axes("scores", self.scores))
        if self.scores.shape != self.weights.shape:
            raise ValueError(
                f"scores must have the weights' shape {self.weights.shape}, got {self.scores.shape}"
            )
        if np.isnan(self.scores).any() or np.isposinf(self.scores).any():
            raise ValueError(f"scores of kind {self.kind!r} must be numbers or -inf (masked)")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttentionMap):
            return NotImplemented
        return (
            self.kind == other.kind
            and np.array_equal(self.weights, other.weights)
            and _same(self.scores, other.scores)
        )


def _four_axes(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, dtype=np.float32)
    if array.ndim != 4 or 0 in array.shape[:2]:
        raise ValueError(
            f"{name} must have the axes layer, head, target and source, and at least one layer and "
            f"head, got the shape {array.shape}"
        )
    return array


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def of_kind(maps: tuple[AttentionMap, ...], kind: AttentionKind) -> tuple[AttentionMap, ...]:
    """Those of this kind, in their order; ValueError where there is none."""
    found = tuple(each for each in maps if each.kind == kind)
    if not found:
        there = ", ".join(each.kind for each in maps) or "none at all"
        raise ValueError(f"there is no attention of kind {kind!r}, only: {there}")
    return found


@dataclass(frozen=True)
class Step:
    """One token as it was chosen. Probabilities are natural logarithms, entropy is in nats; `top`
    are the likeliest tokens, best first."""

    token: str
    log_probability: float
    top: tuple[tuple[str, float], ...] = ()
    entropy: float = 0.0


@dataclass(frozen=True)
class BeamLattice:
    """The hypotheses that were alive after each step: the token that each wrote, which hypothesis
    of the step before it continues (0 in the first step), and its score then."""

    tokens: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        sizes = [tuple(map(len, table)) for table in (self.tokens, self.parents, self.scores)]
        if not sizes[0] == sizes[1] == sizes[2]:
            raise ValueError(
                f"tokens, parents and scores must have as many hypotheses at each step, got {sizes}"
            )
        for step, (before, parents) in enumerate(
            zip((1, *sizes[0]), self.parents, strict=False), start=1
        ):
            if any(not 0 <= parent < before for parent in parents):
                raise ValueError(
                    f"parents of step {step} must be from 0 to {before - 1}, got {parents}"
                )


@dataclass(frozen=True)
class Trace:
    """What one output looked at, how sure each step was, and what the beam held.

    Every map's axes must be as long as the pieces they stand for; ValueError otherwise. `score` is
    what the output was ranked by."""

    source: TokenSequence
    target: TokenSequence
    attention: tuple[AttentionMap, ...] = ()
    steps: tuple[Step, ...] = ()
    score: float = 0.0
    lattice: BeamLattice | None = None

    def __post_init__(self) -> None:
        for each in self.attention:
            self._check(each)
        if self.steps and len(self.steps) != len(self.target.pieces):
            raise ValueError(
                f"steps must be one a target piece: {len(self.steps)} came for "
                f"{len(self.target.pieces)} pieces"
            )

    def map(self, kind: AttentionKind = "cross") -> AttentionMap:
        """The map of this kind, the first model's where several wrote together; ValueError where
        there is none."""
        return self.maps(kind)[0]

    def maps(self, kind: AttentionKind = "cross") -> tuple[AttentionMap, ...]:
        """The maps of this kind, one for each model that wrote; ValueError where there is none."""
        return of_kind(self.attention, kind)

    def down(self, kind: AttentionKind) -> TokenSequence:
        """The sequence that looks, in a map of this kind."""
        return self.source if kind == "encoder" else self.target

    def across(self, kind: AttentionKind) -> TokenSequence | None:
        """The sequence that is looked at, in a map of this kind; None for the cells of a
        picture, and for vectors.

        A decoder that writes a piece looks at those before it: at a start (of no word, -1), then at
        the target without its last piece."""
        match kind:
            case "cross" | "encoder":
                return self.source
            case "decoder":
                pieces, words = self.target.pieces[:-1], self.target.words[:-1]
                if self.target.pieces:
                    pieces, words = (START_PIECE, *pieces), (-1, *words)
                return TokenSequence(self.target.text, pieces, words, self.target.language)
            case "image" | "memory":
                return None

    def _check(self, each: AttentionMap) -> None:
        axes = ("target", self.down(each.kind)), ("source", self.across(each.kind))
        for (axis, sequence), size in zip(axes, each.weights.shape[2:], strict=True):
            if sequence is not None and len(sequence.pieces) != size:
                raise ValueError(
                    f"weights of kind {each.kind!r} have {size} {axis} positions, but there are "
                    f"{len(sequence.pieces)} pieces: {' '.join(sequence.pieces)}"
                )

    def to_json(self) -> str:
        """One line of JSON; -inf, which JSON does not know, is written as null."""
        return _dump(_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read what `to_json` wrote; UserError for anything else."""
        return _read(text, {})

    def save(self, path: str | Path) -> None:
        """Write a .json or .npz file, whole or not at all."""
        path = Path(path)
        as_json = _suffix(path) == ".json"
        with whole(path) as unfinished:
            unfinished.write_bytes(f"{self.to_json()}\n".encode() if as_json else _to_npz(self))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what `save` wrote; UserError for anything else. Nothing is unpickled."""
        path = Path(path)
        as_json = _suffix(path) == ".json"
        try:
            if as_json:
                return _read(read_text(path), {})
            with np.load(check_input(path), allow_pickle=False) as entries:
                return _read(str(entries["trace"]), entries)
        except Exception as error:  # NumPy's reader of headers raises what Python's tokenizer does
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"{path} is not a trace: {why}") from error


def _suffix(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        raise UserError(f"a trace is kept in a {' or '.join(SUFFIXES)} file, got {path}")
    return path.suffix


def _dump(plain: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, **plain}, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """The same as JSON can say it, with no more digits than tell two float32 apart."""
    if isinstance(value, np.ndarray):
        return _plain(value.astype(str).astype(np.float64).tolist())
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if value == -math.inf else value


def _number(value: float | None) -> float:
    return -math.inf if value is None else float(value)


def _to_npz(trace: Trace) -> bytes:
    """The arrays by their names, and the rest as the JSON text `trace`."""
    plain = _plain(trace)
    arrays = {}
    for number, (each, said) in enumerate(zip(trace.attention, plain["attention"], strict=True)):
        for name in ("weights", "scores"):
            array = getattr(each, name)
            if array is not None:
                said[name] = f"attention.{number}.{name}"
                arrays[said[name]] = array
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, trace=np.array(_dump(plain)), **arrays)
    return content.getvalue()


def _read(text: str, arrays: Mapping[str, np.ndarray]) -> Trace:
    try:
        said = json.loads(text)
        if said["format"] != FORMAT:
            raise UserError(
                f"it has format {said['format']}, and this version of regard reads {FORMAT}"
            )
        source = _sequence(said["source"])
        return Trace(
            source=source,
            target=_sequence(said["target"]),
            attention=tuple(_map(each, arrays, len(source.pieces)) for each in said["attention"]),
            steps=tuple(_step(each) for each in said["steps"]),
            score=_number(said["score"]),
            lattice=_lattice(said["lattice"]) if said["lattice"] else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"expected the JSON of a trace, as `regard translate --trace` writes it, but came upon "
            f"{type(error).__name__}: {error}"
        ) from error


def _sequence(said: dict[str, Any]) -> TokenSequence:
    return TokenSequence(
        said["text"], tuple(said["pieces"]), tuple(said["words"]), said["language"]
    )


def _map(said: dict[str, Any], arrays: Mapping[str, np.ndarray], num_source: int) -> AttentionMap:
    def read(name: str) -> np.ndarray:
        if isinstance(said[name], str):
            return arrays[said[name]]
        array = np.array(said[name], dtype=np.float32)
        if array.ndim == 3:  # no target positions, so the lists do not say how many sources
            array = array.reshape(*array.shape, num_source if said["kind"] == "cross" else 0)
        return array

    if said["scores"] is None:
        return AttentionMap(said["kind"], read("weights"))
    scores = read("scores")
    scores = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    return AttentionMap(said["kind"], read("weights"), scores)


def _step(said: dict[str, Any]) -> Step:
    top = tuple((token, _number(number)) for token, number in said["top"])
    return Step(said["token"], _number(said["log_probability"]), top, float(said["entropy"]))


def _lattice(said: dict[str, Any]) -> BeamLattice:
    return BeamLattice(
        tuple(map(tuple, said["tokens"])),
        tuple(map(tuple, said["parents"])),
        tuple(tuple(map(_number, scores)) for scores in said["scores"]),
    )
