"""Compare fused additive attention with the plain formula and PyTorch's dot-product attention.

Plain is the paper's v . tanh(q + k) with softmax and bmm, in eager PyTorch. `additive_attention` is
measured with the kernel, if this machine has one, and with tiles in PyTorch. All methods of a table
take turns, and the fastest run of each counts. If plain needs too much memory, it runs on fewer
sentences or queries and its result is multiplied; the tables mark this. Everything is float32.

Times are measured while glibc keeps freed memory, which favours plain. With glibc's default
settings (`--allocator default`), each large tensor is requested from the system again, and plain
takes about three times as long at M.

    OMP_NUM_THREADS=1 python benchmarks/additive.py --json figures.json --plots docs/figures
    OMP_NUM_THREADS=1 python benchmarks/additive.py --only S decode --threads 1 --repeats 3

Everything takes about a quarter of an hour. Results of other parts stay in the JSON file, so parts
can be measured separately and plotted together (`--only plots`).
"""

import argparse
import ctypes
import gc
import json
import math
import multiprocessing
import os
import platform
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard import kernels
from regard.attention import Additive, Attention, causal, window
from regard.compiled.attention.fused_additive import additive_attention, backends, prepare, tiled
from regard.compiled.attention.fused_additive.memory import AdditiveMemory
from regard.layers.recurrent.stack import RecurrentStack
from regard.models.contracts import Memory, Summary
from regard.models.recurrent.attention import CrossAttention
from regard.models.recurrent.bridge import ZeroBridge
from regard.models.recurrent.decoders import BahdanauDecoder, PlainDecoder
from regard.models.recurrent.output import LinearOutput
from regard.models.recurrent.parts import DecoderParts
from regard.models.recurrent.queries import StateQuery
from regard.viewing.colours import hexadecimal
from regard.viewing.figure import FRAME, GRID, INK, QUIET, empty_figure, write

PLAIN, TILED, KERNEL, DOT, NONE = "plain", "tiled", "kernel", "dot product", "no attention"
Figures = dict[str, Any]


class Shape(NamedTuple):
    batch: int
    target: int
    source: int
    size: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.target} x {self.source}, size {self.size}"


SHAPES = {
    "S": Shape(64, 30, 30, 256),
    "M": Shape(64, 100, 100, 512),
    "L": Shape(8, 1000, 1000, 256),
}
HUGE = Shape(4, 2000, 2000, 256)
ONE_QUERY = (Shape(64, 1, 30, 256), Shape(64, 1, 1000, 256))
PARTS = ("memory", *SHAPES, "decoder", "decode", "masks", "saturation", "accuracy", "plots")
"""Memory is measured first, because the timed parts keep freed memory."""

LARGEST_PLAIN = 1 << 29
"""Elements in the plain formula's tensor of all pairs of queries and keys: two gigabytes."""


# Methods


class Inputs(NamedTuple):
    """Projected queries and keys, and the gradient of the context."""

    queries: Tensor
    keys: Tensor
    vector: Tensor
    values: Tensor
    above: Tensor


def draw_inputs(shape: Shape, scale: float = 1.0) -> Inputs:
    batch, target, source, size = shape
    inputs = Inputs(
        torch.randn(batch, target, size) * scale,
        torch.randn(batch, source, size) * scale,
        torch.randn(size) * size**-0.5,
        torch.randn(batch, source, size),
        torch.randn(batch, target, size),
    )
    for tensor in inputs[:4]:
        tensor.requires_grad_()
    return inputs


def plain(inputs: Inputs, mask: Tensor | None = None) -> Tensor:
    assert mask is None
    scores = torch.tanh(inputs.queries[:, :, None] + inputs.keys[:, None]) @ inputs.vector
    return torch.bmm(torch.softmax(scores, dim=-1), inputs.values)


def ours(inputs: Inputs, mask: Tensor | None = None) -> Tensor:
    return additive_attention(*inputs[:4], mask)[0]


