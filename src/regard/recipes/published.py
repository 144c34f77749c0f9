"""Published cost of training the systems of recipes, as Vaswani et al. 2017 (table 2) count it: the
training time, times the number of GPUs, times the FLOPs that a GPU computes in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


PUBLISHED: Mapping[str, tuple[PublishedCost, ...]] = {
    "wmt14-convs2s": (PublishedCost("en-de", 1, "M40", 18.5 * 24.0),),
    "wmt14-transformer-base": (PublishedCost("en-de", 8, "P100", 12.0),),
    "wmt14-transformer-big": (PublishedCost("en-de", 8, "P100", 3.5 * 24.0),),
}
"""Published costs of each recipe that has any."""
