"""Disable each hand-written part alone and measure what it gains.

    OMP_NUM_THREADS=1 python benchmarks/ablation.py DATA
    OMP_NUM_THREADS=1 python benchmarks/ablation.py DATA --instruction-set avx2 --only decoding
    OMP_NUM_THREADS=1 python benchmarks/ablation.py DATA --without-kernels --parts 'all forms'

DATA contains Multi30k, English and German. In one process, turns with a part and without it
alternate: some updates of training on the same batches, or a search over the same sentences, with
untrained weights. The ratio of two turns that follow each other is one measurement of the gain: 1.2
if the computation takes 20 % longer without the part. The table has the median of the ratios and an
interval that contains the median with a probability of 95 %. A part whose interval ends below 1.03
does not pay on this CPU.
"""

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from math import comb
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import instruction_sets
from updates import Setup, setup_of, updates

FAMILIES = {
    "lstm": ("multi30k-luong", {}),
    "fed": ("multi30k-luong", {"model.decoder.feeding": "attentional"}),
    "gru": ("multi30k-bahdanau", {}),
    "transformer": ("multi30k-transformer", {}),
}
"""Recipe of each family of models, and changes to it."""
SEARCHES = {"greedy 64": (1, 64, 128), "beam 5 of 64": (5, 64, 64), "beam 5 one by one": (5, 1, 16)}
"""Beam, batch and number of sentences."""
STEPS = 15
WORTH = 1.03


class WithoutKernels:
    """The module `regard.kernels` for a caller that must not use it."""

    def __getattr__(self, name: str) -> Any:
        from regard import kernels

        return getattr(kernels, name)

    def suit(self, *_: Any) -> bool:
        return False

    def available(self) -> bool:
        return False

    usable = available


def without_kernels(module: str) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch(f"{module}.kernels", WithoutKernels())


def returning(function: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch(function, lambda *_, **__: value)


def together(
    *disabled: Callable[[], AbstractContextManager[Any]],
) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def all_disabled() -> Iterator[None]:
        with ExitStack() as stack:
            for each in disabled:
                stack.enter_context(each())
            yield

    return all_disabled


@contextmanager
def default_allocator() -> Iterator[None]:
    """Let glibc return freed memory as by default."""
    from regard.runtime.memory_policy import MMAP_MAX, NEVER, TRIM_THRESHOLD

    mallopt = ctypes.CDLL(None).mallopt
    mallopt(MMAP_MAX, 65536)
    mallopt(TRIM_THRESHOLD, 128 * 1024)
    yield
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, NEVER)


def plain() -> AbstractContextManager[Any]:
    """Compute formulas alone."""
    import regard

    return regard.plain()


def plain_copy(model: Any, dtype: Any = None) -> Any:
    """Return a copy for inference with plain weights, in place of `freeze`."""
    copy = deepcopy(model).eval().requires_grad_(False)
    return copy if dtype is None else copy.to(dtype)


