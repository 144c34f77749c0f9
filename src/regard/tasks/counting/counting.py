"""The counting task: build, train, save, test, and return attention.

Four parts differ from a usual training loop. benchmarks/counting.py measures each by leaving it
out:

    uneven letter frequencies   letters have uneven probabilities, so that all counts occur in
                                training
    two learning rates          the rate of layer norm and output is ten times that of queries, keys
                                and values
    learning-rate decay         the rates decay linearly to zero over the last fifth of the steps
    lower betas                 Adam's betas are 0.95 and 0.95
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.optim.adam import adam

from regard.attention import Attention, ScaledDot
from regard.building.attention import build_normaliser
from regard.data.generated.counting import (
    EvenLetters,
    LetterSampler,
    UnevenLetters,
    VariableLength,
    count,
    fill_up,
    one_hot,
    to_text,
)
from regard.errors import UserError
from regard.models.contracts import HeadOutput
from regard.models.counting import LetterEncoder, NumberHead, QueryHead
from regard.models.heads import HeadModel
from regard.models.memory import first_and_last
from regard.shapes import Float, Int, Tensor
from regard.storage.files import MODEL, whole
from regard.tasks.counting.settings import BATCHES_AHEAD, CountingSettings
from regard.trace import AttentionMap, TokenSequence, Trace

HEAD_RATE = 10
BETAS = (0.95, 0.95)
SETTLING = 0.2
TESTED_AT_ONCE = 1000


@dataclass(frozen=True)
class Counter:
    """A model, its settings, and the number of its training steps."""

    model: HeadModel
    settings: CountingSettings
    step: int


@dataclass(frozen=True)
class CountedLetters:
    """Letters of one sequence as the model reads them (with the blanks of its padding), the counts
    that the model predicts, and the trace with their attention."""

    text: str
    counts: tuple[int, ...]
    trace: Trace


def build_counter(settings: CountingSettings, seed: int) -> HeadModel:
    """Build an untrained model."""
    num_symbols, size = settings.vocab_size + 1, settings.hidden
    num_linears = 2 if settings.separate_values else 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = LetterEncoder(*(nn.Linear(num_symbols, size) for _ in range(num_linears)))
        attention = Attention(ScaledDot(), build_normaliser(settings.normaliser))
        head: nn.Module
        if settings.answer == "number":
            head = NumberHead(settings.vocab_size, size, attention)
        else:
            head = QueryHead(settings.vocab_size, size, attention, settings.num_outputs)
    return HeadModel(encoder, head, first_and_last)


def training_letters(settings: CountingSettings) -> LetterSampler:
    """Return the sampler of training sequences."""
    letters = UnevenLetters(settings.vocab_size, settings.max_len)
    return VariableLength(letters) if settings.variable_length else letters


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1) for groups of parameters, each with its peak rate.

    It calls torch's fused kernel directly. For a model this small, `torch.optim.Adam` spends more
    time before the kernel than in it, and its first step imports the compiler, which takes seconds:
    the 2,000 steps took 6.4 and 8.0 s with this class and 11.8 s with `torch.optim.Adam`, for the
    same loss, on one busy core."""

    def __init__(
        self, groups: list[tuple[list[Tensor], float]], betas: tuple[float, float]
    ) -> None:
        self.groups = groups
        self.betas = betas
        self.parameters = [parameter for parameters, _ in groups for parameter in parameters]
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._steps = [torch.zeros(()) for _ in self.parameters]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], factor: float) -> None:
        """Update `parameters` by their gradients. `factor` multiplies the peak rates."""
        end = 0
        for parameters, rate in self.groups:
            start, end = end, end + len(parameters)
            adam(
                parameters,
                list(gradients[start:end]),
                self._means[start:end],
                self._squares[start:end],
                max_exp_avg_sqs=[],
                state_steps=self._steps[start:end],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=rate * factor,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )


def two_rates(model: nn.Module, lr: float) -> Adam:
    """Return an optimiser whose rate for layer norm and output is ten times that for attention.

    The output needs large weights, because the contexts of neighbouring counts differ by a tenth
    only, and their logits must differ clearly. The rate that suits attention is too small to reach
    such weights within the training."""
    first: list[Tensor] = []
    last: list[Tensor] = []
    for name, parameter in model.named_parameters():
        is_last = name.startswith(("head.norm.", "head.output."))
        (last if is_last else first).append(parameter)
    return Adam([(first, lr), (last, lr * HEAD_RATE)], BETAS)


def build_optimizer(model: nn.Module, settings: CountingSettings) -> Adam:
    """Return the optimiser: `two_rates` for classes, and one rate for numbers, which need no large
    weights."""
    if settings.answer == "class":
        return two_rates(model, settings.lr)
    return Adam([(list(model.parameters()), settings.lr)], BETAS)


