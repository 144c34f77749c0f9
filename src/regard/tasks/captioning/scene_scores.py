"""How captions fit drawn scenes: whether what they say is so, and whether the model looked at what
it spoke of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from regard.data.generated.scenes import NUMBERS, Claim, Scene, claims, is_true
from regard.metrics.metric import MetricScore
from regard.shapes import Float
from regard.tasks.translation.translator import Translation
from regard.trace import of_kind


class SceneScores:
    """Scores of captions that come one after the other."""

    def __init__(self) -> None:
        self._true: dict[int, list[bool]] = {number: [] for number in NUMBERS}
        self._inside: list[float] = []

    def add(
        self,
        scene: Scene,
        caption: str,
        weights: Float[np.ndarray, "piece cell"],
        words: Sequence[int],
    ) -> None:
        """A caption, where each of its pieces looked, and the number of the word each is of."""
        self._true[len(scene.shapes)].append(is_true(caption, scene))
        for claim in claims(caption) or ():
            if claim.shape in scene.shapes:
                self._inside.append(attention_inside(claim, weights, words))

    def add_written(self, found: Iterable[tuple[str, Translation]]) -> None:
        """Scenes as text, each with the caption of it that was written."""
        for source, written in found:
            if written.looked is not None:
                (block,) = of_kind(written.maps, "image")
                weights = block.weights.mean(axis=(0, 1))
                self.add(Scene.of(source), written.text, weights, written.looked.target.words)

    def scores(self) -> tuple[MetricScore, ...]:
        """Percentage of true captions, of all scenes and by number of shapes, and the attention in
        the box of a described shape as a multiple of the box's share of the picture. The attention
        is left out if no caption describes a shape of its scene."""
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
    """The share of attention that lies in a shape's box while its size, colour and kind are
    written, over the box's share of the picture."""
    inside = claim.shape.inside(math.isqrt(weights.shape[1]))
    told = np.isin(words, claim.words)
    return float((weights[told] @ inside).mean() / inside.mean())
