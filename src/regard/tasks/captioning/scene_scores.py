"""Scores of captions of drawn scenes: whether a caption is true, and whether the model attends to
the shapes that the caption describes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from regard.data.generated.scenes import NUMBERS, Claim, Scene, claims, is_true
from regard.metrics.metric import MetricScore
from regard.metrics.slices import Feature, Slice, find_slices
from regard.shapes import Float
from regard.tasks.generation import GeneratedText


class SceneScores:
    """Accumulated scores of captions."""

    def __init__(self) -> None:
        self._true: dict[int, list[bool]] = {number: [] for number in NUMBERS}
        self._inside: list[float] = []

    def add(self, scene: Scene, caption: str) -> None:
        """Add a caption of a scene."""
        self._true[len(scene.shapes)].append(is_true(caption, scene))

    def add_attention(
        self,
        scene: Scene,
        caption: str,
        weights: Float[np.ndarray, "piece cell"],
        words: Sequence[int],
    ) -> None:
        """Add the attention of a caption: attention weights and word number of each piece."""
        for claim in claims(caption) or ():
            if claim.shape in scene.shapes:
                self._inside.append(attention_inside(claim, weights, words))

    def add_generated(self, captions: Iterable[tuple[str, GeneratedText]]) -> None:
        """Add generated captions, each with its scene as text and with its attention, if the model
        has any."""
        for source, caption in captions:
            scene = Scene.of(source)
            self.add(scene, caption.text)
            trace = caption.lazy_trace
            if trace is None:
                continue
            for block in trace.maps:
                if block.kind == "image":
                    weights = block.weights.mean(axis=(0, 1))
                    self.add_attention(scene, caption.text, weights, trace.target.words)

    def slices(self) -> tuple[Slice, ...]:
        """Return the numbers of shapes on which captions are true less often than elsewhere."""
        numbers = [number for number, true in self._true.items() for _ in true]
        true = [100.0 * is_true for is_true in chain(*self._true.values())]
        return find_slices(true, [Feature("scenes of {} shapes", numbers)], "true")

    def scores(self) -> tuple[MetricScore, ...]:
        """Return the percentage of true captions, for all scenes and by number of shapes, and the
        attention in the box of a described shape, as a multiple of the box's share of the image.
        The attention is left out if no caption describes a shape of its scene."""
        slices = [
            _true_share(f"true, {number} shape{'s' if number > 1 else ''}", true)
            for number, true in self._true.items()
            if true
        ]
        scores = (_true_share("true", list(chain(*self._true.values()))), *slices)
        if not self._inside:
            return scores
        signature = f"times its box's share|shapes:{len(self._inside)}"
        return *scores, MetricScore("attention", float(np.mean(self._inside)), signature)


def _true_share(name: str, true: Sequence[bool]) -> MetricScore:
    return MetricScore(name, 100 * float(np.mean(true)), f"scenes:{len(true)}")


def attention_inside(
    claim: Claim, weights: Float[np.ndarray, "piece cell"], words: Sequence[int]
) -> float:
    """Return the share of attention in a shape's box while its size, colour and kind are generated,
    over the box's share of the image.

    Rows are first divided by their sum; a row of zeros has no attention in the box."""
    inside = claim.shape.inside(math.isqrt(weights.shape[1]))
    rows = weights[np.isin(words, claim.words)].astype(np.float64)
    totals = rows.sum(axis=1)
    fractions = np.divide(rows @ inside, totals, out=np.zeros_like(totals), where=totals != 0)
    return float(fractions.mean() / inside.mean())