def dot(inputs: Inputs, mask: Tensor | None = None) -> Tensor:
    queries, keys, values = (
        tensor[:, None] for tensor in (inputs.queries, inputs.keys, inputs.values)
    )
    return F.scaled_dot_product_attention(queries, keys, values, mask)[:, 0]


ATTEND: dict[str, Callable[..., Tensor]] = {PLAIN: plain, TILED: ours, KERNEL: ours, DOT: dot}


def ways_of_ours() -> list[str]:
    return [TILED, KERNEL] if kernels.available() else [TILED]


def ours_among(figures: Figures) -> list[str]:
    """Return the fused methods in these figures, the fastest last."""
    return [way for way in (TILED, KERNEL) if way in figures]


def computed_by(way: str) -> AbstractContextManager[Any]:
    """Disable the kernel if tiles are measured."""
    return patch.object(backends, "native", tiled) if way == TILED else nullcontext()


def forward(way: str, inputs: Inputs, mask: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        return ATTEND[way](inputs, mask)


def train(way: str, inputs: Inputs, mask: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the context and the gradients of queries, keys, vector and values."""
    context = ATTEND[way](inputs, mask)
    gradients = torch.autograd.grad(context, inputs[:4], inputs.above, allow_unused=way == DOT)
    return context.detach(), *gradients


PASSES: dict[str, Callable[..., Any]] = {"forward": forward, "training": train}


def sensible_for_plain(shape: Shape) -> tuple[Shape, int]:
    """Return the shape of a part of the work that fits into memory, and the number of parts."""
    parts = 1
    while math.prod(shape) > LARGEST_PLAIN:
        parts *= 2
        if shape.batch > 1:
            shape = shape._replace(batch=shape.batch // 2)
        else:
            shape = shape._replace(target=shape.target // 2)
    return shape, parts


# Measuring time

KEEPS_MEMORY = {"M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, -1)}
"""Settings of mallopt in a timed process: number and value."""


def keep_memory() -> str:
    """Have this process keep freed memory, and return a description of the settings."""
    if platform.libc_ver()[0] != "glibc":
        return "allocator: default settings"
    for name, (number, value) in KEEPS_MEMORY.items():
        if not ctypes.CDLL(None).mallopt(number, value):
            raise OSError(f"mallopt rejected {name}={value}")
    settings = ", ".join(f"{name}={value}" for name, (_, value) in KEEPS_MEMORY.items())
    return f"allocator: glibc, keeping freed memory ({settings})"


SHORT, LONG, FEWEST = 0.02, 20.0, 3
"""Minimum seconds of a run; total seconds after which a method stops; minimum number of runs."""


Clock = Callable[[], float]


def fastest(
    jobs: dict[str, Callable[[], object]], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Return the seconds of the fastest run of every job; the jobs take turns."""
    counts, spent = {}, dict.fromkeys(jobs, 0.0)
    minima = dict.fromkeys(jobs, math.inf)
    for name, job in jobs.items():
        with computed_by(name):
            job()
            counts[name] = math.ceil(SHORT / _seconds(job, 1, clock))
    for turn in range(repeats):
        for name, job in jobs.items():
            if turn >= FEWEST and spent[name] > LONG:
                continue
            with computed_by(name):
                taken = _seconds(job, counts[name], clock)
            spent[name] += taken * counts[name]
            minima[name] = min(minima[name], taken)
    return minima


def _seconds(job: Callable[[], object], count: int, clock: Clock) -> float:
    begun = clock()
    for _ in range(count):
        job()
    return (clock() - begun) / count


@dataclass(frozen=True)
class Options:
    threads: list[int]
    repeats: int


def on_each_number_of_threads(
    options: Options, measure: Callable[[], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    figures = {}
    for threads in options.threads:
        torch.set_num_threads(threads)
        figures[str(threads)] = measure()
    torch.set_num_threads(options.threads[0])
    return figures


# Parts. `measure_...` returns the figures of a part; `show_...` prints them.


def measure_shape(shape: Shape, options: Options) -> Figures:
    torch.manual_seed(0)
    inputs = draw_inputs(shape)
    part, parts = sensible_for_plain(shape)
    plain_inputs = draw_inputs(part) if parts > 1 else inputs

    def measure() -> dict[str, Any]:
        seconds = {}
        for name, run in PASSES.items():
            jobs = {
                way: lambda way=way, run=run: run(way, plain_inputs if way == PLAIN else inputs)
                for way in (PLAIN, DOT, *ways_of_ours())
            }
            seconds[name] = fastest(jobs, options.repeats)
            seconds[name][PLAIN] *= parts
        return seconds

    return {"plain_parts": parts, "seconds": on_each_number_of_threads(options, measure)}


def show_shape(name: str, figures: Figures) -> None:
    title = f"{name}: {SHAPES[name]}"
    if figures["plain_parts"] > 1:
        title += f" (plain: a part, times {figures['plain_parts']})"
    rows = [
        [threads, which, *_beside(seconds)]
        for threads, passes in figures["seconds"].items()
        for which, seconds in passes.items()
    ]
    heads = _heads_beside(next(iter(next(iter(figures["seconds"].values())).values())))
    print_table(title, ["threads", "", *heads], rows)


def measure_decode(options: Options) -> Figures:
    """Time one query for each sentence, with prepared keys."""
    figures = {}
    for shape in ONE_QUERY:
        torch.manual_seed(0)
        with torch.inference_mode():
            inputs = Inputs(*(tensor.detach() for tensor in draw_inputs(shape)))

        def measure(inputs: Inputs = inputs) -> dict[str, float]:
            jobs: dict[str, Callable[[], object]] = {
                way: lambda way=way: ATTEND[way](inputs) for way in (PLAIN, DOT)
            }
            for way in ways_of_ours():
                with computed_by(way):
                    ready = inputs._replace(keys=prepare(inputs.keys))
                jobs[way] = lambda ready=ready: ours(ready)
            return fastest(jobs, options.repeats)

        with torch.inference_mode():
            figures[str(shape.source)] = on_each_number_of_threads(options, measure)
    return figures


def show_decode(figures: Figures) -> None:
    rows = [
        [threads, keys, *_beside(seconds)]
        for keys, by_threads in figures.items()
        for threads, seconds in by_threads.items()
    ]
    heads = _heads_beside(next(iter(next(iter(figures.values())).values())))
    title = f"One decoding step, prepared keys: batch {ONE_QUERY[0].batch}, size "
    print_table(f"{title}{ONE_QUERY[0].size}", ["threads", "keys", *heads], rows)


def measure_masks(options: Options) -> Figures:
    torch.manual_seed(0)
    shape = SHAPES["L"]
    inputs, length = draw_inputs(shape), shape.source
    masks = {
        "no mask": None,
        "causal": causal(length),
        "window of +-32": window(length, length, width=32),
    }

    def measure() -> dict[str, Any]:
        seconds: dict[str, Any] = {}
        for way in ways_of_ours():
            for name, run in PASSES.items():
                with computed_by(way):
                    jobs = {
                        mask: lambda run=run, way=way, mask=mask: run(way, inputs, masks[mask])
                        for mask in masks
                    }
                    seconds.setdefault(way, {})[name] = fastest(jobs, options.repeats)
        return seconds

    return on_each_number_of_threads(options, measure)


def show_masks(figures: Figures) -> None:
    rows = []
    for threads, by_way in figures.items():
        for way, passes in by_way.items():
            for name, seconds in passes.items():
                whole = seconds["no mask"]
                ratios = [f"{masked / whole:.2f}" for masked in list(seconds.values())[1:]]
                rows.append([threads, way, name, milliseconds(whole), *ratios])
    heads = ["threads", "", "", "no mask, ms", "causal, ratio", "window +-32, ratio"]
    print_table(f"Masks: {SHAPES['L']}", heads, rows)


# Saturated tanh

AMPLITUDES = (1, 5, 8, 15, 30, 100)
"""Standard deviations of queries and keys. With the first, tanh is not saturated."""

SATURATED = Shape(16, 20, 40, 256)
INSTRUCTION_SETS = {16: "AVX-512", 8: "AVX2", 4: "baseline"}
"""Instruction sets by the number of elements in their vectors."""


def measure_saturation(options: Options) -> Figures:
    """Return CPU seconds by instruction set, pass and amplitude, with one thread."""
    torch.set_num_threads(1)
    if not kernels.available():
        return {TILED: _time_amplitudes(options)}
    best, figures = kernels.lanes(), {}
    for lanes, name in INSTRUCTION_SETS.items():
        if lanes <= best:
            kernels.lanes(lanes)
            figures[name] = _time_amplitudes(options)
    kernels.lanes(best)
    return figures


def _time_amplitudes(options: Options) -> Figures:
    jobs = {str(amplitude): _saturation_jobs(amplitude) for amplitude in AMPLITUDES}
    passes = {name: {amplitude: jobs[amplitude][name] for amplitude in jobs} for name in jobs["1"]}
    return {
        name: fastest(by_amplitude, options.repeats, time.process_time)
        for name, by_amplitude in passes.items()
    }


def _saturation_jobs(amplitude: float) -> dict[str, Callable[[], object]]:
    """Return jobs for scores, their gradients, and a decoding step with prepared keys and its
    gradient."""
    torch.manual_seed(0)
    inputs = draw_inputs(SATURATED)
    queries, keys = (amplitude * tensor.detach() for tensor in inputs[:2])
    vector, values = inputs.vector.detach(), inputs.values.detach()
    backend = backends.choose(queries)
    step = queries[:, :1].contiguous()
    memory = AdditiveMemory(keys, vector, values, powers=backend.powers(keys))
    above = torch.randn(SATURATED[:3])
    step_above = above[:, :1].contiguous()
    return {
        "forward": lambda: backend.score(queries, keys, vector),
        "backward": lambda: backend.differentiate_score(above, queries, keys, vector),
        "one step": lambda: backend.attend(step, memory),
        "one step, backward": lambda: backend.differentiate_queries(step_above, step, memory),
    }


def show_saturation(figures: Figures) -> None:
    rows = [
        [name, which, milliseconds(seconds["1"]), *saturation_ratios(seconds).values()]
        for name, passes in figures.items()
        for which, seconds in passes.items()
    ]
    heads = ["", "", "amplitude 1, ms", *(f"{amplitude}" for amplitude in AMPLITUDES[1:])]
    title = f"Time relative to amplitude 1: {SATURATED}, one thread"
    print_table(title, heads, [[*row[:3], *(f"{ratio:.2f}" for ratio in row[3:])] for row in rows])


def saturation_ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Return the time at every amplitude above 1, relative to amplitude 1."""
    return {name: each / seconds["1"] for name, each in seconds.items() if name != "1"}


# A decoder with attention in its loop


@dataclass(frozen=True)
class DecoderSizes:
    batch: int = 64
    source: int = 200
    target: int = 50
    hidden: int = 256
    words: int = 1000


class PlainScore(nn.Module):
    """Additive score by the plain formula. It is not an AdditiveScore, so it is not fused."""

    def __init__(self, score: Any) -> None:
        super().__init__()
        self.score = score

    def prepare(self, keys: Tensor) -> Tensor:
        return self.score.prepare(keys).projected

    def forward(self, queries: Tensor, prepared: Tensor) -> Tensor:
        queries = self.score.project_queries(queries)
        return torch.tanh(queries[:, :, None] + prepared[:, None]) @ self.score.vector


def decoder_parts(sizes: DecoderSizes, context: int) -> DecoderParts:
    hidden = sizes.hidden
    return DecoderParts(
        nn.Embedding(sizes.words, hidden),
        RecurrentStack("gru", hidden + context, hidden),
        ZeroBridge(1, hidden, with_cell=False),
        LinearOutput(hidden, context),
    )


def measure_decoder(options: Options, sizes: DecoderSizes | None = None) -> Figures:
    """Time the training of Bahdanau's decoder up to its features. The projection to logits is left
    out, because it is the same for all methods. Without attention, all steps are one call of
    PyTorch's GRU."""
    sizes = sizes or DecoderSizes()
    torch.manual_seed(0)
    hidden = sizes.hidden
    parts, score = decoder_parts(sizes, hidden), Additive(hidden, hidden, hidden)

    def cross_attention(score: nn.Module) -> CrossAttention:
        return CrossAttention(StateQuery(hidden), Attention(score))

    fused = BahdanauDecoder(parts, cross_attention(score))
    decoders: dict[str, nn.Module] = {
        PLAIN: BahdanauDecoder(parts, cross_attention(PlainScore(score))),
        **dict.fromkeys(ways_of_ours(), fused),
        NONE: PlainDecoder(decoder_parts(sizes, 0)),
    }
    states = torch.randn(sizes.batch, sizes.source, hidden, requires_grad=True)
    visible = torch.ones(sizes.batch, sizes.source, dtype=torch.bool)
    memories = (Memory(states, states, visible, Summary(torch.zeros(sizes.batch, 1, hidden))),)
    tokens = torch.randint(sizes.words, (sizes.batch, sizes.target))

    def train_decoder(decoder: nn.Module) -> Tensor:
        features = decoder(tokens, memories).features
        weights = [states, *decoder.parameters()]
        torch.autograd.grad(features, weights, torch.ones_like(features), allow_unused=True)
        return features.detach()

    torch.testing.assert_close(train_decoder(decoders[PLAIN]), train_decoder(fused))

    def measure() -> dict[str, float]:
        jobs = {
            way: lambda decoder=decoder: train_decoder(decoder) for way, decoder in decoders.items()
        }
        return fastest(jobs, options.repeats)

    return {"sizes": vars(sizes), "seconds": on_each_number_of_threads(options, measure)}


def show_decoder(figures: Figures) -> None:
    sizes, rows = figures["sizes"], []
    for threads, seconds in figures["seconds"].items():
        for way, taken in seconds.items():
            faster = times(seconds[PLAIN] / taken)
            rows.append([threads, way, milliseconds(taken), faster, times(taken / seconds[NONE])])
    title = (
        f"Training a GRU decoder with attention in its loop: batch {sizes['batch']}, "
        f"{sizes['source']} keys, {sizes['target']} steps, size {sizes['hidden']}"
    )
    print_table(title, ["threads", "", "ms", "faster than plain", "relative to no attention"], rows)


# Measuring memory

RETURNS_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
"""Settings of glibc in a measured process: return freed memory to the system, so that the peak
counts only memory that is in use at the same time."""


class Peak(NamedTuple):
    """Peak resident bytes: above the process with its inputs, and of the whole process."""

    above_inputs: int
    whole_process: int


def peak_of_training(way: str, shape: Shape) -> Peak:
    """Measure the peak in a new process with one thread. Linux only."""
    before = {name: os.environ.get(name) for name in RETURNS_MEMORY}
    os.environ.update(RETURNS_MEMORY)
    try:
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            return process.submit(_peak_here, way, shape).result()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _peak_here(way: str, shape: Shape) -> Peak:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with computed_by(way):
        train(way, draw_inputs(shape._replace(batch=1, target=256, source=256)))  # loads the code
        inputs = draw_inputs(shape)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = _resident("VmRSS")
        outputs = train(way, inputs)
        peak = _resident("VmHWM")
        del outputs
    return Peak(peak - before, peak)


def _resident(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def measure_memory(options: Options) -> Figures:
    del options
    figures = {}
    for name, shape in {**SHAPES, "huge": HUGE}.items():
        part, parts = sensible_for_plain(shape)
        peaks = {way: peak_of_training(way, shape)._asdict() for way in (DOT, *ways_of_ours())}
        alone = peak_of_training(PLAIN, part).above_inputs
        figures[name] = {
            "peaks": peaks,
            "plain": alone * parts,
            "plain_parts": parts,
            "one_tensor": math.prod(shape) * 4,
        }
    return figures


def show_memory(figures: Figures) -> None:
    rows = []
    for name, memory in figures.items():
        measured, parts = memory["plain"], memory["plain_parts"]
        times_parts = f" (part x {parts})" if parts > 1 else ""
        arithmetic = f"3 x {size_of(memory['one_tensor'])}"
        row = [name, str({**SHAPES, "huge": HUGE}[name]), arithmetic]
        row.append(size_of(measured) + times_parts)
        for peak in memory["peaks"].values():
            share = measured / max(1, peak["above_inputs"])
            row.append(f"{size_of(peak['above_inputs'])} (1/{share:.0f})")
        row.append(size_of(max(peak["whole_process"] for peak in memory["peaks"].values())))
        rows.append(row)
    ways = list(next(iter(figures.values()))["peaks"])
    setting = ", ".join(f"{name}={value}" for name, value in RETURNS_MEMORY.items())
    heads = ["", "shape", "plain, computed", "plain, measured", *ways, "largest process"]
    print_table("Peak memory of training, excluding the inputs, one thread", heads, rows)
    print(f"  allocator: glibc with {setting}")
    print("  computed: the tanh of q + k, its gradient, and the gradient of its input")


# Accuracy

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
NUM_SHAPES = 30
MEASURES = ("outputs", "gradients")


def measure_accuracy(options: Options) -> Figures:
    """Return the largest errors of random shapes, for every scale of queries and keys."""
    del options
    choose = random.Random(0)
    shapes = [
        Shape(*(choose.randint(1, limit) for limit in (4, 70, 90, 300))) for _ in range(NUM_SHAPES)
    ]
    figures: Figures = {}
    for scale in SCALES:
        torch.manual_seed(0)
        largest = {way: dict.fromkeys(MEASURES, 0.0) for way in (PLAIN, *ways_of_ours())}
        for shape in shapes:
            inputs = draw_inputs(shape, scale)
            exact = Inputs(*(tensor.detach().double().requires_grad_() for tensor in inputs))
            expected = train(PLAIN, exact)
            for way, errors in largest.items():
                with computed_by(way):
                    results = train(way, inputs)
                output, *gradients = map(error_of, results, expected)
                errors["outputs"] = max(errors["outputs"], output)
                errors["gradients"] = max(errors["gradients"], *gradients)
        figures[str(scale)] = largest
    return figures


def error_of(result: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest number if that is above one."""
    largest = max(1.0, expected.abs().max().item())
    return (result.double() - expected).abs().max().item() / largest


def show_accuracy(figures: Figures) -> None:
    ways = list(next(iter(figures.values())))
    rows = [
        [scale, *(f"{errors[way][measure]:.1e}" for measure in MEASURES for way in ways)]
        for scale, errors in figures.items()
    ]
    title = f"Largest error relative to float64, {NUM_SHAPES} random shapes at every scale"
    heads = ["scale", *(f"{measure}, {way}" for measure in MEASURES for way in ways)]
    print_table(title, heads, rows)


# Claims


def claims(figures: Figures) -> Iterable[tuple[str, float, str, float]]:
    """Yield each claim: its text, the measured figure, "at most" or "at least", and the bound."""
    for name, minimum in (("M", 25), ("L", 30)):
        for threads, passes in figures.get(name, {"seconds": {}})["seconds"].items():
            faster = _over_plain(passes["training"])
            yield (
                f"speed of training at {name} relative to plain, threads {threads}",
                faster,
                "at least",
                minimum,
            )
    for name in SHAPES:
        for threads, passes in figures.get(name, {"seconds": {}})["seconds"].items():
            seconds = passes["forward"]
            what = f"forward time at {name} relative to the dot product, threads {threads}"
            yield what, seconds[ours_among(seconds)[-1]] / seconds[DOT], "at most", 1.1
    if "memory" in figures:
        for name, minimum in (("M", 50), ("L", 300)):
            memory = figures["memory"][name]
            ratio = memory["plain"] / max(1, _our_peak(memory)["above_inputs"])
            yield f"plain's memory relative to ours, training at {name}", ratio, "at least", minimum
        memory = figures["memory"]["huge"]
        gigabytes = _our_peak(memory)["whole_process"] / 1e9
        yield "gigabytes of the whole process, huge", gigabytes, "at most", 2
        yield "gigabytes of plain, huge", memory["plain"] / 1e9, "at least", 24
    for threads, seconds in figures.get("decoder", {"seconds": {}})["seconds"].items():
        faster = _over_plain(seconds)
        yield (
            f"speed of training a decoder relative to plain, threads {threads}",
            faster,
            "at least",
            2.5,
        )
    for name, passes in figures.get("saturation", {}).items():
        for which, seconds in passes.items():
            ratio = max(saturation_ratios(seconds).values())
            yield f"{which}, saturated relative to unsaturated, {name}", ratio, "at most", 2


def _over_plain(seconds: dict[str, float]) -> float:
    return seconds[PLAIN] / seconds[ours_among(seconds)[-1]]


def _our_peak(memory: Figures) -> dict[str, int]:
    return memory["peaks"][ours_among(memory["peaks"])[-1]]


def show_claims(figures: Figures) -> None:
    rows = []
    for what, figure, bound, limit in claims(figures):
        holds = figure <= limit if bound == "at most" else figure >= limit
        rows.append([what, f"{figure:.3g}", f"{bound} {limit}", "yes" if holds else "NO"])
    if rows:
        print_table(
            "Claims, for the fastest fused method", ["", "measured", "claimed", "holds"], rows
        )


# Printing


def print_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    print(f"\n{title}\n")
    for row in (heads, *rows):
        cells = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())
    print(flush=True)


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.1f}x"


def size_of(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _heads_beside(seconds: dict[str, float]) -> list[str]:
    heads = [f"{way}, ms" for way in seconds]
    for way in ours_among(seconds):
        heads += [f"plain / {way}", f"{way} / dot"]
    return heads


def _beside(seconds: dict[str, float]) -> list[str]:
    """Return the milliseconds of every method, and the ratios of the fused ones."""
    cells = [milliseconds(taken) for taken in seconds.values()]
    for way in ours_among(seconds):
        cells += [times(seconds[PLAIN] / seconds[way]), f"{seconds[way] / seconds[DOT]:.2f}"]
    return cells


# Drawing

COLOURS = {PLAIN: "#c4572a", TILED: hexadecimal(0.35), KERNEL: hexadecimal(0.75), DOT: "#b9bec5"}
NAMES = {
    PLAIN: "plain formula",
    TILED: "ours, torch in tiles",
    KERNEL: "ours, kernel",
    DOT: "torch's dot product, for comparison",
}


def plot_speed(figures: Figures, path: Path) -> None:
    """Plot the speed relative to plain, at every measured shape."""
    shapes = [name for name in SHAPES if name in figures]
    threads = min(figures[shapes[0]]["seconds"], key=int)
    first = figures[shapes[0]]["seconds"][threads]["forward"]
    ways = [way for way in (TILED, KERNEL, DOT) if way in first]
    figure = empty_figure(7.2, 2.9)
    panels = figure.subplots(1, len(PASSES))
    wide = 0.8 / len(ways)
    for axes, which in zip(panels, PASSES, strict=True):
        for place, way in enumerate(ways):
            faster = []
            for name in shapes:
                seconds = figures[name]["seconds"][threads][which]
                faster.append(seconds[PLAIN] / seconds[way])
            middle = [at + wide * (place - (len(ways) - 1) / 2) for at in range(len(shapes))]
            bars = axes.bar(middle, faster, wide * 0.92, color=COLOURS[way], label=NAMES[way])
            labels = [f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" for ratio in faster]
            axes.bar_label(bars, labels, padding=2, color=INK, fontsize=8)
        axes.axhline(1, color=COLOURS[PLAIN], linewidth=1)
        axes.set_xticks(range(len(shapes)), [_shape_label(name) for name in shapes])
        axes.set_title(
            {"forward": "forward", "training": "forward and backward"}[which], color=INK, size=10
        )
        axes.margins(y=0.12)
        _tidy(axes, "y")
        axes.tick_params(axis="x", length=0)
    panels[0].set_ylabel("times faster than plain", color=QUIET, size=9)
    _legend_below(figure, panels[0])
    write(figure, path)


def plot_error(figures: Figures, path: Path) -> None:
    """Plot the largest error of outputs and of gradients, by scale."""
    accuracy = figures["accuracy"]
    figure = empty_figure(7.2, 2.7)
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    for axes, measure in zip(panels, MEASURES, strict=True):
        for way in next(iter(accuracy.values())):
            errors = [by_method[way][measure] for by_method in accuracy.values()]
            axes.loglog(
                [float(scale) for scale in accuracy],
                errors,
                color=COLOURS[way],
                label=NAMES[way],
                marker="o",
                markersize=3.5,
                linewidth=1.4,
            )
        axes.set_title(measure, color=INK, size=10)
        axes.set_xlabel("scale of queries and keys", color=QUIET, size=9)
        axes.set_ylim(1e-8, 1e-4)
        axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        _tidy(axes, "both")
    panels[0].set_ylabel("largest error", color=QUIET, size=9)
    _legend_below(figure, panels[0])
    write(figure, path)


def _shape_label(name: str) -> str:
    batch, target, source, size = SHAPES[name]
    return f"{target} x {source}\nsize {size}\nbatch {batch}"


def _tidy(axes: Any, grid: str) -> None:
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=2, color=FRAME, labelcolor=QUIET, labelsize=8)
    axes.minorticks_off()
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), linewidth=0.7, color=FRAME)


def _legend_below(figure: Any, axes: Any) -> None:
    figure.subplots_adjust(bottom=0.3, wspace=0.16)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=9,
        labelcolor=INK, bbox_to_anchor=(0.5, -0.05),
    )  # fmt: skip


def plot(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(name in figures for name in SHAPES):
        plot_speed(figures, folder / "additive-speed.png")
    if "accuracy" in figures:
        plot_error(figures, folder / "additive-error.png")


# Command line

MEASURE: dict[str, Callable[[Options], Figures]] = {
    **{
        name: lambda options, shape=shape: measure_shape(shape, options)
        for name, shape in SHAPES.items()
    },
    "decoder": measure_decoder,
    "memory": measure_memory,
    "decode": measure_decode,
    "masks": measure_masks,
    "saturation": measure_saturation,
    "accuracy": measure_accuracy,
}
SHOW: dict[str, Callable[[Figures], None]] = {
    **{name: lambda figures, name=name: show_shape(name, figures) for name in SHAPES},
    "decoder": show_decoder,
    "memory": show_memory,
    "decode": show_decode,
    "masks": show_masks,
    "saturation": show_saturation,
    "accuracy": show_accuracy,
}


def machine() -> str:
    path, processor = Path("/proc/cpuinfo"), platform.processor()
    if path.exists():
        lines = path.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    best = ways_of_ours()[-1]
    return f"{processor}, {_cores()} cores, PyTorch {torch.__version__}, fused attention by {best}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--allocator", choices=["keeping", "default"], default="keeping")
    parser.add_argument("--json", type=Path, help="file of the figures")
    parser.add_argument("--plots", type=Path, help="folder of the plots")
    arguments = parser.parse_args()

    threads = [count for count in arguments.threads if count <= _cores()]
    if threads != arguments.threads:
        print(f"leaving out numbers of threads above the {_cores()} available cores")
    options = Options(threads or [1], arguments.repeats)
    figures: Figures = {}
    if arguments.json and arguments.json.exists():
        figures = json.loads(arguments.json.read_text(encoding="utf-8"))
    print(f"{machine()}; fastest of {options.repeats} runs in turns, float32")
    print(keep_memory() if arguments.allocator == "keeping" else "allocator: default settings")
    for part in PARTS:
        if part in arguments.only and part in MEASURE:
            figures[part] = MEASURE[part](options)
            SHOW[part](figures[part])
            if arguments.json:
                arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    show_claims(figures)
    if arguments.plots:
        plot(figures, arguments.plots)


if __name__ == "__main__":
    main()
