"""Counting letters: the plain loop and ours, beside each other in one run.

The plain loop is the task's formulation in plain PyTorch (nn.Linear, softmax, nn.LayerNorm, Adam as
it comes, one constant rate), on even random letters. Its batches are drawn by whole tensors, not
letter by letter in Python, so that its time is that of training. Ours is the same model, batch and
number of steps, trained as regard.tasks.counting.counting does it. The two take turns.

    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5
    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5 --ablation
    OMP_NUM_THREADS=1 python benchmarks/counting.py --seeds 5 --answers

The first takes about five minutes, the second leaves out one part of ours at a time. The third
trains answers and normalisers on ten letters, and tests them on shorter and longer sequences.
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

Predict = Callable[[Tensor], Tensor]
"""Sequences of letter numbers to the counts of each letter."""


@dataclass(frozen=True)
class Run:
    predict: Predict
    seconds: float


class PlainCounter(nn.Module):
    def __init__(self, vocab_size: int, max_len: int, hidden: int) -> None:
        super().__init__()
        self.scale = math.sqrt(hidden)
        self.query = nn.Parameter(torch.zeros(vocab_size, hidden))
        self.embed = nn.Linear(vocab_size + 1, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, max_len + 1)

    def forward(self, letters: Tensor) -> Tensor:
        keys = self.embed(letters)
        weights = torch.softmax(self.query @ keys.transpose(1, 2) / self.scale, dim=-1)
        return self.output(self.norm(self.query + weights @ keys))


def plain_batch(settings: CountingSettings) -> tuple[Tensor, Tensor]:
    shape = settings.batchsize, settings.max_len
    letters = torch.randint(settings.vocab_size + 1, shape)
    if settings.variable_length:
        lengths = torch.randint(1, settings.max_len + 1, (settings.batchsize, 1))
        letters = letters * (torch.arange(settings.max_len) < lengths)
    one_hot = F.one_hot(letters, settings.vocab_size + 1).float()
    return one_hot, one_hot.sum(dim=1)[:, 1:].long()


def train_plain(settings: CountingSettings, seed: int) -> Run:
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
    """Parts in which our training differs from the plain one."""

    letters: Callable[[CountingSettings], counting.LetterSampler] = counting.training_letters
    optimizer: Callable[[nn.Module, float], counting.Adam] = counting.two_rates
    schedule: Callable[[float], float] = counting.settle


def train_ours(settings: CountingSettings, seed: int, parts: Parts | None = None) -> Run:
    parts = parts or Parts()
    begun = time.perf_counter()
    model = counting.build_counter(settings, seed)
    generator = torch.Generator().manual_seed(seed)
    if settings.answer == "number":
        optimizer = counting.build_optimizer(model, settings)
    else:
        optimizer = parts.optimizer(model, settings.lr)
    drawing = parts.letters(settings)
    for _ in counting.fit(model, drawing, optimizer, settings, generator, parts.schedule):
        pass
    seconds = time.perf_counter() - begun

    def predict(letters: Tensor) -> Tensor:
        output = model(F.one_hot(letters, settings.vocab_size + 1).float())
        return counting.predicted_counts(output, settings)

    return Run(predict, seconds)


@torch.no_grad()
def share_right(predict: Predict, settings: CountingSettings, length: int, num: int) -> float:
    """Percent of even random sequences whose counts are all right. With variable lengths they are
    filled up with blanks, for both."""
    generator = torch.Generator().manual_seed(length)
    letters = torch.randint(settings.vocab_size + 1, (num, length), generator=generator)
    wanted = F.one_hot(letters, settings.vocab_size + 1).sum(dim=1)[:, 1:]
    if settings.variable_length:
        letters = F.pad(letters, (0, settings.max_len - length))
    return 100 * (predict(letters) == wanted).all(dim=1).double().mean().item()


def take_turns(settings: CountingSettings, seeds: range) -> tuple[list[Run], list[Run]]:
    plain, ours = [], []
    for seed in seeds:
        turns = [lambda s: plain.append(train_plain(settings, s)),
                 lambda s: ours.append(train_ours(settings, s))]  # fmt: skip
        for turn in turns if seed % 2 == 0 else reversed(turns):
            turn(seed)
        print(f"seed {seed}: plain {plain[-1].seconds:.2f} s, ours {ours[-1].seconds:.2f} s")
    return plain, ours


def compare(settings: CountingSettings, lengths: list[int], seeds: range, num: int) -> None:
    plain, ours = take_turns(settings, seeds)
    print(f"\n{'length':>8} {'plain: mean (worst)':>22} {'ours: mean (worst)':>22}")
    for length in lengths:
        accuracies = [
            [share_right(run.predict, settings, length, num) for run in runs]
            for runs in (plain, ours)
        ]
        cells = [f"{mean(each):.2f} % ({min(each):.2f} %)" for each in accuracies]
        print(f"{length:>8} {cells[0]:>22} {cells[1]:>22}", flush=True)
    for name, middle in (("mean", mean), ("median", median)):
        cells = [f"{middle(run.seconds for run in runs):.2f} s" for runs in (plain, ours)]
        print(f"{name:>8} {cells[0]:>22} {cells[1]:>22}")
    print(flush=True)


def even_letters(settings: CountingSettings) -> counting.LetterSampler:
    letters = EvenLetters(settings.vocab_size, settings.max_len)
    return VariableLength(letters) if settings.variable_length else letters


def one_rate(model: nn.Module, lr: float) -> counting.Adam:
    return counting.Adam([(list(model.parameters()), lr)], counting.BETAS)


def common_betas(model: nn.Module, lr: float) -> counting.Adam:
    return counting.Adam(counting.two_rates(model, lr).groups, (0.9, 0.999))


def as_it_comes(model: nn.Module, lr: float) -> counting.Adam:
    return counting.Adam([(list(model.parameters()), lr)], (0.9, 0.999))


def constant(progress: float) -> float:
    del progress
    return 1.0


ABLATIONS = {
    "ours": Parts(),
    "even letters": Parts(letters=even_letters),
    "one rate": Parts(optimizer=one_rate),
    "betas 0.9, 0.999": Parts(optimizer=common_betas),
    "constant rates": Parts(schedule=constant),
    "all four": Parts(even_letters, as_it_comes, constant),
}


def ablate(settings: CountingSettings, seeds: range, num: int) -> None:
    """Mean over seeds of the least accurate length, and the worst seed's."""
    lengths = range(1 if settings.variable_length else settings.max_len, settings.max_len + 1)
    print(f"\n{'without':>18} {'mean':>10} {'worst':>10}    (variable: {settings.variable_length})")
    for name, parts in ABLATIONS.items():
        runs = [train_ours(settings, seed, parts) for seed in seeds]
        minima = [min(share_right(r.predict, settings, n, num) for n in lengths) for r in runs]
        print(f"{name:>18} {mean(minima):>8.2f} % {min(minima):>8.2f} %", flush=True)


