"""The counting task from settings to numbers: build, train, keep, test, look.

Three things are not as plain as a training loop usually is. Each is measured by leaving it out, in
benchmarks/counting.py:

    data       sequences whose letters have uneven shares, so that every count is learned from
    rates      layer norm and output learn at ten times the rate of queries, keys and values
    settling   the rate falls to zero over the last fifth of the steps, with Adam's betas at 0.95
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from regard.attention import Attention, ScaledDot
from regard.data.generated.counting import (
    AnyLength,
    Drawing,
    EvenLetters,
    UnevenLetters,
    count,
    fill_up,
    one_hot,
    to_text,
)
from regard.errors import UserError
from regard.models.readout import LetterEncoder, QueryReadout, ReadoutModel, first_and_last
from regard.pipeline.counting_settings import CountingSettings
from regard.shapes import Float, Int, Tensor
from regard.trace import AttentionMap, Sequence, Trace

READOUT_RATE = 10
SETTLING = 0.2
BATCHES_AHEAD = 20
TESTED_AT_ONCE = 1000


@dataclass(frozen=True)
class Counter:
    """A model, what it was made with, and after how many steps."""

    model: ReadoutModel
    settings: CountingSettings
    step: int


def build_counter(settings: CountingSettings) -> ReadoutModel:
    """A model that was not trained. The global seed draws its weights."""
    num_symbols, size = settings.vocab_size + 1, settings.hidden
    num_linears = 2 if settings.separate_values else 1
    encoder = LetterEncoder(*(nn.Linear(num_symbols, size) for _ in range(num_linears)))
    readout = QueryReadout(
        settings.vocab_size, size, Attention(ScaledDot()), num_classes=settings.max_len + 1
    )
    return ReadoutModel(encoder, readout, first_and_last)


def training_letters(settings: CountingSettings) -> Drawing:
    """What the model learns from."""
    letters = UnevenLetters(settings.vocab_size, settings.max_len)
    return AnyLength(letters) if settings.variable_length else letters


def two_rates(model: ReadoutModel, lr: float) -> torch.optim.Adam:
    """Adam with the readout's last layers at ten times the rate of what comes before them.

    To tell a count from the next, their logits must part within a tenth of a context's way: the
    output's weights have to become large, which at the rate that suits attention takes longer
    than there are steps."""
    last = [*model.readout.norm.parameters(), *model.readout.output.parameters()]
    first = [*model.encoder.parameters(), model.readout.queries]
    groups = [{"params": first, "lr": lr}, {"params": last, "lr": lr * READOUT_RATE}]
    return torch.optim.Adam(groups, betas=(0.95, 0.95), fused=True)


def settle(progress: float) -> float:
    """What rates are multiplied by: 1, and over the last fifth down to 0 in a line."""
    return min(1.0, (1 - progress) / SETTLING)


def fit(
    model: ReadoutModel,
    drawing: Drawing,
    optimizer: torch.optim.Optimizer,
    settings: CountingSettings,
    generator: torch.Generator,
) -> Iterator[Float[Tensor, ""]]:
    """Train, giving each step's loss: the mean cross-entropy of a count."""
    peaks = [group["lr"] for group in optimizer.param_groups]
    batches = _batches(drawing, settings, generator)
    for step, (letters, counts) in zip(range(settings.steps), batches, strict=False):
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * settle(step / settings.steps)
        logits = model(letters).values
        loss = F.cross_entropy(logits.flatten(0, 1), counts.flatten())
        model.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def _batches(
    drawing: Drawing, settings: CountingSettings, generator: torch.Generator
) -> Iterator[tuple[Float[Tensor, "batch source symbol"], Int[Tensor, "batch letter"]]]:
    """One-hot letters with the classes that they should get, several batches drawn at once."""
    while True:
        drawn = drawing(settings.batchsize * BATCHES_AHEAD, generator)
        counts = count(drawn, settings.vocab_size)
        letters = one_hot(drawn, settings.vocab_size)
        yield from zip(
            letters.split(settings.batchsize), counts.split(settings.batchsize), strict=True
        )


@torch.inference_mode()
def accuracy(
    model: nn.Module, settings: CountingSettings, length: int, num_sequences: int, seed: int
) -> float:
    """The share of even random sequences of this length whose counts are all right. A model of
    variable lengths sees them filled up with blanks."""
    generator = torch.Generator().manual_seed(seed)
    drawing = EvenLetters(settings.vocab_size, length)
    right = 0
    for start in range(0, num_sequences, TESTED_AT_ONCE):
        letters = drawing(min(TESTED_AT_ONCE, num_sequences - start), generator)
        predicted = predict(model, settings, letters)
        right += int((predicted == count(letters, settings.vocab_size)).all(dim=1).sum())
    return right / num_sequences


def predict(
    model: nn.Module, settings: CountingSettings, letters: Int[Tensor, "batch source"]
) -> Int[Tensor, "batch letter"]:
    """The most probable count of every letter."""
    return model(one_hot(_as_trained(settings, letters), settings.vocab_size)).values.argmax(-1)


@torch.inference_mode()
def look(counter: Counter, letters: Int[Tensor, "source"]) -> Trace:
    """Count one sequence and keep what every output looked at. The target's pieces are counts."""
    settings = counter.settings
    letters = _as_trained(settings, letters[None])
    output = counter.model(one_hot(letters, settings.vocab_size), need_weights=True)
    (block,) = output.attention
    counts = output.values[0].argmax(-1).tolist()
    text = to_text(letters[0].tolist())
    pieces = tuple(str(number) for number in counts)
    return Trace(
        Sequence(text, tuple(text), tuple(range(len(text)))),
        Sequence(" ".join(pieces), pieces, tuple(range(len(pieces)))),
        (AttentionMap("cross", block.weights[0].numpy(), block.scores[0].numpy()),),
    )


def _as_trained(
    settings: CountingSettings, letters: Int[Tensor, "batch source"]
) -> Int[Tensor, "batch filled"]:
    return fill_up(letters, settings.max_len) if settings.variable_length else letters


def model_file(folder: Path) -> Path:
    """Where a folder keeps its model."""
    return folder / "model.safetensors"


def save(counter: Counter, folder: Path) -> Path:
    """Write the model and its settings to one file, whole or not at all; where that is. UserError
    where nothing can be written."""
    path = model_file(folder)
    unfinished = path.with_name(path.name + ".unfinished")
    about = {"counting": json.dumps(asdict(counter.settings)), "step": str(counter.step)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(counter.model.state_dict(), unfinished, metadata=about)
        os.replace(unfinished, path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot write the model to {path}: {error}") from error
    return path


def load(folder: Path) -> Counter:
    """Read what `save` wrote; UserError where there is none, or something else."""
    path = model_file(folder)
    if not path.is_file():
        raise UserError(f"there is no model at {path}: train one with --train")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
        settings = CountingSettings(**json.loads(about["counting"]))
        model = build_counter(settings)
        model.load_state_dict(load_file(path))
        return Counter(model.eval(), settings, int(about["step"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} is not a model of the counting task: {why}") from error
