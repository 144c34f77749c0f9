"""Trace of one output: what each of its tokens attended to. Figures, links and exports read a
Trace.

    source    she     kissed  him   .   <eos>      pieces; `words` has the word number of each piece
    target    sie     küsste  ihn   .   <eos>
    attention one AttentionMap for each kind, weights "layer head target source"
    steps     one Step for each target piece: its probability and the most probable alternatives
    lattice   hypotheses of the beam after each step

A Trace holds numbers and texts only (numpy, no torch), so it can be saved, mailed and drawn without
the model.
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
from regard.names import AttentionKind
from regard.storage.files import check_input, read_text, whole

FORMAT = 1
"""Version of the file format. It is raised by a change that older readers would misread."""

START_PIECE, END_PIECE, UNKNOWN_PIECE = "<sos>", "<eos>", "<unk>"
"""Pieces of the start of a sequence, of its end token, and of text outside the vocabulary."""
UNKNOWN_MARK = "*"
"""Mark after the label of a piece that is unknown to the model."""

SUFFIXES = (".json", ".npz")
NUMBERS_AT_A_TIME = 1 << 14
"""Largest number of weights that are converted for JSON together: each takes 128 bytes then."""

Weights = Float[np.ndarray, "layer head target source"]


@dataclass(frozen=True)
class TokenSequence:
    """Source or target: its text, its pieces (tokens), and the number of the word of each piece.

    `language` is a code such as "de", by which a font is chosen. `texts` are the parts of the text
    that the pieces stand for, as they were typed; empty where a piece stands for none, such as the
    end token. Without `texts`, the pieces are the labels. ValueError for tuples of other
    lengths."""

    text: str
    pieces: tuple[str, ...]
    words: tuple[int, ...]
    language: str | None = None
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.texts and len(self.texts) != len(self.pieces):
            raise ValueError(
                f"texts must hold one text for each piece: got {len(self.texts)} texts for "
                f"{len(self.pieces)} pieces"
            )
        if len(self.pieces) != len(self.words):
            raise ValueError(
                f"words must hold one number for each piece: got {len(self.words)} numbers for "
                f"{len(self.pieces)} pieces"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each piece in a figure: its text. `UNKNOWN_MARK` follows the text of an unknown
        piece."""
        if not self.texts:
            return self.pieces
        return tuple(
            text + UNKNOWN_MARK * is_unknown if text else piece
            for piece, text, is_unknown in zip(self.pieces, self.texts, self.unknown, strict=True)
        )

    @property
    def unknown(self) -> tuple[bool, ...]:
        """Whether each piece stands for a text that is unknown to the model."""
        if not self.texts:
            return (False,) * len(self.pieces)
        return tuple(
            piece == UNKNOWN_PIECE and text not in ("", piece)
            for piece, text in zip(self.pieces, self.texts, strict=True)
        )


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Attention weights of one kind: `cross` (from target to source), `encoder` and `decoder`
    (self-attention), `image` (from target to grid cells), `memory` (from target to vectors that
    belong to no source), `encoder_experts` and `decoder_experts` (gate values of the experts of
    each position), `gradient` (share of each source position in the gradient of a target piece;
    `tasks.gradients`). Arrays are converted to float32.

    `scores` are the attention scores before normalisation, -inf at masked positions. ValueError for
    arrays without four axes, scores of another shape, NaN, or infinite weights."""

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
            f"{name} must have the axes layer, head, target and source, with at least one layer "
            f"and head, got the shape {array.shape}"
        )
    return array


def _same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


def of_kind(maps: tuple[AttentionMap, ...], kind: AttentionKind) -> tuple[AttentionMap, ...]:
    """Return the maps of this kind in their order. ValueError without such a map."""
    matches = tuple(attention for attention in maps if attention.kind == kind)
    if not matches:
        kinds = ", ".join(attention.kind for attention in maps) or "no attention"
        raise ValueError(f"there is no attention of kind {kind!r}; the trace has: {kinds}")
    return matches


@dataclass(frozen=True)
class Step:
    """Decoding step: the chosen token and its natural log probability, the most probable tokens in
    `top` with theirs, best first, and the entropy of the distribution in nats.

    `copied` is the probability to copy a piece of the source instead of generating a token of the
    vocabulary; None for models that do not copy."""

    token: str
    log_probability: float
    top: tuple[tuple[str, float], ...] = ()
    entropy: float = 0.0
    copied: float | None = None


@dataclass(frozen=True)
class BeamLattice:
    """Live hypotheses after each step of beam search: the token of each hypothesis, the number of
    its parent in the step before (0 in the first step), and its score. ValueError for tables of
    different sizes and for parents that do not exist."""

    tokens: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        sizes = [tuple(map(len, table)) for table in (self.tokens, self.parents, self.scores)]
        if not sizes[0] == sizes[1] == sizes[2]:
            raise ValueError(
                f"tokens, parents and scores must have equal numbers of hypotheses, got {sizes}"
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
    """Attention of one output, the probabilities of its steps, and the hypotheses of the beam.

    `score` is the score that the search ranked the output by. `is_cut` is true if the search
    reached the maximum length before the end token. ValueError if the size of a map differs from
    the number of pieces on an axis."""

    source: TokenSequence
    target: TokenSequence
    attention: tuple[AttentionMap, ...] = ()
    steps: tuple[Step, ...] = ()
    score: float = 0.0
    lattice: BeamLattice | None = None
    is_cut: bool = False

    def __post_init__(self) -> None:
        for attention in self.attention:
            self._check(attention)
        if self.steps and len(self.steps) != len(self.target.pieces):
            raise ValueError(
                f"steps must hold one step for each target piece: got {len(self.steps)} steps for "
                f"{len(self.target.pieces)} pieces"
            )

    def map(self, kind: AttentionKind = "cross") -> AttentionMap:
        """Return the map of this kind; of an ensemble, the map of its first model. ValueError if
        there is none."""
        return self.maps(kind)[0]

    def maps(self, kind: AttentionKind = "cross") -> tuple[AttentionMap, ...]:
        """Return the maps of this kind, one for each model of an ensemble. ValueError if there is
        none."""
        return of_kind(self.attention, kind)

    def rows(self, kind: AttentionKind) -> TokenSequence:
        """Return the sequence that attends: the rows of a map of this kind."""
        return self.source if kind in ("encoder", "encoder_experts") else self.target

    @property
    def copied(self) -> tuple[bool, ...]:
        """Whether the model copied each target piece rather than generated it: the probability to
        copy is above 0.5."""
        if not self.steps:
            return (False,) * len(self.target.pieces)
        return tuple((step.copied or 0.0) > 0.5 for step in self.steps)

    def columns(self, kind: AttentionKind) -> TokenSequence | None:
        """Return the sequence that is attended to: the columns of a map of this kind. None for grid
        cells, vectors and experts.

        A decoder attends to the pieces before the current one, so its columns are a start token (of
        word -1), then the target without its last piece."""
        match kind:
            case "cross" | "encoder" | "gradient":
                return self.source
            case "decoder":
                if not self.target.pieces:
                    return self.target
                return TokenSequence(
                    self.target.text,
                    (START_PIECE, *self.target.pieces[:-1]),
                    (-1, *self.target.words[:-1]),
                    self.target.language,
                    ("", *self.target.texts[:-1]) if self.target.texts else (),
                )
            case "image" | "memory" | "encoder_experts" | "decoder_experts":
                return None

    def _check(self, attention: AttentionMap) -> None:
        kind = attention.kind
        axes = ("target", self.rows(kind)), ("source", self.columns(kind))
        for (axis, sequence), size in zip(axes, attention.weights.shape[2:], strict=True):
            if sequence is not None and len(sequence.pieces) != size:
                raise ValueError(
                    f"weights of kind {kind!r} have {size} {axis} positions, but there are "
                    f"{len(sequence.pieces)} pieces: {' '.join(sequence.pieces)}"
                )

    def to_json(self) -> str:
        """Return one line of JSON. JSON has no -inf, so -inf is written as null."""
        return _dump(_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read the JSON of `to_json`. UserError for any other text."""
        return _read(text, {})

    def save(self, path: str | Path) -> None:
        """Write a .json or .npz file, completely or not at all. UserError for any other suffix."""
        path = Path(path)
        as_json = _suffix(path) == ".json"
        with whole(path) as unfinished:
            unfinished.write_bytes(f"{self.to_json()}\n".encode() if as_json else _to_npz(self))

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a file of `save`. Nothing is unpickled. UserError for any other file."""
        path = Path(path)
        as_json = _suffix(path) == ".json"
        try:
            if as_json:
                return _read(read_text(path), {})
            with np.load(check_input(path), allow_pickle=False) as entries:
                return _read(str(entries["trace"]), entries)
        except Exception as error:  # NumPy reads headers with Python's tokenizer, which raises many
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"{path} is not a trace: {reason}") from error


def _suffix(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: expected a file name with {' or '.join(SUFFIXES)} for a trace")
    return path.suffix


def _dump(plain: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, **plain}, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert to values that JSON can hold. Arrays get the fewest digits that distinguish float32
    numbers."""
    if isinstance(value, np.ndarray):
        if value.ndim > 1 and value.size > NUMBERS_AT_A_TIME:
            return [_plain(part) for part in value]
        numbers = value.astype(str).astype(np.float64).astype(object)
        numbers[np.isneginf(value)] = None
        return numbers.tolist()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if value == -math.inf else value


