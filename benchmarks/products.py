"""Measure the speed of float32 matrix products by MKL, oneDNN and packed panels, and choose the
library for each class of shapes.

    OMP_NUM_THREADS=1 python benchmarks/products.py
    OMP_NUM_THREADS=1 python benchmarks/products.py --write
    OMP_NUM_THREADS=1 python benchmarks/products.py --instruction-set avx2

The shapes are those of our recipes: products forward, gradients of inputs, and gradients of
weights. Turns alternate, and the fastest one counts, because other programs can only slow a product
down.
--write replaces the rows of this vendor and instruction set in the shipped table,
src/regard/numerics/product_library.tsv. A limited CPU has other caches and clocks than an older
CPU, so rows that were measured without a limit are not replaced by those of a limited CPU.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import instruction_sets

SIZES = ((128, 256), (256, 256), (256, 1024), (1024, 256), (256, 8000), (512, 2048))
"""Inner size and columns of the weights of our recipes."""
ROWS = (16, 64, 320, 1024, 2048)
GRADIENT_ROWS = (512, 2048)
EQUAL = 1.02
"""oneDNN computes a class unless MKL is faster by more than this factor."""
LIMITED = " limited to "


@dataclass(frozen=True)
class Shape:
    """Product of (rows, inner) and (inner, columns), or the gradient of a weight (columns, inner)
    for this number of rows."""

    rows: int
    inner: int
    columns: int
    is_gradient: bool = False

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inner * self.columns

    @property
    def shape_class(self) -> str:
        from regard.numerics.product_library import class_of_gradient, class_of_product

        function = class_of_gradient if self.is_gradient else class_of_product
        return function(self.rows, self.inner, self.columns)

    def __str__(self) -> str:
        text = f"{self.rows} x {self.inner} x {self.columns}"
        return f"gradient of weight, {text}" if self.is_gradient else text


@dataclass(frozen=True)
class Speed:
    """Speeds of one shape, in FLOP/s, by the name of the library."""

    shape: Shape
    speeds: dict[str, float]

    @property
    def gain(self) -> float:
        """Speed of MKL over that of oneDNN."""
        return self.speeds["mkl"] / self.speeds["onednn"]


def shapes() -> Iterator[Shape]:
    """Yield the products of our recipes that are not too small for a choice."""
    from regard.numerics.linear import WORTH_A_CALL

    products = {Shape(rows, *size) for rows in ROWS for size in SIZES}
    backward = {Shape(rows, *reversed(size)) for rows in GRADIENT_ROWS for size in SIZES}
    gradients = {Shape(rows, *size, is_gradient=True) for rows in GRADIENT_ROWS for size in SIZES}
    for shape in sorted(products | backward | gradients, key=str):
        if shape.flops // 2 >= WORTH_A_CALL:
            yield shape


def products_of(shape: Shape) -> dict[str, Callable[[], object]]:
    """Return a function for each library that computes the product."""
    import torch

    from regard import kernels
    from regard.numerics import product_library
    from regard.numerics.linear import linear, weight_gradient
    from regard.numerics.panels import Panels

    inputs = torch.randn(shape.rows, shape.inner)
    if shape.is_gradient:
        grad_output = torch.randn(shape.rows, shape.columns)
        compute = lambda: weight_gradient(grad_output, inputs)  # noqa: E731
    else:
        weight = torch.randn(shape.columns, shape.inner)
        compute = lambda: linear(inputs, weight)  # noqa: E731

    def by(library: str) -> Callable[[], object]:
        def run() -> object:
            with product_library.using({shape.shape_class: library}):
                return compute()

        return run

    functions = {library: by(library) for library in ("mkl", "onednn")}
    if not shape.is_gradient and kernels.available():
        panels = Panels.of(weight)
        functions["packed"] = lambda: panels.product(inputs, None)
    return functions


def measure(shape: Shape, turns: int) -> Speed:
    """Return the speed of the fastest turn of each library."""
    import torch

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    functions = products_of(shape)
    calls = max(1, round(1e8 / shape.flops))
    seconds = dict.fromkeys(functions, float("inf"))
    with torch.no_grad():
        for turn in range(turns + 1):  # the first one compiles the products
            for name, function in functions.items():
                began = clock()
                for _ in range(calls):
                    function()
                if turn:
                    seconds[name] = min(seconds[name], (clock() - began) / calls)
    return Speed(shape, {name: shape.flops / each for name, each in seconds.items()})


def mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def rows_of(speeds: list[Speed], vendor: str, instructions: str, cpu: str) -> list[str]:
    """Return the rows of the table: the library of each class by the mean gain of its shapes."""
    from regard.numerics.product_library import SHAPE_CLASSES

    rows = []
    for name in SHAPE_CLASSES:
        members = [speed for speed in speeds if speed.shape.shape_class == name]
        library = "mkl" if mean([speed.gain for speed in members]) > EQUAL else "onednn"
        means = [
            mean([speed.speeds[each] / 1e9 for speed in members]) for each in ("mkl", "onednn")
        ]
        numbers = [f"{value:.0f}" for value in means]
        rows.append("\t".join((vendor, instructions, name, library, *numbers, cpu)))
    return rows


def replaced(text: str, rows: list[str]) -> str:
    """Return a table with these rows in place of those of their vendor and instruction set. Rows of
    a limited CPU do not replace rows of one without a limit."""
    is_limited = LIMITED in rows[0]
    keys = {tuple(row.split("\t")[:3]) for row in rows}
    header, *lines = text.splitlines()
    former = [line for line in lines if tuple(line.split("\t")[:3]) in keys]
    if is_limited:
        fixed = {tuple(line.split("\t")[:3]) for line in former if LIMITED not in line}
        rows = [row for row in rows if tuple(row.split("\t")[:3]) not in fixed]
        keys -= fixed
    others = [line for line in lines if tuple(line.split("\t")[:3]) not in keys]
    return (
        "\n".join([header, *sorted([*others, *rows], key=lambda row: row.split("\t")[:2])]) + "\n"
    )


def name_of_cpu() -> str:
    """Return the name of this CPU, with its family and model: virtual machines hide parts of it."""
    fields = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf8").partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    numbers = f"family {fields.get('cpu family')}, model {fields.get('model')}"
    return f"{fields.get('model name', 'unknown CPU')} ({numbers})"


def report(speeds: list[Speed]) -> Iterator[str]:
    yield "| rows x inner x columns | class | MKL | oneDNN | packed |"
    yield "|---|---|---|---|---|"
    for speed in speeds:
        numbers = {name: f"{value / 1e9:.0f}" for name, value in speed.speeds.items()}
        cells = (numbers.get(name, "") for name in ("mkl", "onednn", "packed"))
        yield f"| {speed.shape} | {speed.shape.shape_class} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    instruction_sets.add_option(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=25, help="turns of each product")
    parser.add_argument("--write", action="store_true", help="replace rows of the shipped table")
    options = parser.parse_args()
    instruction_sets.restart(options.instruction_set)
    import torch

    from regard.numerics import product_library

    torch.set_num_threads(options.threads)
    cpu = name_of_cpu()
    if options.instruction_set:
        cpu += LIMITED + options.instruction_set
    print(f"{cpu}, {options.threads} thread(s): GFLOP/s in float32\n")
    speeds = []
    for shape in shapes():
        speeds.append(measure(shape, options.turns))
        print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join(report(speeds)))
    rows = rows_of(speeds, product_library.vendor(), product_library.instructions(), cpu)
    print("\n" + "\n".join(rows))
    if options.write:
        text = product_library.TABLE.read_text(encoding="utf8")
        product_library.TABLE.write_text(replaced(text, rows), encoding="utf8")


if __name__ == "__main__":
    main()
