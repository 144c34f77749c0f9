"""Paired significance tests of two systems on the same items: bootstrap resampling (Koehn 2004) and
approximate randomisation (Riezler and Maxwell 2005).

BLEU, chrF and TER have sacrebleu's tests: c is the number of samples whose difference exceeds the
observed one, and p = (c + 1) / (samples + 1). Metrics that are means over items have the same
tests here, but c also counts samples with exactly the observed difference (Noreen 1989). Otherwise
a single different item, whose difference is that of every sample, would be significant. For BLEU,
chrF and TER, p is at least that of the exact test, 2 / 2^k if k texts differ, and 1 for equal
scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import ne
from typing import Any

import numpy as np

from regard.metrics.text import References, check

SEED = 12345
"""Seed of sacrebleu's tests, unless the variable SACREBLEU_SEED sets another."""


@dataclass(frozen=True)
class Comparison:
    """Difference of a system from the baseline on one metric."""

    system: str
    metric: str
    baseline_score: float
    score: float
    p_bootstrap: float
    p_randomisation: float
    margin: float
    """Half of the 95 % interval of the score over bootstrap samples."""

    @property
    def difference(self) -> float:
        return self.score - self.baseline_score


def compare_texts(
    outputs: Mapping[str, Sequence[str]], references: References, num_samples: int = 1000
) -> tuple[Comparison, ...]:
    """Compare the texts of systems with those of the first one, by BLEU, chrF and TER. ValueError
    if there are no texts, or if the numbers of texts and references differ."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    for texts in outputs.values():
        check(texts, references)
    streams: list[list[Any]] = [list(stream) for stream in zip_longest(*references)]
    named: list[tuple[str, Sequence[str]]] = [(name, list(each)) for name, each in outputs.items()]
    results: dict[str, dict[str, Any]] = {}
    for kind in ("bs", "ar"):
        metrics = {"BLEU": BLEU(force=True), "chrF": CHRF(), "TER": TER(case_sensitive=True)}
        test = PairedTest(named, metrics, streams, test_type=kind, n_samples=num_samples)
        results[kind] = test()[1]
    comparisons = []
    for metric, shown in zip(("BLEU", "chrF", "TER"), _metrics_of(results["bs"]), strict=True):
        baseline, *systems = zip(results["bs"][shown], results["ar"][shown], strict=True)
        for (name, texts), (bootstrap, randomisation) in zip(named[1:], systems, strict=True):
            num_different = sum(map(ne, named[0][1], texts))
            is_equal = bootstrap.score == baseline[0].score
            smallest = 1.0 if is_equal else 2.0 ** (1 - num_different)
            comparisons.append(
                Comparison(
                    system=name,
                    metric=metric,
                    baseline_score=float(baseline[0].score),
                    score=float(bootstrap.score),
                    p_bootstrap=1.0 if is_equal else float(bootstrap.p_value),
                    p_randomisation=max(smallest, float(randomisation.p_value)),
                    margin=float(bootstrap.ci),
                )
            )
    return tuple(comparisons)


def _metrics_of(results: Mapping[str, Any]) -> list[str]:
    """Return sacrebleu's names of the metrics, such as chrF2, in their order."""
    return [name for name in results if name != "System"]


def compare_values(
    metric: str, values: Mapping[str, np.ndarray], num_samples: int = 1000
) -> tuple[Comparison, ...]:
    """Compare systems with the first one, by the mean of the value of each item. ValueError if
    there are no items, or if their numbers differ."""
    sizes = {len(system) for system in values.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise ValueError(f"values: expected equal numbers of items, at least one; got {sizes}")
    (_, baseline), *others = values.items()
    return tuple(
        _comparison(
            metric, name, np.asarray(baseline, float), np.asarray(system, float), num_samples
        )
        for name, system in others
    )


def _comparison(
    metric: str, name: str, baseline: np.ndarray, system: np.ndarray, num_samples: int
) -> Comparison:
    size = len(baseline)
    observed = abs(system.mean() - baseline.mean())
    generator = np.random.default_rng(SEED)
    drawn = generator.choice(size, size=(num_samples, size), replace=True)
    sampled, sampled_baseline = (side[drawn].mean(axis=1) for side in (system, baseline))
    differences = np.abs(sampled - sampled_baseline)
    centred = differences - differences.mean()
    swaps = np.random.default_rng(SEED).integers(2, size=(num_samples, size), dtype=bool)
    signs = np.where(swaps, 1.0, -1.0)
    shuffled = np.abs(signs @ (system - baseline)) / size
    low, high = np.quantile(sampled, (0.025, 0.975))
    tolerance = 1e-12 * max(1.0, observed)
    return Comparison(
        system=name,
        metric=metric,
        baseline_score=float(baseline.mean()),
        score=float(system.mean()),
        p_bootstrap=_p_value(centred, observed - tolerance) if observed > tolerance else 1.0,
        p_randomisation=_p_value(shuffled, observed - tolerance),
        margin=float(high - low) / 2,
    )


def _p_value(samples: np.ndarray, observed: float) -> float:
    return float((np.sum(samples >= observed) + 1) / (len(samples) + 1))
