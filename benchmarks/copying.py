"""Measure the gain of a pointer-generator output (`--model.copy pointer_generator`) on words that
the training data lacks.

    pip install german-nouns==1.2.5
    python benchmarks/copying.py inflection NOUNS.csv                    (6 minutes on one core)
    python benchmarks/copying.py inflection NOUNS.csv --pairs 200        (6 minutes on one core)
    python benchmarks/copying.py normalisation DEU.txt                   (20 minutes on one core)

`inflection` reads nouns.csv of german-nouns (CC BY-SA 4.0): the letters of a German noun, its case
and its number to the letters of the form. Test nouns do not occur in training, in any form.
`normalisation` reads Tatoeba's English sentences and adds a year or a page to each: the sentence to
the sentence with the number in words. The tokens are words and digits. A word that occurs at
most once in training is unknown.

Each model is trained with and without copying and with each seed. The number of updates does not
depend on the number of pairs. "--init-from" is a training with copying that starts from the one
without, for half as many epochs; its seconds are those of both. Numbers are the mean and the
standard deviation over the seeds: the share of outputs that are right, in all pairs and in those
with 0, 1 and 2 or more unknown words in the reference, the share of unknown words of the reference
that the output has, and the CPU seconds of the training.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from whole_runs import run_command

from regard.data.generated.numbers import english

CASES = ("nominativ", "genitiv", "dativ", "akkusativ")
NUMBERS = ("singular", "plural")
DEV, TEST = 300, 500
MODELS = {
    "recurrent": {
        "size": 96,
        "dropout": 0.2,
        "encoder": {"kind": "recurrent", "bidirectional": True},
        "decoder": {"kind": "recurrent", "wiring": "bahdanau", "output": "deep"},
    },
    "transformer": {
        "size": 96,
        "dropout": 0.1,
        "encoder": {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 192},
        "decoder": {"kind": "transformer", "layers": 2, "heads": 4, "feed_forward": 192},
    },
}
TRAINING = {
    "learning_rate": 0.002,
    "schedule": "linear",
    "warmup": 100,
    "metric": "exact_match",
    "validate_every": 240,
}
Lines = list[tuple[str, str]]


def inflections(path: Path, size: int) -> tuple[Lines, Lines, Lines]:
    """Return training, dev and test pairs: one form of each noun."""
    rows = []
    with path.open(encoding="utf8", newline="") as file:
        for row in csv.DictReader(file):
            lemma = row["lemma"]
            forms = [
                (case, number, row[f"{case} {number}"])
                for case in CASES
                for number in NUMBERS
                if re.fullmatch(r"[A-ZÄÖÜ][a-zäöüß]+", row[f"{case} {number}"])
            ]
            if re.fullmatch(r"[A-ZÄÖÜ][a-zäöüß]{3,13}", lemma) and len(forms) == 8:
                rows.append((lemma, forms))
    draw = random.Random(1)
    draw.shuffle(rows)
    pairs = []
    for lemma, forms in rows[: size + DEV + TEST]:
        case, number, form = draw.choice(forms)
        pairs.append((" ".join([*lemma, case, number]), " ".join(form)))
    return pairs[:size], pairs[size : size + DEV], pairs[size + DEV :]


def normalisations(path: Path, size: int) -> tuple[Lines, Lines, Lines]:
    """Return training, dev and test pairs: each sentence once, with a year or a page."""
    texts = {line.split("\t")[0] for line in path.read_text(encoding="utf8").splitlines()}
    draw = random.Random(1)
    lines = []
    for text in sorted(texts):
        words = " ".join(re.findall(r"[\w']+|[^\w\s]", text))
        if len(words.split()) <= 12 and not re.search(r"\d", words):
            number = draw.randint(1, 2999)
            form = draw.choice(("In {} , {}", "{1} ( page {0} )"))
            digits = " ".join(str(number))
            lines.append((form.format(digits, words), form.format(english(number), words)))
    draw.shuffle(lines)
    held_out = DEV + TEST
    return lines[held_out : held_out + size], lines[:DEV], lines[DEV:held_out]


def unknown_words(train: Lines, test: Lines) -> list[set[str]]:
    """Return the words of each test target that occur at most once in the training targets."""
    counts = Counter(word for _, target in train for word in target.split())
    return [{word for word in target.split() if counts[word] < 2} for _, target in test]


@dataclass(frozen=True)
class Task:
    """Reader of the data, number of training pairs, least number of occurrences of a word, epochs
    with this number of pairs, and whether test pairs have unknown words."""

    read: Callable[[Path, int], tuple[Lines, Lines, Lines]]
    size: int
    min_count: int
    epochs: int
    has_unknown: bool


TASKS = {
    "inflection": Task(inflections, 1000, 1, 20, has_unknown=False),
    "normalisation": Task(normalisations, 2000, 2, 24, has_unknown=True),
}
SLICES = (("0 unknown, %", 0, 0), ("1, %", 1, 1), ("2 or more, %", 2, 99))
"""Name, and least and largest number of unknown words in the reference."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("task", choices=TASKS, help="data to measure on")
    parser.add_argument("data", type=Path, help="nouns.csv or Tatoeba's deu.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", type=int, help="number of training pairs")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--outputs", nargs="+", choices=OUTPUTS, default=list(OUTPUTS))
    arguments = parser.parse_args()
    task = TASKS[arguments.task]
    size = arguments.pairs or task.size
    train, dev, test = task.read(arguments.data, size)
    unknown = unknown_words(train, test)
    print(f"{len(train)} training pairs, {len(test)} test pairs", end="")
    columns = ["model", "output", "right, %"]
    if task.has_unknown:
        numbers = [
            sum(least <= len(words) <= most for words in unknown) for _, least, most in SLICES
        ]
        print(
            f", of them {', '.join(map(str, numbers))} with 0, 1, 2 or more unknown words", end=""
        )
        columns += [name for name, _, _ in SLICES] + ["unknown words, %"]
    columns.append("training, s")
    print(f"\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, lines in (("train", train), ("dev", dev), ("test", test)):
            text = "".join(f"{source}\t{target}\n" for source, target in lines)
            (folder / f"{part}.tsv").write_text(text, encoding="utf8")
        for model in arguments.models:
            recipe = folder / f"{model}.yaml"
            epochs = task.epochs * task.size // size
            recipe.write_text(yaml.safe_dump(_recipe(model, folder, task.min_count, epochs)))
            for options in map(OUTPUTS.__getitem__, arguments.outputs):
                if (options.search or options.initial) and not task.has_unknown:
                    continue  # nearly all letters are known
                runs = [
                    _measured(recipe, options, seed, epochs // 2, unknown)
                    for seed in range(1, arguments.seeds + 1)
                ]
                runs = [run if task.has_unknown else (run[0], run[-1]) for run in runs]
                print(f"| {model} | {options.label} | {' | '.join(_cells(runs))} |", flush=True)


@dataclass(frozen=True)
class Options:
    """Options of an output for training and for search. `name` is that of its training, and
    `initial` has the options of the training that it starts from."""

    label: str
    name: str
    training: tuple[str, ...]
    search: tuple[str, ...] = ()
    initial: Options | None = None


PLAIN = Options("vocabulary", "plain", ("--model.copy", "none"))
COPYING = Options("pointer-generator", "copying", ("--model.copy", "pointer_generator"))
OUTPUTS = {
    "plain": PLAIN,
    "replacement": replace(
        PLAIN, label="vocabulary, --unknown-replacement", search=("--unknown-replacement",)
    ),
    "copying": COPYING,
    "continued": replace(
        COPYING, label="pointer-generator, --init-from", name="continued", initial=PLAIN
    ),
}


def _recipe(model: str, folder: Path, min_count: int, epochs: int) -> dict[str, object]:
    data = {
        "path": str(folder / "train.tsv"),
        "dev_path": str(folder / "dev.tsv"),
        "tokenizer": "spaces",
        "min_count": min_count,
        "batch_tokens": 1024,
    }
    return {"data": data, "model": MODELS[model], "training": {**TRAINING, "epochs": epochs}}


def _trained(recipe: Path, options: Options, seed: int, *more: str) -> tuple[Path, float]:
    """Return the folder and the CPU seconds of a training, which is done once."""
    run = recipe.parent / f"{recipe.stem}-{options.name}-{seed}"
    seconds = run.with_suffix(".seconds")
    if not run.exists():
        command = ["train", str(recipe), "--output", str(run), "--training.seed", str(seed)]
        seconds.write_text(str(run_command(*command, *options.training, *more).user_seconds))
    return run, float(seconds.read_text())


def _measured(
    recipe: Path, options: Options, seed: int, epochs: int, unknown: Sequence[set[str]]
) -> tuple[float, ...]:
    """Return the share of right outputs, in all pairs and in each slice, the share of unknown words
    in the outputs, and the CPU seconds of the training. `epochs` is the number of epochs of a
    training that starts from another one."""
    seconds, more = 0.0, tuple[str, ...]()
    if options.initial is not None:
        first, seconds = _trained(recipe, options.initial, seed)
        more = ("--init-from", str(first), "--training.epochs", str(epochs))
    run, last_seconds = _trained(recipe, options, seed, *more)
    lines = (recipe.parent / "test.tsv").read_text(encoding="utf8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    command = [sys.executable, "-m", "regard.cli.main", "translate", str(run), *options.search]
    result = subprocess.run(
        command, input="\n".join(sources) + "\n", capture_output=True, text=True, check=True
    )
    outputs = result.stdout.splitlines()
    right = [output == target for output, target in zip(outputs, targets, strict=True)]
    slices = [
        [each for each, words in zip(right, unknown, strict=True) if least <= len(words) <= most]
        for _, least, most in SLICES
    ]
    num_copied = sum(
        len(words & set(output.split())) for words, output in zip(unknown, outputs, strict=True)
    )
    percentages = [100 * sum(part) / max(1, len(part)) for part in (right, *slices)]
    percentages.append(100 * num_copied / max(1, sum(map(len, unknown))))
    return *percentages, seconds + last_seconds


def _cells(runs: Sequence[tuple[float, ...]]) -> Iterator[str]:
    for values in zip(*runs, strict=True):
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        yield f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
