"""Compare an update of training with its matrix products alone.

    OMP_NUM_THREADS=1 python benchmarks/update_products.py multi30k-luong DATA
    OMP_NUM_THREADS=1 python benchmarks/update_products.py RECIPE.yaml --instruction-set avx2

The products of some updates are recorded, with their shapes and memory layouts, and then computed
alone, in the same order and by the same library. The two take turns, with a large product as the
measure of the core. The fastest turn counts, because other programs can only slow a turn down. The
products inside the kernels of attention are not counted. The cross entropy computes its gradients
in the forward pass.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import instruction_sets
from updates import NUM_BATCHES, setup_of, updates

LARGE = 1024
"""Rows, inner size and columns of the product that measures the core."""


@dataclass(frozen=True)
class Layout:
    """Shape, strides and type of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def random(self) -> Any:
        import torch

        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype).normal_()


@dataclass(frozen=True)
class Product:
    """A recorded call: the operator, its arguments with layouts for tensors, and its sizes."""

    operator: Any
    arguments: tuple[Any, ...]
    sizes: tuple[int, ...]
    """Rows, inner size and columns, after the number of products in a batch."""
    is_backward: bool

    @property
    def flops(self) -> int:
        return 2 * prod(self.sizes)

    @property
    def name(self) -> str:
        direction = "backward" if self.is_backward else "forward"
        sizes = " x ".join(map(str, self.sizes if self.sizes[0] > 1 else self.sizes[1:]))
        return f"{sizes}, {self.operator.overloadpacket.__name__.strip('_')}, {direction}"


def recorded(run: Callable[[], None]) -> list[Product]:
    """Return the matrix products of a computation, in their order."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten, mkldnn = torch.ops.aten, torch.ops.mkldnn
    first = {  # position of the left matrix among the arguments
        aten.mm.default: 0,
        aten.addmm.default: 1,
        aten.bmm.default: 0,
        aten.baddbmm.default: 1,
    }
    if hasattr(mkldnn, "_linear_pointwise"):
        first[mkldnn._linear_pointwise.default] = 0
    products = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(
            self, operator: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            del types
            if operator in first:
                left, right = arguments[first[operator] : first[operator] + 2]
                columns = right.size(0) if operator.namespace == "mkldnn" else right.size(-1)
                batch, rows = (1, left.size(0)) if left.dim() == 2 else left.shape[:2]
                products.append(
                    Product(
                        operator,
                        tuple(map(layout_of, arguments)),
                        (batch, rows, left.size(-1), columns),
                        torch._C._current_graph_task_id() != -1,
                    )
                )
            return operator(*arguments, **(options or {}))

    with Recorder():
        run()
    return products


def layout_of(argument: Any) -> Any:
    """Return the layout of a tensor, and any other argument as it is."""
    import torch

    if not isinstance(argument, torch.Tensor):
        return argument
    return Layout(tuple(argument.shape), argument.stride(), argument.dtype)


def replay(products: list[Product]) -> Callable[[], None]:
    """Return a function that computes the products alone. Equal layouts share their numbers."""
    import torch

    tensors: dict[tuple[int, Layout], Any] = {}

    def tensor_of(place: int, argument: Any) -> Any:
        if not isinstance(argument, Layout):
            return argument
        if (place, argument) not in tensors:
            tensors[place, argument] = argument.random()
        return tensors[place, argument]

    calls = [
        (product.operator, [tensor_of(*each) for each in enumerate(product.arguments)])
        for product in products
    ]

    def run() -> None:
        with torch.no_grad():
            for operator, arguments in calls:
                operator(*arguments)

    return run


def large_product(precision: str) -> Callable[[], None]:
    """Return a function that computes the product that measures the core, in this type."""
    import torch

    from regard.numerics.linear import linear

    left, right = torch.randn(2, LARGE, LARGE).to(getattr(torch, precision))

    def run() -> None:
        with torch.no_grad():
            linear(left, right)

    return run


def fastest(runs: list[Callable[[], None]], turns: int) -> list[float]:
    """Return the seconds of the fastest of alternating turns of each computation: CPU time of one
    thread, or the time of several threads."""
    import torch

    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = [float("inf")] * len(runs)
    for turn in range(turns + 1):  # the first one compiles the products
        for number, run in enumerate(runs):
            began = clock()
            run()
            if turn:
                seconds[number] = min(seconds[number], clock() - began)
    return seconds


@dataclass(frozen=True)
class Speeds:
    """Seconds and FLOPs of the products of some updates."""

    updates: float
    products: float
    flops: int
    core: float
    """FLOP/s of the large product."""

    def report(self) -> Iterator[str]:
        training, alone = self.flops / self.updates, self.flops / self.products
        yield f"training:             {training / 1e9:6.1f} GFLOP/s"
        yield f"its products alone:   {alone / 1e9:6.1f} GFLOP/s"
        yield f"a large product:      {self.core / 1e9:6.1f} GFLOP/s"
        yield f"training over its products alone:     {training / alone:.0%}"
        yield f"training over a large product:        {training / self.core:.0%}"


def measure(run: Callable[[], None], precision: str, turns: int) -> tuple[Speeds, list[Product]]:
    run()
    products = recorded(run)
    together, alone, large = fastest([run, replay(products), large_product(precision)], turns)
    flops = sum(product.flops for product in products)
    return Speeds(together, alone, flops, 2 * LARGE**3 / large), products


def table(products: list[Product], turns: int, num_rows: int) -> Iterator[str]:
    """Yield a row for each of the kinds of products that take most of the time."""
    groups: dict[str, list[Product]] = {}
    for product in products:
        groups.setdefault(product.name, []).append(product)
    seconds = dict(zip(groups, fastest([*map(replay, groups.values())], turns), strict=True))
    total = sum(seconds.values())
    yield "| product | number | share of the products' time | GFLOP/s |"
    yield "|---|---|---|---|"
    for name in sorted(groups, key=seconds.__getitem__, reverse=True)[:num_rows]:
        speed = sum(product.flops for product in groups[name]) / seconds[name] / 1e9
        yield f"| {name} | {len(groups[name])} | {seconds[name] / total:.1%} | {speed:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("recipe", help="name or file of a recipe")
    parser.add_argument("data", type=Path, nargs="?", help="folder of Multi30k")
    instruction_sets.add_option(parser)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--batches", type=int, default=NUM_BATCHES, help="updates in a turn")
    parser.add_argument("--table", type=int, default=0, metavar="ROWS", help="kinds of products")
    parser.add_argument("--json", type=Path, help="file of the speeds")
    options = parser.parse_args()
    instruction_sets.restart(options.instruction_set)
    import torch

    from regard.runtime.memory_policy import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(options.threads)
    setup = setup_of(options.recipe, options.data)
    run = updates(setup, options.precision, options.batches)
    speeds, products = measure(run, options.precision, options.turns)
    print("\n".join(speeds.report()))
    if options.table:
        print("\n".join(["", *table(products, options.turns, options.table)]))
    if options.json:
        options.json.write_text(json.dumps(vars(speeds)) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