def settle(progress: float) -> float:
    """Return the factor of the rates: 1, then falling linearly to 0 over the last fifth."""
    return min(1.0, (1 - progress) / SETTLING)


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Round denormal numbers to zero. A confident model computes such probabilities for wrong
    counts, and processors are slow with them."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def fit(
    model: nn.Module,
    sampler: LetterSampler,
    optimizer: Adam,
    settings: CountingSettings,
    generator: torch.Generator,
    schedule: Callable[[float], float] = settle,
) -> Iterator[Float[Tensor, ""]]:
    """Train and yield the loss of each step: the mean cross-entropy of a count, or the mean squared
    error of a number. `schedule` returns the factor of the rates at a progress from 0 to 1."""
    batches = _batches(sampler, settings, generator)
    with _denormals_flushed():
        for step, (letters, counts) in zip(range(settings.steps), batches, strict=False):
            predictions = model(letters).predictions
            if settings.answer == "number":
                loss = F.mse_loss(predictions, counts.to(predictions.dtype))
            else:
                loss = F.cross_entropy(predictions.flatten(0, 1), counts.flatten())
            gradients = torch.autograd.grad(loss, optimizer.parameters)
            optimizer.step(gradients, schedule(step / settings.steps))
            yield loss.detach()


def _batches(
    sampler: LetterSampler, settings: CountingSettings, generator: torch.Generator
) -> Iterator[tuple[Float[Tensor, "batch source symbol"], Int[Tensor, "batch letter"]]]:
    """Yield batches of one-hot letters with their counts. Several batches are drawn at once."""
    while True:
        letters = sampler(settings.batchsize * BATCHES_AHEAD, generator)
        inputs = one_hot(letters, settings.vocab_size)
        counts = count(letters, settings.vocab_size)
        yield from zip(
            inputs.split(settings.batchsize), counts.split(settings.batchsize), strict=True
        )


@torch.inference_mode()
def accuracy(
    model: nn.Module, settings: CountingSettings, length: int, num_sequences: int, seed: int
) -> float:
    """Return the share of random sequences of this length whose counts are all correct. Letters
    have even probabilities. A model of variable lengths reads padded sequences."""
    generator = torch.Generator().manual_seed(seed)
    sampler = EvenLetters(settings.vocab_size, length)
    num_correct = 0
    for start in range(0, num_sequences, TESTED_AT_ONCE):
        letters = sampler(min(TESTED_AT_ONCE, num_sequences - start), generator)
        output = model(one_hot(as_trained(letters, settings), settings.vocab_size))
        counts = predicted_counts(output, settings)
        is_correct = (counts == count(letters, settings.vocab_size)).all(dim=1)
        num_correct += int(is_correct.sum())
    return num_correct / num_sequences


def predicted_counts(output: HeadOutput, settings: CountingSettings) -> Int[Tensor, "batch letter"]:
    """Return the most probable classes, or the numbers rounded to counts."""
    if settings.answer == "class":
        return output.predictions.argmax(dim=-1)
    return output.predictions.round().clamp(min=0).long()


def as_trained(
    letters: Int[Tensor, "batch source"], settings: CountingSettings
) -> Int[Tensor, "batch filled"]:
    """Return letters with the padding of training, if these settings have it."""
    return fill_up(letters, settings.max_len) if settings.variable_length else letters


@torch.inference_mode()
def count_letters(counter: Counter, letters: Int[Tensor, "source"]) -> CountedLetters:
    """Count the letters of one sequence, with the attention of each count."""
    letters = as_trained(letters[None], counter.settings)
    output = counter.model(one_hot(letters, counter.settings.vocab_size), need_weights=True)
    text = to_text(letters[0].tolist())
    counts = tuple(predicted_counts(output, counter.settings)[0].tolist())
    names = to_text(range(1, len(counts) + 1))
    answers = tuple(f"{name}={number}" for name, number in zip(names, counts, strict=True))
    (block,) = output.attention
    if not block.weights.isfinite().all():
        raise UserError(
            f"the attention weights are not finite: train again with an lr below "
            f"{counter.settings.lr}"
        )
    trace = Trace(
        source=TokenSequence(text, tuple(text), tuple(range(len(text)))),
        target=TokenSequence(" ".join(answers), answers, tuple(range(len(answers)))),
        attention=(AttentionMap("cross", block.weights[0].numpy(), block.scores[0].numpy()),),
    )
    return CountedLetters(text, counts, trace)


def model_file(folder: Path) -> Path:
    """Return the path of the model in a folder."""
    return folder / MODEL


def check_writable(folder: Path) -> None:
    """Make the folder before the training begins. UserError if it cannot be made or written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"cannot write a model into {folder}: {error}") from error


def save(counter: Counter, folder: Path) -> Path:
    """Write the model and its settings to one file, completely or not at all, and return its path.
    UserError if the file cannot be written, or if the weights are not finite."""
    path = model_file(folder)
    if not all(parameter.isfinite().all() for parameter in counter.model.parameters()):
        raise UserError(
            f"the weights are not finite after {counter.step} steps, so they are not saved: lower "
            f"lr, which is {counter.settings.lr}"
        )
    metadata = {"counting": json.dumps(asdict(counter.settings)), "step": str(counter.step)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole(path) as unfinished:
            save_file(counter.model.state_dict(), unfinished, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot write the model to {path}: {error}") from error
    return path


def load(folder: Path) -> Counter:
    """Load the file that `save` wrote. UserError if it is missing or holds anything else."""
    path = model_file(folder)
    if not path.is_file():
        raise UserError(f"there is no model at {path}: train one with --train")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        settings = CountingSettings(**json.loads(metadata["counting"]))
        model = build_counter(settings, seed=0)
        model.load_state_dict(load_file(path))
        return Counter(model.eval(), settings, int(metadata["step"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} is not a model of the counting task: {why}") from error