COMPILED = "regard.compiled"
DECODER_STEP = returning(
    f"{COMPILED}.transformer.decoder.NativeTransformerDecoder.is_supported", False
)
ENCODER = returning(f"{COMPILED}.transformer.encoder.NativeTransformerEncoder.is_supported", False)
RECURRENT_STEP = returning(
    f"{COMPILED}.recurrent.decoder.NativeRecurrentDecoder.is_supported", False
)
TRAINING_PARTS = {
    "oneDNN products": returning("regard.numerics.linear._suits", False),
    "recurrent scan": without_kernels("regard.compiled.recurrent.layers"),
    "recurrent cells": without_kernels("regard.compiled.recurrent.native_cells"),
    "dropout": without_kernels("regard.compiled.dropout"),
    "cross entropy": without_kernels("regard.compiled.losses.linear_cross_entropy"),
    "dot attention": without_kernels("regard.compiled.attention.dot.native"),
    "additive kernel": without_kernels("regard.compiled.attention.fused_additive.backends"),
    "fused loop": together(
        returning("regard.compiled.recurrent.decoders.fused_attention", None),
        returning("regard.compiled.recurrent.decoders.fused_lowest", None),
    ),
    "joined gradients": together(
        returning("regard.numerics.linear.joined_parameters", None),
        returning("regard.compiled.recurrent.lookup.joined_parameters", None),
    ),
    "kept memory": default_allocator,
    "all forms": plain,
}
DECODING_PARTS = {
    "frozen weights": lambda: patch("regard.compiled.freeze.freeze", plain_copy),
    "panels, encoder and decoder step": together(
        without_kernels("regard.numerics.linear"), ENCODER, DECODER_STEP, RECURRENT_STEP
    ),
    "encoder": ENCODER,
    "decoder step": DECODER_STEP,
    "recurrent step": RECURRENT_STEP,
    "recurrent cells": without_kernels("regard.compiled.recurrent.native_cells"),
    "dot attention": without_kernels("regard.compiled.attention.dot.native"),
    "additive kernel": without_kernels("regard.compiled.attention.fused_additive.backends"),
    "candidates": without_kernels("regard.compiled.candidates"),
    "kept memory": default_allocator,
    "all forms": plain,
}
RECURRENT = frozenset({"lstm", "fed", "gru"})
USED_BY = {
    "recurrent scan": RECURRENT,
    "recurrent cells": RECURRENT,
    "fused loop": frozenset({"gru"}),
    "joined gradients": frozenset({"fed"}),
    "additive kernel": frozenset({"gru"}),
    "encoder": frozenset({"transformer"}),
    "decoder step": frozenset({"transformer"}),
    "recurrent step": RECURRENT,
}
"""Families of the parts that are not in every model."""


@dataclass(frozen=True)
class Gain:
    """Ratios of the time without a part to the time with it."""

    work: str
    part: str
    precision: str
    threads: int
    median: float
    low: float
    high: float


def searches(setup: Setup, precision: str, name: str) -> Callable[[], None]:
    """Return a function that decodes some sentences in exactly `STEPS` steps."""
    import torch

    from regard.compiled import freeze
    from regard.compiled.candidates import top_candidates as find
    from regard.data.batch import START, pad
    from regard.search import BeamSettings, Limits, beam, greedy

    size, batch_size, number = SEARCHES[name]
    model = freeze.freeze(setup.model, getattr(torch, precision))
    sources = [
        row[mask].tolist()
        for batch in islice(setup.batches.epoch(1), 8)
        for row, mask in zip(batch.source.inputs, batch.source.mask, strict=True)
    ]
    sources = sorted(sources[:number], key=len)
    limits = Limits(start=START, end=None, maximum=STEPS)

    def run() -> None:
        with torch.inference_mode():
            for first in range(0, number, batch_size):
                memories = model.encode(pad(sources[first : first + batch_size]))
                if size == 1:
                    greedy(model.decoder, memories, limits, find=find)
                else:
                    settings = BeamSettings(size, 1)
                    beam(model.decoder, memories, limits, settings, find=find)

    return run


def timed(run: Callable[[], None]) -> float:
    """Return the seconds of a call: CPU time of one thread, which other programs change least, or
    the time of several threads."""
    import torch

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    began = clock()
    run()
    return clock() - began


