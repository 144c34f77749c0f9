"""Print the cycles per vector of additive attention's kernels beside a bound from their operations.

    OMP_NUM_THREADS=1 python benchmarks/additive_cycles.py
    OMP_NUM_THREADS=1 python benchmarks/additive_cycles.py --instruction-set avx2

A vector is 8 elements of the pairs of queries and keys with AVX2, and 16 with AVX-512. Everything
is float32, on one thread. Four parts are measured: scores (with the exponentials of queries and
keys), the products of weights and values, the whole forward pass, and the gradients of the scores.
The kernels of AVX2 compute gradients by divisions, or by estimates of reciprocals on Intel CPUs;
both are measured.

**Cycles** are seconds times a frequency. The frequency is measured before and after each run by a
loop of multiplications that wait for each other and take three cycles each, as on all x86-64 CPUs
of the last ten years. It needs a C compiler.

**Bounds** count the arithmetic of the inner loops by hand (`score`, `gradient`, `VALUES`) and
divide it by the units of a CPU (`CPUS`). Loads, branches, sums over a vector's lanes, softmax and
exponentials are not counted; with few keys, the exponentials take most of the rest. The assumptions
are:

- AMD Zen 4: two units for multiplications, two others for additions, one divider with 3 cycles for
  8 elements, measured. A division takes two turns of a unit for multiplications, an estimate of a
  reciprocal one. Vectors of 16 are computed in two halves.
- Intel Skylake to Ice Lake: two units for all arithmetic, and a divider with 5 cycles for 8
  elements and 10 for 16. A division takes one turn.
- Intel Golden Cove and later (Alder Lake, Sapphire Rapids): the same with a third unit, which adds
  vectors of 8. With vectors of 16 there are two units.
"""

import argparse
import ctypes
import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import additive
import instruction_sets
import torch

from regard import kernels
from regard.compiled.attention.fused_additive import additive_attention, native
from regard.compiled.attention.fused_additive.mixing import mix

# Bounds


@dataclass(frozen=True)
class Operations:
    """Arithmetic on whole vectors, per vector of pairs."""

    products: float
    """Multiplications, multiply-adds and estimates of reciprocals."""
    sums: float
    divisions: float = 0.0


@dataclass(frozen=True)
class Units:
    """Execution units of a CPU."""

    units: dict[int, int]
    """Units for arithmetic, by the elements of a vector. Two of them multiply, and two add."""
    division: dict[int, float]
    """Cycles between two divisions, by the elements of a vector."""
    turns: int
    """Turns of a unit for multiplications that a division takes."""
    halves: bool = False
    """Whether a vector of 16 is computed in two halves."""

    def cycles(self, operations: Operations, lanes: int) -> float:
        """Return the smallest number of cycles for these operations."""
        products = operations.products + self.turns * operations.divisions
        sums = operations.sums
        busy = max(products / 2, sums / 2, (products + sums) / self.units[lanes])
        passes = 2 if self.halves and lanes == 16 else 1
        return max(passes * busy, operations.divisions * self.division[lanes])


CPUS = {
    "AMD Zen 4": Units({4: 4, 8: 4, 16: 4}, division={4: 3, 8: 3, 16: 6}, turns=2, halves=True),
    "Intel Skylake": Units({4: 2, 8: 2, 16: 2}, division={4: 3, 8: 5, 16: 10}, turns=1),
    "Intel Golden Cove": Units({4: 3, 8: 3, 16: 2}, division={4: 3, 8: 5, 16: 10}, turns=1),
}


def score(lanes: int) -> Operations:
    """Operations of `add_fractions` in scores.hpp: a multiply-add for each denominator, a
    multiplication for each product and a multiply-add for each sum of fractions but the first."""
    group = 8 if lanes == 16 else 4
    products = group + (group - 1) + (group - 2)
    return Operations(products=products / group, sums=2 / group, divisions=1 / group)


