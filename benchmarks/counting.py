"""Compare a plain training that counts letters with the training of Regard.

The plain training is written in PyTorch with nn.Linear, softmax, nn.LayerNorm, and Adam with the
default betas and one constant rate. All its letters have equal probability. Its batches are drawn
as tensors and not letter by letter in Python, so the measured time is that of training. The
training of Regard has the same model, batch size and number of steps, and uses
regard.tasks.counting.counting. Plain trainings and those of Regard alternate.

    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5
    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5 --ablation
    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5 --answers

The first command takes about five minutes. The second leaves out one change of Regard's training
at a time. The third trains answers and normalisers on ten letters, and tests them on shorter and
longer sequences.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean, median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.generated.counting import EvenLetters, VariableLength
from regard.tasks.counting import counting
from regard.tasks.counting.settings import CountingSettings

DEFAULT_BETAS = (0.9, 0.999)
"""Adam's betas in PyTorch."""
Predict = Callable[[Tensor], Tensor]
"""Function from sequences of letter numbers to the counts of each letter."""


@dataclass(frozen=True)
class Run:
    """Trained model as a function, and the seconds of its training."""

    predict: Predict
    seconds: float


class PlainCounter(nn.Module):
    """Model of docs/counting.md in plain PyTorch: one learned query for each letter."""

    def __init__(self, vocab_size: int, max_len: int, hidden: int) -> None:
        super().__init__()
        self.scale = math.sqrt(hidden)
        self.query = nn.Parameter(torch.zeros(vocab_size, hidden))
        self.embed = nn.Linear(vocab_size + 1, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, max_len + 1)

    def forward(self, letters: Tensor) -> Tensor:
        """Return the logits of all counts for one-hot letters."""
        keys = self.embed(letters)
        weights = torch.softmax(self.query @ keys.transpose(1, 2) / self.scale, dim=-1)
        return self.output(self.norm(self.query + weights @ keys))


def plain_batch(settings: CountingSettings) -> tuple[Tensor, Tensor]:
    """Draw one-hot letters of equal probability, and return them with their counts."""
    shape = settings.batchsize, settings.max_len
    letters = torch.randint(settings.vocab_size + 1, shape)
    if settings.variable_length:
        lengths = torch.randint(1, settings.max_len + 1, (settings.batchsize, 1))
        letters = letters * (torch.arange(settings.max_len) < lengths)
    one_hot = F.one_hot(letters, settings.vocab_size + 1).float()
    return one_hot, one_hot.sum(dim=1)[:, 1:].long()


