"""A map with its labels, ready to be drawn: what pictures and the terminal have in common."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from jaxtyping import Float

from regard.errors import UserError
from regard.names import AttentionKind
from regard.trace import AttentionMap, Trace

VISIBLE = {" ": "␣", "▁": "␣", "\t": "⇥", "\n": "↵", "\r": "↵", "": "∅"}
SPACE = "▁"
"""How tokenizers write a space."""
LONGEST = 24
"""Longer labels are cut off; they would take more room than the map."""


@dataclass(frozen=True)
class LabelledMap:
    """Weights with a label for each source position (across the top) and each target position
    (down the side). The languages help to choose fonts."""

    weights: Float[np.ndarray, "layer head target source"]
    across: tuple[str, ...]
    down: tuple[str, ...]
    title: str = ""
    languages: tuple[str | None, str | None] = (None, None)
    """Of the labels across and down."""

    def __post_init__(self) -> None:
        if self.weights.shape[2:] != (len(self.down), len(self.across)):
            raise ValueError(
                f"weights have {self.weights.shape[2]} target and {self.weights.shape[3]} source "
                f"positions, but {len(self.down)} labels came for down and {len(self.across)} for "
                "across"
            )
        if not self.weights.size:
            raise ValueError(
                f"weights must have a layer, a head and positions to draw, got the shape "
                f"{self.weights.shape}"
            )

    @classmethod
    def of(
        cls,
        weights: Float[np.ndarray, "target source"],
        *,
        across: Sequence[str],
        down: Sequence[str],
        title: str = "",
    ) -> LabelledMap:
        """One map of one's own."""
        return cls(weights[None, None], tuple(across), tuple(down), title)

    @classmethod
    def of_trace(cls, trace: Trace, kind: AttentionKind = "cross") -> LabelledMap:
        """A trace's map of this kind; ValueError where there is none. Cells and vectors have
        numbers, from 1; where a model has several memories of vectors these stand beside each
        other."""
        down, across = trace.down(kind), trace.across(kind)
        if across is not None:
            languages = across.language, down.language
            return cls(trace.map(kind).weights, across.pieces, down.pieces, languages=languages)
        maps = _of_one_model(trace, kind)
        numbers = tuple(str(n + 1) for each in maps for n in range(each.weights.shape[3]))
        weights = np.concatenate([each.weights for each in maps], axis=3)
        return cls(weights, numbers, down.pieces, languages=(None, down.language))

    @classmethod
    def of_words(cls, trace: Trace, kind: AttentionKind = "cross") -> LabelledMap:
        """The same with a row for every word of who looks: the mean of its pieces'."""
        every, down = cls.of_trace(trace, kind), trace.down(kind)
        words = [
            [place for place, _ in pieces]
            for _, pieces in groupby(enumerate(down.words), lambda each: each[1])
        ]
        labels = ("".join(down.pieces[place] for place in places) for places in words)
        rows = [every.weights[:, :, places].mean(axis=2) for places in words]
        return replace(
            every,
            weights=np.stack(rows, axis=2),
            down=tuple(label.removeprefix(SPACE) or label for label in labels),
        )

    def part(self, layer: int | None = None, head: int | None = None) -> LabelledMap:
        """One layer's or head's maps alone, counted from 1 as pictures do, with its name in the
        title; UserError where there is none of that number."""
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
        """The mean over all layers and heads, as one map."""
        return replace(self, weights=self.weights.mean(axis=(0, 1), keepdims=True))

    def panels(self) -> Iterator[tuple[str, Float[np.ndarray, "target source"]]]:
        """Every head's map with its name; the name leaves out what there is but one of."""
        layers, heads = self.weights.shape[:2]
        for layer, head in np.ndindex(layers, heads):
            names = [f"layer {layer + 1}"] * (layers > 1) + [f"head {head + 1}"] * (heads > 1)
            yield ", ".join(names), self.weights[layer, head]


def _of_one_model(trace: Trace, kind: AttentionKind) -> Sequence[AttentionMap]:
    """The first one's maps of a kind, where a model may have several: they follow each other."""
    trace.map(kind)
    runs = groupby(trace.attention, lambda each: each.kind)
    return next(list(maps) for run, maps in runs if run == kind)


def labelled(what: Trace | LabelledMap) -> LabelledMap:
    """Of a trace, the map of the target at the source."""
    return LabelledMap.of_trace(what) if isinstance(what, Trace) else what


def visible(piece: str) -> str:
    """A piece as it can be seen: blanks (and ▁, which tokenizers write for them), control
    characters and joiners without letters as signs, a lone accent on a dotted circle."""
    if piece in VISIBLE:
        return VISIBLE[piece]
    joined = any(unicodedata.category(character) != "Cf" for character in piece)
    shown = "".join(_sign(character, joined=joined) for character in piece)
    if unicodedata.category(shown[0]).startswith("M"):
        shown = f"◌{shown}"
    return shown


def short(piece: str) -> str:
    """A piece as it can be seen, cut off where it is too long."""
    shown = visible(piece)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


def _sign(character: str, *, joined: bool) -> str:
    """Format characters beside others stay: joiners shape the letters beside them."""
    kind = unicodedata.category(character)
    if kind in ("Cc", "Cs", "Cn", "Zl", "Zp") or (kind == "Cf" and not joined):
        return VISIBLE.get(character) or character.encode("unicode_escape").decode()
    return VISIBLE[" "] if kind == "Zs" else VISIBLE.get(character, character)