GRADIENT = Operations(products=3, sums=3, divisions=1)
GRADIENT_BY_ESTIMATES = Operations(products=6, sums=3)
"""Operations of `gather` in gradients.hpp. With AVX-512, and with AVX2 on Intel CPUs, an estimate
and a Newton step replace the division."""
VALUES = Operations(products=1, sums=0)


def operations(lanes: int) -> dict[str, Operations]:
    """Return the operations of each part with a bound of its own."""
    parts = {"scores": score(lanes), "values": VALUES}
    parts["gradients"] = GRADIENT_BY_ESTIMATES if lanes == 16 else GRADIENT
    if lanes == 8:
        parts["gradients, estimates"] = GRADIENT_BY_ESTIMATES
    return parts


# Cycles

CHAIN = """
#define NEXT x *= y; __asm__ volatile("" : "+r"(x));
unsigned long chain(unsigned long x, unsigned long y, long count) {
  for (long i = 0; i < count; i++) { NEXT NEXT NEXT NEXT NEXT NEXT NEXT NEXT }
  return x;
}
"""
COUNT, EACH, LATENCY = 20_000, 8, 3
"""Passes of the loop, its multiplications, and the cycles of one."""


class Frequency:
    """Cycles per second of the core that this process runs on."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "chain.c", Path(folder) / "chain.so"
            source.write_text(CHAIN)
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
            self._chain = ctypes.CDLL(str(library)).chain
        self._chain.argtypes = [ctypes.c_ulong, ctypes.c_ulong, ctypes.c_long]

    def measure(self) -> float:
        fastest = math.inf
        for _ in range(3):
            begun = time.perf_counter()
            self._chain(3, 5, COUNT)
            fastest = min(fastest, time.perf_counter() - begun)
        return LATENCY * EACH * COUNT / fastest


def cycles(job: Callable[[], object], frequency: Frequency, repeats: int) -> float:
    """Return the smallest number of cycles of a call."""
    job()
    fewest = math.inf
    for _ in range(repeats):
        before = frequency.measure()
        begun = time.perf_counter()
        job()
        seconds = time.perf_counter() - begun
        fewest = min(fewest, seconds * min(before, frequency.measure()))
    return fewest


def jobs(shape: additive.Shape) -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    queries, keys, vector, values, _ = (x.detach() for x in additive.draw_inputs(shape))
    weights = torch.rand(shape[:3])

    def differentiate(estimates: bool) -> object:
        kernels.reciprocal_estimates(estimates)
        return native.differentiate_score(weights, queries, keys, vector)

    parts: dict[str, Callable[[], object]] = {
        "scores": lambda: native.score(queries, keys, vector),
        "values": lambda: mix(weights, values, None, None),
        "forward": lambda: additive_attention(queries, keys, vector, values),
        "gradients": lambda: differentiate(estimates=False),
    }
    if kernels.lanes() == 8:
        parts["gradients, estimates"] = lambda: differentiate(estimates=True)
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=30)
    instruction_sets.add_option(parser)
    arguments = parser.parse_args()
    instruction_sets.restart(arguments.instruction_set)
    torch.set_num_threads(1)
    additive.keep_memory()
    frequency, lanes = Frequency(), kernels.lanes()
    print(f"{additive.machine()}, {frequency.measure() / 1e9:.2f} GHz by a loop of multiplications")
    bounds, rows = operations(lanes), []
    for shape in additive.SHAPES.values():
        kernels.reciprocal_estimates()
        measured = {
            part: cycles(job, frequency, arguments.repeats) * lanes / math.prod(shape)
            for part, job in jobs(shape).items()
        }
        rows.append([f"measured, {shape}", *(f"{count:.2f}" for count in measured.values())])
    for cpu, units in CPUS.items():
        least = {part: units.cycles(count, lanes) for part, count in bounds.items()}
        least["forward"] = least["scores"] + least["values"]
        rows.append([f"bound, {cpu}", *(f"{least[part]:.2f}" for part in measured)])
    title = f"Cycles per vector of {lanes} elements, {additive.INSTRUCTION_SETS[lanes]}"
    additive.print_table(title, ["", *measured], rows)


if __name__ == "__main__":
    main()