def train_plain(settings: CountingSettings, seed: int) -> Run:
    """Train a `PlainCounter` by Adam with the default betas and a constant rate."""
    torch.manual_seed(seed)
    begun = time.perf_counter()
    model = PlainCounter(settings.vocab_size, settings.max_len, settings.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    for _ in range(settings.steps):
        letters, counts = plain_batch(settings)
        loss = F.cross_entropy(model(letters).flatten(0, 1), counts.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - begun

    def predict(letters: Tensor) -> Tensor:
        return model(F.one_hot(letters, settings.vocab_size + 1).float()).argmax(dim=-1)

    return Run(predict, seconds)


@dataclass(frozen=True)
class Parts:
    """Parts in which Regard's training differs from the plain training."""

    letters: Callable[[CountingSettings], counting.LetterSampler] = counting.training_letters
    optimizer: Callable[[nn.Module, float], counting.Adam] = counting.two_rates
    schedule: Callable[[float], float] = counting.settle


def train_regard(settings: CountingSettings, seed: int, parts: Parts | None = None) -> Run:
    """Train a model of Regard, with other parts if they are given."""
    parts = parts or Parts()
    begun = time.perf_counter()
    model = counting.build_counter(settings, seed)
    generator = torch.Generator().manual_seed(seed)
    if settings.answer == "number":
        optimizer = counting.build_optimizer(model, settings)
    else:
        optimizer = parts.optimizer(model, settings.lr)
    sampler = parts.letters(settings)
    for _ in counting.fit(model, sampler, optimizer, settings, generator, parts.schedule):
        pass
    seconds = time.perf_counter() - begun

    def predict(letters: Tensor) -> Tensor:
        output = model(F.one_hot(letters, settings.vocab_size + 1).float())
        return counting.predicted_counts(output, settings)

    return Run(predict, seconds)


@torch.no_grad()
def accuracy(predict: Predict, settings: CountingSettings, length: int, num: int) -> float:
    """Return the percentage of `num` random sequences whose counts are all correct. Letters have
    equal probability. Models of variable lengths get sequences that are padded with blanks."""
    generator = torch.Generator().manual_seed(length)
    letters = torch.randint(settings.vocab_size + 1, (num, length), generator=generator)
    counts = F.one_hot(letters, settings.vocab_size + 1).sum(dim=1)[:, 1:]
    if settings.variable_length:
        letters = F.pad(letters, (0, settings.max_len - length))
    return 100 * (predict(letters) == counts).all(dim=1).double().mean().item()


def train_alternately(settings: CountingSettings, seeds: range) -> tuple[list[Run], list[Run]]:
    """Train both models with each seed. The plain training is the first for even seeds and the
    second for odd seeds, so the order does not favour either time."""
    plain: list[Run] = []
    regard: list[Run] = []
    trainings = [(train_plain, plain), (train_regard, regard)]
    for seed in seeds:
        for train, runs in trainings if seed % 2 == 0 else reversed(trainings):
            runs.append(train(settings, seed))
        print(f"seed {seed}: plain {plain[-1].seconds:.2f} s, Regard {regard[-1].seconds:.2f} s")
    return plain, regard


def compare(settings: CountingSettings, lengths: list[int], seeds: range, num: int) -> None:
    """Print the accuracy of both trainings at each length, and their times."""
    plain, regard = train_alternately(settings, seeds)
    print(f"\n{'length':>8} {'plain: mean (worst)':>22} {'Regard: mean (worst)':>22}")
    for length in lengths:
        accuracies = [
            [accuracy(run.predict, settings, length, num) for run in runs]
            for runs in (plain, regard)
        ]
        cells = [f"{mean(values):.2f} % ({min(values):.2f} %)" for values in accuracies]
        print(f"{length:>8} {cells[0]:>22} {cells[1]:>22}", flush=True)
    for name, average in (("mean", mean), ("median", median)):
        cells = [f"{average(run.seconds for run in runs):.2f} s" for runs in (plain, regard)]
        print(f"{name:>8} {cells[0]:>22} {cells[1]:>22}")
    print(flush=True)


def even_letters(settings: CountingSettings) -> counting.LetterSampler:
    """Return a sampler of letters with equal probability."""
    letters = EvenLetters(settings.vocab_size, settings.max_len)
    return VariableLength(letters) if settings.variable_length else letters


def one_rate(model: nn.Module, lr: float) -> counting.Adam:
    """Return the optimiser with one rate for all parameters, and Regard's betas."""
    return counting.Adam([(list(model.parameters()), lr)], counting.BETAS)


def default_betas(model: nn.Module, lr: float) -> counting.Adam:
    """Return the optimiser with Regard's two rates, and Adam's default betas."""
    return counting.Adam(counting.two_rates(model, lr).groups, DEFAULT_BETAS)


def default_adam(model: nn.Module, lr: float) -> counting.Adam:
    """Return the optimiser with one rate for all parameters, and Adam's default betas."""
    return counting.Adam([(list(model.parameters()), lr)], DEFAULT_BETAS)


def constant(progress: float) -> float:
    """Return the factor of a constant learning rate."""
    del progress
    return 1.0


ABLATIONS = {
    "nothing": Parts(),
    "uneven letter frequencies": Parts(letters=even_letters),
    "two learning rates": Parts(optimizer=one_rate),
    "learning-rate decay": Parts(schedule=constant),
    "lower betas": Parts(optimizer=default_betas),
    "all four": Parts(even_letters, default_adam, constant),
}
"""Parts of Regard's training without each change. The keys are those of docs/counting.md."""


def ablate(settings: CountingSettings, seeds: range, num: int) -> None:
    """Print the accuracy without each change, at the length with the lowest accuracy: the mean over
    seeds, and the worst seed."""
    lengths = range(1 if settings.variable_length else settings.max_len, settings.max_len + 1)
    print(
        f"\n{'left out':>26} {'mean':>10} {'worst':>10}    (variable: {settings.variable_length})"
    )
    for name, parts in ABLATIONS.items():
        runs = [train_regard(settings, seed, parts) for seed in seeds]
        minima = [min(accuracy(r.predict, settings, n, num) for n in lengths) for r in runs]
        print(f"{name:>26} {mean(minima):>8.2f} % {min(minima):>8.2f} %", flush=True)


ANSWERS = (
    ("class", "softmax"),
    ("number", "softmax"),
    ("number", "scaled_softmax"),
    ("number", "sigmoid"),
)
"""Answers and normalisers that `--answers` compares."""


def compare_answers(settings: CountingSettings, seeds: range, num: int) -> None:
    """Print the accuracy of each answer and normaliser at each length: the mean over seeds, and the
    worst seed."""
    lengths = [5, 10, 20, 100]
    print(f"{'answer':>8} {'normaliser':>15}" + "".join(f"{length:>22}" for length in lengths))
    for answer, normaliser in ANSWERS:
        variant = replace(settings, answer=answer, normaliser=normaliser)
        runs = [train_regard(variant, seed) for seed in seeds]
        cells = []
        for length in lengths:
            percentages = [accuracy(run.predict, variant, length, num) for run in runs]
            cells.append(f"{mean(percentages):.2f} % ({min(percentages):.2f} %)")
        print(
            f"{answer:>8} {normaliser:>15}" + "".join(f"{cell:>22}" for cell in cells), flush=True
        )


def main() -> None:
    """Run the comparison that the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument(
        "--sequences", type=int, default=10_000, help="number of test sequences of each length"
    )
    parser.add_argument("--ablation", action="store_true", help="leave out one change at a time")
    parser.add_argument("--answers", action="store_true", help="compare answers and normalisers")
    options = parser.parse_args()
    fixed, seeds = CountingSettings(steps=options.steps), range(options.seeds)
    variable = replace(fixed, variable_length=True)
    separate = replace(variable, separate_values=True)

    warm_up = replace(fixed, steps=50)  # torch loads parts of itself at the first use
    train_plain(warm_up, 0)
    train_regard(warm_up, 0)
    if options.answers:
        compare_answers(fixed, range(1, options.seeds + 1), options.sequences)
        return
    if options.ablation:
        for settings in (fixed, variable):
            ablate(settings, seeds, options.sequences)
        return
    print("Percentage of sequences whose counts are all correct")
    print(f"Trained on {fixed.max_len} letters")
    compare(fixed, [5, 10, 20], seeds, options.sequences)
    print("Trained on 1 to 10 letters, padded with blanks")
    compare(variable, list(range(1, 11)), seeds, options.sequences)
    print("Trained on 1 to 10 letters, padded with blanks; Regard has separate values")
    compare(separate, list(range(1, 11)), seeds, options.sequences)


if __name__ == "__main__":
    main()