def _number(value: float | None) -> float:
    return -math.inf if value is None else float(value)


def _to_npz(trace: Trace) -> bytes:
    """Return an .npz file: arrays under their names, everything else as JSON under `trace`."""
    plain = _plain(trace)
    arrays = {}
    for number, attention in enumerate(trace.attention):
        for name in ("weights", "scores"):
            array = getattr(attention, name)
            if array is not None:
                entry = f"attention.{number}.{name}"
                plain["attention"][number][name] = entry
                arrays[entry] = array
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, trace=np.array(_dump(plain)), **arrays)
    return content.getvalue()


def _read(text: str, arrays: Mapping[str, np.ndarray]) -> Trace:
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise UserError(
                f"it has format {record['format']}, and this version of regard reads {FORMAT}"
            )
        source = _sequence(record["source"])
        return Trace(
            source=source,
            target=_sequence(record["target"]),
            attention=tuple(
                _map(attention, arrays, len(source.pieces)) for attention in record["attention"]
            ),
            steps=tuple(map(_step, record["steps"])),
            score=_number(record["score"]),
            lattice=_lattice(record["lattice"]) if record["lattice"] else None,
            is_cut=record["is_cut"] is True,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"expected the JSON of a trace, as `regard translate --trace` writes it, got "
            f"{type(error).__name__}: {error}"
        ) from error


