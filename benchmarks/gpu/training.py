"""Training of three recipes in bfloat16 on a GPU, beside PyTorch's own layers, compiled.

    python benchmarks/gpu/training.py --output FILE [--seconds N] [--small]

Regard's speed is that of `regard.training.loop`. Model FLOPs are those that
`regard train RECIPE --cost` counts: products with weights, 6 for each weight and token, without
padding. Their share is that of the FLOP/s of a product of 8192 x 8192 x 8192 in bfloat16.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import Any

import torch
from data import Work, work_of
from peers import Peer, trains_in
from timing import Figures, forget_peak, peak_megabytes, profile, speed_of_product, wait

from regard.pipeline.cost import cost_of
from regard.pipeline.train import settings_of
from regard.tasks.training.objectives import objective_of
from regard.training.loop import train
from regard.training.settings import Period

RECIPES = ("wmt14-transformer-base", "multi30k-transformer", "multi30k-luong")
WARM_UP = 5
"""Number of updates before the first one that is counted, at least one pass over all batches of a
compiled model."""
SHARE = 0.1
"""Share of the time of a part in which a contestant is measured."""
COMPILED = "compiled"


class EnoughError(Exception):
    """The training was measured long enough."""


@dataclass
class Speed:
    """Tokens of source and target, without padding, and seconds after the warm-up."""

    seconds: float
    """Seconds to measure."""
    warm_up: int
    device: torch.device
    updates: int = 0
    source: int = 0
    target: int = 0
    began: float = 0.0
    elapsed: float = 0.0

    def count(self, batch: Any) -> bool:
        """Count an update. Return whether there have been enough."""
        self.updates += 1
        if self.updates == self.warm_up:
            wait(self.device)
            self.began = time.perf_counter()
        if self.updates <= self.warm_up:
            return False
        self.source += int(batch.source.mask.sum())
        self.target += int(batch.mask.sum())
        if self.updates % 5 or time.perf_counter() - self.began < self.seconds:
            return False
        wait(self.device)
        self.elapsed = time.perf_counter() - self.began
        return True

    def figures(self, experiment: Any, product: float) -> dict[str, Any]:
        cost = cost_of(experiment)
        flops = self.source * cost.source_token + self.target * cost.target_token
        return {
            "source tokens/s": round(self.source / self.elapsed),
            "target tokens/s": round(self.target / self.elapsed),
            "updates/s": round((self.updates - self.warm_up) / self.elapsed, 2),
            "model TFLOP/s": round(flops / self.elapsed / 1e12, 3),
            "share of the product's speed": round(flops / self.elapsed / product, 4),
            "peak MB": peak_megabytes(self.device),
        }


@dataclass
class Repeated:
    """Batches that are repeated without end; those that were read and not yet trained on."""

    work: Work
    taken: deque[Any]

    def num_batches(self, number: int) -> int:
        return self.work.num_batches(number)

    def fingerprint(self) -> str:
        return self.work.fingerprint()

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        for batch in self.work.epoch(number, start):
            self.taken.append(batch)
            yield batch


class Reporter:
    """Reporter of the training loop that ends it after enough updates."""

    def __init__(self, speed: Speed, taken: deque[Any]) -> None:
        self._speed, self._taken = speed, taken

    def on_update(self, progress: Any) -> None:
        del progress
        if self._speed.count(self._taken.popleft()):
            raise EnoughError

    def on_train(self, line: Any, progress: Any) -> None: ...

    def on_validation(self, line: Any, validation: Any) -> None: ...

    def on_end(self, line: Any) -> None: ...


def ours(work: Work, speed: Speed) -> None:
    """Train by the loop of Regard."""
    config = replace(work.experiment.training, average=None, patience=None)
    settings = settings_of(config, objective_of(config), "bfloat16")
    settings = replace(settings, length=Period(1_000_000), validate_every=Period(1_000_000))
    taken: deque[Any] = deque()
    try:
        train(work.model, Repeated(work, taken), settings, report=Reporter(speed, taken))
    except EnoughError:
        return


def theirs(work: Work, speed: Speed, *, compiled: bool) -> None:
    """Train PyTorch's layers."""
    peer = Peer(work, speed.device, compiled=compiled)
    for batch in cycle(work.batches):
        peer.update(batch)
        if speed.count(batch):
            return


def measured(
    name: str, run: Callable[[Work, Speed], None], figures: Figures, product: float
) -> dict[str, Any]:
    """Return the speed of a contestant."""
    work = work_of(name, figures.device, small=figures.small)
    warm_up = 2 if figures.small else max(WARM_UP, len(work.batches))
    speed = Speed(0.2 if figures.small else SHARE * figures.seconds, warm_up, figures.device)
    forget_peak(figures.device)
    run(work, speed)
    return speed.figures(work.experiment, product)


def profiled(name: str, figures: Figures) -> dict[str, Any]:
    """Return the kernels of some updates of Regard."""
    work = work_of(name, figures.device, small=figures.small)
    speed = Speed(0, 2, figures.device)
    return {"kernels": profile(lambda: ours(work, replace(speed)), figures.device)}


def main() -> None:
    figures, product = Figures.of_command(__doc__.splitlines()[0]), {}

    def measure_product() -> dict[str, Any]:
        product["speed"] = speed_of_product(figures.device)
        return {"TFLOP/s": round(product["speed"] / 1e12, 2)}

    figures.measure("product in bfloat16", measure_product)
    for name in RECIPES:
        peer = "LSTM" if "luong" in name else "Transformer"
        speed = product.get("speed", float("nan"))
        figures.measure(f"{name}, Regard", partial(measured, name, ours, figures, speed))
        for how in (COMPILED,) if not figures.small else ("not compiled",):
            run = partial(theirs, compiled=how == COMPILED)
            dtype = trains_in(figures.device)
            note = "" if dtype == torch.bfloat16 else f", {str(dtype).removeprefix('torch.')}"
            row = f"{name}, torch.nn.{peer}, {how}{note}"
            figures.measure(row, partial(measured, name, run, figures, speed))
        rows = [figures.values[key] for key in figures.values if key.startswith(name)]
        speeds = [row.get("target tokens/s", 0) for row in rows]
        if name == RECIPES[0] and (speeds[0] < max(speeds[1:]) or figures.small):
            figures.measure(f"profile of {name}", partial(profiled, name, figures))


if __name__ == "__main__":
    main()