ANSWERS = (
    ("class", "softmax"),
    ("number", "softmax"),
    ("number", "scaled_softmax"),
    ("number", "sigmoid"),
)
"""Answers and normalisers that `--answers` compares."""


def compare_answers(settings: CountingSettings, seeds: range, num: int) -> None:
    """Mean and worst share of right sequences, over seeds, for each length."""
    lengths = [5, 10, 20, 100]
    print(f"{'answer':>8} {'normaliser':>15}" + "".join(f"{length:>22}" for length in lengths))
    for answer, normaliser in ANSWERS:
        chosen = replace(settings, answer=answer, normaliser=normaliser)
        runs = [train_ours(chosen, seed) for seed in seeds]
        cells = []
        for length in lengths:
            percentages = [share_right(run.predict, chosen, length, num) for run in runs]
            cells.append(f"{mean(percentages):.2f} % ({min(percentages):.2f} %)")
        print(
            f"{answer:>8} {normaliser:>15}" + "".join(f"{cell:>22}" for cell in cells), flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--sequences", type=int, default=10_000, help="fresh ones of each length")
    parser.add_argument("--ablation", action="store_true", help="leave out one part at a time")
    parser.add_argument("--answers", action="store_true", help="compare answers and normalisers")
    options = parser.parse_args()
    fixed, seeds = CountingSettings(steps=options.steps), range(options.seeds)
    variable = replace(fixed, variable_length=True)
    separate = replace(variable, separate_values=True)

    warm_up = replace(fixed, steps=50)  # torch loads parts of itself at the first use
    train_plain(warm_up, 0)
    train_ours(warm_up, 0)
    if options.answers:
        compare_answers(fixed, range(1, options.seeds + 1), options.sequences)
        return
    if options.ablation:
        for settings in (fixed, variable):
            ablate(settings, seeds, options.sequences)
        return
    print(f"Trained on {fixed.max_len} letters: shares of sequences that are wholly right")
    compare(fixed, [5, 10, 20], seeds, options.sequences)
    print("Trained on 1 to 10 letters, filled up with blanks")
    compare(variable, list(range(1, 11)), seeds, options.sequences)
    print("The same; ours has separate values")
    compare(separate, list(range(1, 11)), seeds, options.sequences)


if __name__ == "__main__":
    main()
