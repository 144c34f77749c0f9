"""Measure the scores of a recipe with several seeds.

    python benchmarks/seeds.py g2p DATA              (40 minutes on one core)
    python benchmarks/seeds.py trec DATA --seeds 5   (12 minutes)

`g2p` trains every language that DATA has a LANGUAGE_train.tsv, LANGUAGE_dev.tsv and
LANGUAGE_test.tsv of, and prints the share of words that are wrong, the word error rate of papers on
pronunciation. `trec` reads questions by attention, by the last state and by the mean of all states,
and prints the accuracy on TREC's own test.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from whole_runs import run_recipe, sounds

Measure = Callable[[list[str], Path], float]


def measures_of_sounds(data: Path) -> dict[str, Measure]:
    """For each language, from options and a run to the percentage of words that are wrong."""

    def measure_of(language: str) -> Measure:
        files, test = sounds(data, language)
        return lambda options, run: (
            100 - run_recipe("g2p", [*files, *options], test, run=run).scores["exact match"]
        )

    languages = sorted(path.name.removesuffix("_train.tsv") for path in data.glob("*_train.tsv"))
    return {language: measure_of(language) for language in languages}


def measures_of_questions(data: Path) -> dict[str, Measure]:
    """For each pool, from options and a run to the accuracy."""

    def measure_of(pool: str) -> Measure:
        asked = ["--data.path", str(data), "--model.head.kind", pool]
        return lambda options, run: run_recipe("trec", [*asked, *options], run=run).scores[
            "accuracy"
        ]

    return {pool: measure_of(pool) for pool in ("attention", "last", "mean")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=("g2p", "trec"))
    parser.add_argument("data", type=Path, help="the folder with its data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="some of the rows")
    arguments = parser.parse_args()
    measures = (measures_of_sounds if arguments.task == "g2p" else measures_of_questions)(
        arguments.data
    )
    seeds = range(1, arguments.seeds + 1)
    print("|", *(f"seed {seed}" for seed in seeds), "mean", "", sep=" | ")
    print("|---" * (len(seeds) + 2) + "|")
    means = []
    for row, measure in measures.items():
        if arguments.only and row not in arguments.only:
            continue
        scores = []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                options = ["--training.seed", str(seed)]
                if arguments.task == "trec":  # the dev questions are held out of the training file
                    options += ["--data.seed", str(seed)]
                scores.append(measure(options, Path(folder) / "run"))
        means.append(statistics.mean(scores))
        cells = [row, *(f"{value:.1f}" for value in scores), f"{means[-1]:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    if arguments.task == "g2p":
        print(f"mean of the languages: {statistics.mean(means):.2f}")


if __name__ == "__main__":
    main()
