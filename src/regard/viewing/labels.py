"""Attention map with its labels, which figures and the terminal draw."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from jaxtyping import Float

from regard.characters import escape, has_invisible
from regard.errors import UserError
from regard.names import AttentionKind
from regard.trace import UNKNOWN_MARK, AttentionMap, Trace

VISIBLE = {" ": "␣", "▁": "␣", "\t": "⇥", "\n": "↵", "\r": "↵", "": "∅"}
SPACE = "▁"
"""Character by which tokenizers mark a space."""
NOTE = f"{UNKNOWN_MARK} unknown to the model"
COPIED_MARK = "←"
"""Mark after the label of a piece that the model copied from the source."""
COPIED_NOTE = f"{COPIED_MARK} copied from the source"
QUANTITIES: Mapping[AttentionKind, str] = {
    "encoder_experts": "gate value",
    "decoder_experts": "gate value",
    "gradient": "share of gradient",
}
"""Names of the numbers of maps that are not attention weights."""
WEIGHT = "weight"
TITLES: Mapping[AttentionKind, str] = {
    "encoder_experts": "gate value of each expert of the encoder for each source token",
    "decoder_experts": "gate value of each expert of the decoder for each target token",
    "gradient": "share of each input in the gradient of each output",
}
"""Titles of maps whose kind alone does not say what is drawn."""
ROUNDING = 1e-4
"""Largest rounding error of a weight."""
UNIFORM = 1.5
"""Largest weight of nearly uniform attention, in units of the mean weight."""
LONGEST = 24
"""Upper bound of the length of a label. Longer labels are cut off, because they would take more
room than the map."""


@dataclass(frozen=True)
class LabelledMap:
    """Weights with a label for each source position (column) and each target position (row). Fonts
    are chosen by the languages. ValueError if the numbers of labels do not fit the weights."""

    weights: Float[np.ndarray, "layer head target source"]
    column_labels: tuple[str, ...]
    row_labels: tuple[str, ...]
    title: str = ""
    languages: tuple[str | None, str | None] = (None, None)
    """Languages of the column labels and of the row labels."""
    note: str = ""
    """Explanation of marks in the labels."""
    quantity: str = WEIGHT
    """Name of the numbers, for colour bars and legends."""
    is_scaled: bool = False
    """Whether colours end at the largest number instead of 1. Zeros have a colour of their own in
    a figure then."""

    def __post_init__(self) -> None:
        if self.weights.shape[2:] != (len(self.row_labels), len(self.column_labels)):
            raise ValueError(
                f"weights have {self.weights.shape[2]} target and {self.weights.shape[3]} source "
                f"positions, but there are {len(self.row_labels)} row labels and "
                f"{len(self.column_labels)} column labels"
            )
        if not self.weights.size:
            raise ValueError(
                f"weights must have a layer, a head and positions to draw, got the shape "
                f"{self.weights.shape}"
            )

    @property
    def scale(self) -> float:
        """Number with the darkest colour: 1, or the largest number if the map is scaled or has
        weights above 1, which do not sum to one."""
        largest = float(self.weights.max())
        return largest if largest > 1 + ROUNDING or (self.is_scaled and largest > 0) else 1.0

    @classmethod
    def of(
        cls,
        weights: Float[np.ndarray, "target source"],
        *,
        column_labels: Sequence[str],
        row_labels: Sequence[str],
        title: str = "",
    ) -> LabelledMap:
        """Return a labelled map of a single array of weights."""
        return cls(weights[None, None], tuple(column_labels), tuple(row_labels), title)

    @classmethod
    def of_trace(cls, trace: Trace, kind: AttentionKind = "cross") -> LabelledMap:
        """Return the map of this kind of a trace. Grid cells, vectors and experts are numbered from
        1; several memories of vectors stand side by side. ValueError if the trace has no such
        map."""
        target, source = trace.rows(kind), trace.columns(kind)
        quantity = QUANTITIES.get(kind, WEIGHT)
        if source is not None:
            languages = source.language, target.language
            weights = trace.map(kind).weights
            copied = trace.copied if kind == "cross" else (False,) * len(target.pieces)
            notes = [NOTE] * any((*source.unknown, *target.unknown)) + [COPIED_NOTE] * any(copied)
            rows = tuple(
                label + COPIED_MARK if is_copied else label
                for label, is_copied in zip(target.labels, copied, strict=True)
            )
            note = "; ".join(notes)
            return cls(
                weights, source.labels, rows, languages=languages, note=note, quantity=quantity,
                is_scaled=kind == "gradient",
            )  # fmt: skip
        maps = _of_one_model(trace, kind)
        numbers = tuple(str(n + 1) for each in maps for n in range(each.weights.shape[3]))
        weights = np.concatenate([each.weights for each in maps], axis=3)
        languages = None, target.language
        return cls(weights, numbers, target.labels, languages=languages, quantity=quantity)

    @classmethod
    def of_words(cls, trace: Trace, kind: AttentionKind = "cross") -> LabelledMap:
        """Return the map of this kind with one row for each word: the mean over its pieces."""
        pieces, target = cls.of_trace(replace(trace, steps=()), kind), trace.rows(kind)
        words = [
            [position for position, _ in group]
            for _, group in groupby(enumerate(target.words), lambda item: item[1])
        ]
        labels = ("".join(target.labels[position] for position in word) for word in words)
        rows = [pieces.weights[:, :, word].mean(axis=2) for word in words]
        return replace(
            pieces,
            weights=np.stack(rows, axis=2),
            row_labels=tuple(label.removeprefix(SPACE) or label for label in labels),
        )

    def part(self, layer: int | None = None, head: int | None = None) -> LabelledMap:
        """Return the maps of one layer, of one head, or of both, numbered from 1 as in figures,
        with the numbers in the title. UserError for a number out of range."""
        weights, names = self.weights, [self.title] if self.title else []
        for axis, (name, number) in enumerate((("layer", layer), ("head", head))):
            if number is None:
                continue
            if not 1 <= number <= weights.shape[axis]:
                raise UserError(f"there is no {name} {number}: expected 1 to {weights.shape[axis]}")
            weights = weights.take([number - 1], axis=axis)
            names.append(f"{name} {number}")
        return replace(self, weights=weights, title=", ".join(names))

    def averaged(self) -> LabelledMap:
        """Return the mean over layers and heads as one map."""
        return replace(self, weights=self.weights.mean(axis=(0, 1), keepdims=True))

    def panels(self) -> Iterator[tuple[str, Float[np.ndarray, "target source"]]]:
        """Yield the map of each head with its name. The name has the layer if there are several,
        and the head if there are several."""
        layers, heads = self.weights.shape[:2]
        for layer, head in np.ndindex(layers, heads):
            names = [f"layer {layer + 1}"] * (layers > 1) + [f"head {head + 1}"] * (heads > 1)
            yield ", ".join(names), self.weights[layer, head]


def _of_one_model(trace: Trace, kind: AttentionKind) -> Sequence[AttentionMap]:
    """Return the maps of this kind of the first model, which may have several in sequence."""
    trace.map(kind)
    groups = groupby(trace.attention, lambda attention: attention.kind)
    return next(list(maps) for name, maps in groups if name == kind)


def labelled(attention: Trace | LabelledMap) -> LabelledMap:
    """Return the cross-attention map of a trace; a labelled map is returned unchanged."""
    return LabelledMap.of_trace(attention) if isinstance(attention, Trace) else attention


def uniformity_note(weights: Float[np.ndarray, "*map source"], place: str) -> str:
    """Return a note if all attention weights are nearly uniform, otherwise an empty text. `place`
    is the name of a source position in the note."""
    number = weights.shape[-1]
    is_normalised = UNIFORM * weights.mean() > 1 / number
    if number == 1 or not is_normalised or weights.max() >= UNIFORM / number:
        return ""
    return f"nearly uniform attention (1/{number} = {1 / number:.2g} a {place})"


def visible(piece: str) -> str:
    """Return a piece with its invisible characters replaced by signs: blanks (and ▁, the
    tokenizers' mark of a blank), control characters, and joiners without letters. A lone accent is
    put on a dotted circle."""
    if piece in VISIBLE:
        return VISIBLE[piece]
    joined = any(unicodedata.category(character) != "Cf" for character in piece)
    shown = "".join(_sign(character, joined=joined) for character in piece)
    if unicodedata.category(shown[0]).startswith("M"):
        shown = f"◌{shown}"
    return shown


def spaced(name: str) -> str:
    """Return a name whose invisible characters are signs, but blanks between words are blanks."""
    return " ".join(map(visible, name.split()))


def short(piece: str) -> str:
    """Return `visible(piece)`, cut off after `LONGEST` characters."""
    shown = visible(piece)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _sign(character: str, *, joined: bool) -> str:
    """Return the sign of a character. Joiners in a word are kept, because they shape the letters
    next to them."""
    kind = unicodedata.category(character)
    is_hidden = kind in ("Cc", "Cs", "Cn", "Zl", "Zp") or (kind == "Cf" and not joined)
    if is_hidden or has_invisible(character):
        return VISIBLE.get(character) or escape(character)
    return VISIBLE[" "] if kind == "Zs" else VISIBLE.get(character, character)
