"""Measure the gain of a pointer-generator output (`--model.copy pointer_generator`) on words that
the training data lacks.

    pip install german-nouns
    python benchmarks/copying.py inflection NOUNS.csv          (20 minutes on one core)
    python benchmarks/copying.py normalisation DEU.txt         (15 minutes on one core)

`inflection` reads nouns.csv of german-nouns (CC BY-SA 4.0): the letters of a German noun, its case
and its number to the letters of the form. Test nouns do not occur in training, in any form.
`normalisation` reads Tatoeba's English sentences and adds a year or a page to each: the sentence to
the sentence with the number in words. The tokens are words and digits. A word that occurs once in
training is unknown.

Each model is trained with and without copying and with each seed. Numbers are the mean and the
standard deviation over the seeds: the share of outputs that are right, the share of unknown words
of the reference that the output has, and the CPU seconds of the training.
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
from dataclasses import dataclass
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
    "validate_every": 120,
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


TASKS: dict[str, tuple[Callable[[Path, int], tuple[Lines, Lines, Lines]], int, int, int]] = {
    "inflection": (inflections, 1000, 1, 30),
    "normalisation": (normalisations, 2000, 2, 15),
}
"""Reader, number of training pairs, least number of occurrences of a word, and epochs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("data", type=Path, help="nouns.csv or Tatoeba's deu.txt")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", type=int, help="number of training pairs")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    read, size, min_count, epochs = TASKS[arguments.task]
    train, dev, test = read(arguments.data, arguments.pairs or size)
    unknown = unknown_words(train, test)
    print(
        f"{len(train)} training pairs, {len(test)} test pairs, "
        f"{sum(map(len, unknown))} unknown words in {sum(map(bool, unknown))} of them\n"
    )
    print("| model | output | right, % | unknown words, % | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, lines in (("train", train), ("dev", dev), ("test", test)):
            text = "".join(f"{source}\t{target}\n" for source, target in lines)
            (folder / f"{part}.tsv").write_text(text, encoding="utf8")
        for model in arguments.models:
            recipe = folder / f"{model}.yaml"
            recipe.write_text(yaml.safe_dump(_recipe(model, folder, min_count, epochs)))
            for output, options in OUTPUTS.items():
                if arguments.task == "inflection" and options.search:
                    continue  # nearly all letters are known
                runs = [
                    _measured(
                        recipe, folder / f"{model}-{options.name}-{seed}", seed, options, unknown
                    )
                    for seed in range(1, arguments.seeds + 1)
                ]
                print(f"| {model} | {output} | {' | '.join(_cells(runs))} |", flush=True)


@dataclass(frozen=True)
class Options:
    """Options of an output for training and for search. `name` is that of its training."""

    name: str
    training: tuple[str, ...]
    search: tuple[str, ...] = ()


PLAIN = "--model.copy", "none"
OUTPUTS = {
    "vocabulary": Options("plain", PLAIN),
    "vocabulary, --unknown-replacement": Options("plain", PLAIN, ("--unknown-replacement",)),
    "pointer-generator": Options("copying", ("--model.copy", "pointer_generator")),
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


def _measured(
    recipe: Path, run: Path, seed: int, options: Options, unknown: Sequence[set[str]]
) -> tuple[float, float, float]:
    """Return the share of right outputs, the share of unknown words in the outputs, and the CPU
    seconds of the training, which is done once for each run."""
    seconds = run.with_suffix(".seconds")
    if not run.exists():
        command = ["train", str(recipe), "--output", str(run), "--training.seed", str(seed)]
        seconds.write_text(str(run_command(*command, *options.training).ru_utime))
    lines = (recipe.parent / "test.tsv").read_text(encoding="utf8").splitlines()
    sources, targets = zip(*(line.split("\t") for line in lines), strict=True)
    command = [sys.executable, "-m", "regard.cli.main", "translate", str(run), *options.search]
    result = subprocess.run(
        command, input="\n".join(sources) + "\n", capture_output=True, text=True, check=True
    )
    outputs = result.stdout.splitlines()
    num_right = sum(output == target for output, target in zip(outputs, targets, strict=True))
    num_known = sum(
        len(words & set(output.split())) for words, output in zip(unknown, outputs, strict=True)
    )
    share = 100 * num_known / max(1, sum(map(len, unknown)))
    return 100 * num_right / len(targets), share, float(seconds.read_text())


def _cells(runs: Sequence[tuple[float, float, float]]) -> Iterator[str]:
    for values in zip(*runs, strict=True):
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        yield f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
