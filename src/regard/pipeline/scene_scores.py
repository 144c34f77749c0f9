"""How captions fit drawn scenes: whether what they say is so, and whether the model looked at what
it spoke of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.generated.scenes import Claim, Scene, claims, is_true
from regard.metrics.text import Score
from regard.pipeline.translator import Translation
from regard.shapes import Float
from regard.trace import of_kind


class SceneScores:
    """Scores of captions that come one after the other."""

    def __init__(self) -> None:
        self._true: list[bool] = []
        self._inside: list[float] = []

    def add(
        self,
        scene: Scene,
        caption: str,
        weights: Float[np.ndarray, "piece cell"],
        words: Sequence[int],
    ) -> None:
        """A caption, where each of its pieces looked, and the number of the word each is of."""
        self._true.append(is_true(caption, scene))
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

    def scores(self) -> tuple[Score, ...]:
        """The percentage of captions that are true; and how many times as much attention lies in
        the box of a shape that is spoken of as would if all places had alike, the mean over the
        shapes that are there. Where none is spoken of that is left out."""
        true = Score("true", 100 * float(np.mean(self._true)), f"scenes:{len(self._true)}")
        if not self._inside:
            return (true,)
        signature = f"times its box's share|shapes:{len(self._inside)}"
        return true, Score("attention", float(np.mean(self._inside)), signature)


def attention_inside(
    claim: Claim, weights: Float[np.ndarray, "piece cell"], words: Sequence[int]
) -> float:
    """The share of attention that lies in a shape's box while its size, colour and kind are
    written, over the box's share of the picture."""
    inside = claim.shape.inside(math.isqrt(weights.shape[1]))
    told = np.isin(words, claim.words)
    return float((weights[told] @ inside).mean() / inside.mean())