def ratios(
    build: Callable[[], Callable[[], None]],
    disabled: Callable[[], AbstractContextManager[Any]],
    rounds: int,
) -> list[float]:
    """Return the time without a part over the time with it, in turns. Each goes first in half of
    the rounds."""
    with_part = build()
    with disabled():
        without = build()
        without()
    with_part()
    found = []
    for first_is_without in islice(cycle((False, True)), rounds):
        times = {}
        for is_without in (first_is_without, not first_is_without):
            if is_without:
                with disabled():
                    times[True] = timed(without)
            else:
                times[False] = timed(with_part)
        found.append(times[True] / times[False])
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval between two of the sorted values that contains the median of their
    distribution, whatever it is, with a probability of at least 95 % (from the binomial
    distribution)."""
    ordered, count = sorted(values), len(values)
    tail, rank = 0.0, 0
    while tail + comb(count, rank) / 2**count <= 0.025:
        tail += comb(count, rank) / 2**count
        rank += 1
    lowest = max(rank - 1, 0)
    return ordered[lowest], ordered[count - 1 - lowest]


def works(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any], Callable[..., Any]]]:
    """Yield the name of each computation, its parts, and a function that builds it for a
    precision."""
    for family in options.families:
        recipe, changes = FAMILIES[family]
        setup = setup_of(recipe, options.data, changes)
        if "training" in options.only:
            parts = used_parts(family, TRAINING_PARTS)
            yield f"{family}, training", parts, lambda p, s=setup: updates(s, p)
        if "decoding" in options.only:
            parts = used_parts(family, DECODING_PARTS)
            for name in SEARCHES:
                yield f"{family}, {name}", parts, lambda p, s=setup, n=name: searches(s, p, n)


def used_parts(family: str, parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: disabled
        for name, disabled in parts.items()
        if family in USED_BY.get(name, frozenset(FAMILIES))
    }


def measure(options: argparse.Namespace) -> Iterator[Gain]:
    import torch

    for work, parts, build_for in works(options):
        for precision in options.precisions:
            for threads in options.threads:
                torch.set_num_threads(threads)
                for part, disabled in parts.items():
                    if part not in options.parts:
                        continue
                    values = ratios(lambda: build_for(precision), disabled, options.rounds)  # noqa: B023
                    yield Gain(work, part, precision, threads, median(values), *interval(values))


def report(gains: Sequence[Gain]) -> Iterator[str]:
    yield "| computation | part | precision | threads | gain | 95 % interval | |"
    yield "|---|---|---|---|---|---|---|"
    for gain in gains:
        verdict = "does not pay" if gain.high < WORTH else ""
        yield (
            f"| {gain.work} | {gain.part} | {gain.precision} | {gain.threads} | {gain.median:.2f} "
            f"| {gain.low:.2f} to {gain.high:.2f} | {verdict} |"
        )


def main() -> None:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("data", type=Path, help="folder of Multi30k")
    instruction_sets.add_option(parser)
    computations, precisions = ("training", "decoding"), ("float32", "bfloat16")
    parts = sorted({*TRAINING_PARTS, *DECODING_PARTS})
    parser.add_argument("--only", nargs="+", choices=computations, default=computations)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=tuple(FAMILIES))
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=parts,
        default=parts,
        metavar="PART",
        help=f"of {', '.join(map(repr, parts))} (default: all)",
    )
    parser.add_argument("--precisions", nargs="+", choices=precisions, default=precisions)
    parser.add_argument("--threads", nargs="+", type=int, default=(1,))
    parser.add_argument("--rounds", type=int, default=15, help="pairs of turns (default: 15)")
    parser.add_argument(
        "--without-kernels",
        action="store_true",
        help="measure as if the C++ kernels were not compiled",
    )
    parser.add_argument("--json", type=Path, help="file of the results")
    options = parser.parse_args()
    instruction_sets.restart(options.instruction_set)
    from regard.runtime.memory_policy import keep_freed_memory

    keep_freed_memory()
    if options.without_kernels:
        patch("regard.kernels._LIBRARY", None).start()
    gains: list[Gain] = []
    for gain in measure(options):
        gains.append(gain)
        print(f"{gain.work}, {gain.part}, {gain.precision}: {gain.median:.3f}", file=sys.stderr)
        if options.json:
            content = json.dumps([asdict(each) for each in gains], indent=1)
            options.json.write_text(f"{content}\n", encoding="utf8")
    print("\n".join(report(gains)))


if __name__ == "__main__":
    main()
