"""Published cost of training the systems of recipes, as Vaswani et al. 2017 (table 2) count it: the
training time, times the number of GPUs, times the FLOPs that a GPU computes in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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


PUBLISHED: Mapping[str, tuple[PublishedCost, ...]] = {
    "wmt14-convs2s": (PublishedCost("en-de", 1, "M40", 18.5 * 24.0),),
    "wmt14-transformer-base": (PublishedCost("en-de", 8, "P100", 12.0),),
    "wmt14-transformer-big": (PublishedCost("en-de", 8, "P100", 3.5 * 24.0),),
}
"""Published costs of each recipe that has any."""

_BASE = PublishedCost("en-de", 8, "P100", 12.0)
_BIG = PublishedCost("en-de", 8, "P100", 3.5 * 24.0)
SYSTEMS: Mapping[str, tuple[PublishedCost | PrintedCost, ...]] = {
    "ByteNet": (),
    "Deep-Att + PosUnk": (PrintedCost("en-fr", 1.0e20),),
    "GNMT + RL": (
        PublishedCost("en-de", 96, "K80", 24.0),
        PublishedCost("en-fr", 96, "K80", 6 * 24.0),
    ),
    "ConvS2S": (
        PublishedCost("en-de", 1, "M40", 18.5 * 24.0),
        PublishedCost("en-fr", 8, "M40", 37 * 24.0),
    ),
    "MoE": (
        PublishedCost("en-de", 64, "K40", 24.0),
        PublishedCost("en-fr", 64, "K40", 6 * 24.0),
    ),
    "Transformer (base)": (_BASE, replace(_BASE, languages="en-fr")),
    "Transformer (big)": (_BIG, replace(_BIG, languages="en-fr")),
}
"""Single systems of the table, in its order. For ByteNet it has no cost."""
