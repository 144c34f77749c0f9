"""Published cost of training the systems of recipes, as Vaswani et al. 2017 (table 2) count it: the
training time, times the number of GPUs, times the FLOPs that a GPU computes in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SOURCE = "Vaswani et al. 2017, table 2"
TERAFLOPS: Mapping[str, float] = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}
"""Estimated sustained single-precision teraFLOPs a second of each GPU (footnote 5)."""


@dataclass(frozen=True)
class PublishedCost:
    """Training of one system on one pair of languages."""

    languages: str
    num_devices: int
    device: str
    hours: float

    @property
    def flops(self) -> float:
        """FLOPs of the training by the paper's count."""
        return self.num_devices * self.hours * 3600 * TERAFLOPS[self.device] * 1e12


@dataclass(frozen=True)
class PrintedCost:
    """Training of one system on one pair of languages, whose paper gives no time of training by
    which the FLOPs could be computed again."""

    languages: str
    flops: float


@dataclass(frozen=True)
class System:
    """System of the table: its recipe, which has the sizes of the paper, and published costs.

    `tokens` is the assumed mean length of a sentence in the tokens of the recipe, and `pairs` the
    number of training pairs, by languages."""

    name: str
    recipe: str
    costs: tuple[PublishedCost | PrintedCost, ...]
    tokens: int = 28
    pairs: Mapping[str, float] = field(default_factory=lambda: {"en-de": 4.5e6, "en-fr": 36e6})

    def one_pass(self, languages: str, pair_of_tokens: int) -> float:
        """Return the FLOPs of training on all pairs once. `pair_of_tokens` are those of a source
        token and a target token."""
        return self.pairs[languages] * self.tokens * pair_of_tokens


_BASE = PublishedCost("en-de", 8, "P100", 12.0)
_BIG = PublishedCost("en-de", 8, "P100", 3.5 * 24.0)
SYSTEMS: tuple[System, ...] = (
    System("ByteNet", "wmt14-bytenet", (), 150, {"en-de": 4.5e6}),
    System(
        "Deep-Att + PosUnk",
        "wmt14-deep-att",
        (PrintedCost("en-fr", 1.0e20),),
        27,
        {"en-fr": 12e6},
    ),
    System(
        "GNMT + RL",
        "wmt14-gnmt",
        (PublishedCost("en-de", 96, "K80", 24.0), PublishedCost("en-fr", 96, "K80", 6 * 24.0)),
    ),
    System(
        "ConvS2S",
        "wmt14-convs2s",
        (
            PublishedCost("en-de", 1, "M40", 18.5 * 24.0),
            PublishedCost("en-fr", 8, "M40", 37 * 24.0),
        ),
    ),
    System(
        "MoE",
        "wmt14-moe",
        (PublishedCost("en-de", 64, "K40", 24.0), PublishedCost("en-fr", 64, "K40", 6 * 24.0)),
    ),
    System(
        "Transformer (base)", "wmt14-transformer-base", (_BASE, replace(_BASE, languages="en-fr"))
    ),
    System("Transformer (big)", "wmt14-transformer-big", (_BIG, replace(_BIG, languages="en-fr"))),
)
"""Single systems of the table, in its order. For ByteNet it has no cost."""

PUBLISHED: Mapping[str, tuple[PublishedCost | PrintedCost, ...]] = {
    system.recipe: system.costs for system in SYSTEMS if system.costs
}
"""Published costs of each recipe that has any."""
