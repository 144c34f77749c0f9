"""Print the cycles per vector of additive attention's kernels beside a bound from their operations.

    OMP_NUM_THREADS=1 python benchmarks/additive_cycles.py
    OMP_NUM_THREADS=1 python benchmarks/additive_cycles.py --instruction-set avx2

A vector is 8 elements of the pairs of queries and keys with AVX2, and 16 with AVX-512. Everything
is float32, on one thread. Four parts are measured: scores (with the exponentials of queries and
keys), the products of weights and values, the whole forward pass, and the gradients of the scores.

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
- Intel, Skylake and later: two units for all arithmetic, and a divider with 5 cycles for 8 elements
  and 10 for 16. A division takes one turn.
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
from regard.attention.fused_additive import additive_attention, native
from regard.attention.fused_additive.mixing import mix

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

    adders: bool
    """Whether additions have two units of their own, beside the two for multiplications."""
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
        busy = max(products, sums) / 2 if self.adders else (products + sums) / 2
        passes = 2 if self.halves and lanes == 16 else 1
        return max(passes * busy, operations.divisions * self.division[lanes])


CPUS = {
    "AMD Zen 4": Units(adders=True, division={4: 3, 8: 3, 16: 6}, turns=2, halves=True),
    "Intel": Units(adders=False, division={4: 3, 8: 5, 16: 10}, turns=1),
}


def score(lanes: int) -> Operations:
    """Operations of `add_fractions` in scores.hpp: a multiply-add for each denominator, a
    multiplication for each product and a multiply-add for each sum of fractions but the first."""
    group = 8 if lanes == 16 else 4
    products = group + (group - 1) + (group - 2)
    return Operations(products=products / group, sums=2 / group, divisions=1 / group)


def gradient(lanes: int) -> Operations:
    """Operations of `gather` in gradients.hpp. With AVX-512, an estimate and a Newton step replace
    the division."""
    return Operations(6, 3) if lanes == 16 else Operations(3, 3, divisions=1)


VALUES = Operations(products=1, sums=0)


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


PARTS = "scores", "values", "forward", "gradients"


def jobs(shape: additive.Shape) -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    queries, keys, vector, values, _ = (x.detach() for x in additive.draw_inputs(shape))
    weights = torch.rand(shape[:3])
    return {
        "scores": lambda: native.score(queries, keys, vector),
        "values": lambda: mix(weights, values, None, None),
        "forward": lambda: additive_attention(queries, keys, vector, values),
        "gradients": lambda: native.differentiate_score(weights, queries, keys, vector),
    }


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
    bounds = {"scores": score(lanes), "values": VALUES, "gradients": gradient(lanes)}
    rows = []
    for shape in additive.SHAPES.values():
        measured = {
            part: cycles(job, frequency, arguments.repeats) * lanes / math.prod(shape)
            for part, job in jobs(shape).items()
        }
        rows.append([f"measured, {shape}", *(f"{count:.2f}" for count in measured.values())])
    for cpu, units in CPUS.items():
        least = {part: units.cycles(count, lanes) for part, count in bounds.items()}
        least["forward"] = least["scores"] + least["values"]
        rows.append([f"bound, {cpu}", *(f"{least[part]:.2f}" for part in PARTS)])
    title = f"Cycles per vector of {lanes} elements, {additive.INSTRUCTION_SETS[lanes]}"
    additive.print_table(title, ["", *PARTS], rows)


if __name__ == "__main__":
    main()