def _sequence(record: dict[str, Any]) -> TokenSequence:
    return TokenSequence(
        record["text"],
        tuple(record["pieces"]),
        tuple(record["words"]),
        record["language"],
        tuple(record["texts"]),
    )


def _map(
    record: dict[str, Any], arrays: Mapping[str, np.ndarray], source_length: int
) -> AttentionMap:
    def read(name: str) -> np.ndarray:
        if isinstance(record[name], str):
            return arrays[record[name]]
        array = np.array(record[name], dtype=np.float32)
        if array.ndim == 3:  # without target positions the lists do not show the source length
            array = array.reshape(*array.shape, source_length if record["kind"] == "cross" else 0)
        return array

    if record["scores"] is None:
        return AttentionMap(record["kind"], read("weights"))
    scores = read("scores")
    scores = np.where(np.isnan(scores), np.float32(-np.inf), scores)
    return AttentionMap(record["kind"], read("weights"), scores)


def _step(record: dict[str, Any]) -> Step:
    top = tuple((token, _number(number)) for token, number in record["top"])
    return Step(
        record["token"],
        _number(record["log_probability"]),
        top,
        float(record["entropy"]),
        record["copied"],
    )


def _lattice(record: dict[str, Any]) -> BeamLattice:
    return BeamLattice(
        tuple(map(tuple, record["tokens"])),
        tuple(map(tuple, record["parents"])),
        tuple(tuple(map(_number, scores)) for scores in record["scores"]),
    )
