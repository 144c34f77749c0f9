"""Compare the recipe `labels` with TF-IDF and logistic regression on one file of texts with labels.

    python benchmarks/labels.py TREC.train.all TREC.test.all            (6 minutes on one core)

Both files are read by `regard.data.labels.readers`, so that all models have the same examples. The
baseline is scikit-learn's, with a small grid of settings: words, pairs of words, signs such as
question marks, and the strength of regularisation. The recipe is trained by `regard train labels
FILE`, as a user would, with several seeds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from whole_runs import run_recipe

from regard.data.labels.readers import read_labelled

FEATURES = {
    "words": {},
    "words and pairs of words": {"ngram_range": (1, 2)},
    "words, signs and pairs of them": {
        "ngram_range": (1, 2),
        "sublinear_tf": True,
        "token_pattern": r"\S+",
    },
}
STRENGTHS = (1, 10, 100)
"""Values of scikit-learn's C: smaller values regularise more."""


def print_baseline(train: Path, test: Path) -> None:
    """Print the accuracy of each setting of the baseline, on held-out fifths of the training file
    and on the test file, and its CPU seconds."""
    read = [read_labelled(path).pairs for path in (train, test)]
    (texts, labels), (test_texts, test_labels) = [
        ([pair.source for pair in pairs], [pair.target for pair in pairs]) for pairs in read
    ]
    print("| TF-IDF and logistic regression | C | folds | test | CPU |\n|---|---|---|---|---|")
    for name, options in FEATURES.items():
        for strength in STRENGTHS:
            model = make_pipeline(
                TfidfVectorizer(**options), LogisticRegression(C=strength, max_iter=2000)
            )
            folds = 100 * statistics.mean(cross_val_score(model, texts, labels))
            start = time.process_time()
            accuracy = 100 * model.fit(texts, labels).score(test_texts, test_labels)
            cells = f"{folds:.1f} | {accuracy:.1f} | {time.process_time() - start:.1f} s"
            print(f"| {name} | {strength} | {cells} |", flush=True)


def print_recipe(train: Path, test: Path, seeds: Sequence[int], options: Sequence[str]) -> None:
    """Print the test accuracy of the recipe with each seed, and its CPU and wall-clock seconds."""
    print(f"\n| regard train labels {train.name} | accuracy | CPU | wall |\n|---|---|---|---|")
    scores = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = run_recipe(
                "labels",
                [
                    "--data.path",
                    str(train),
                    "--data.test-size",
                    "0",
                    "--training.seed",
                    str(seed),
                    *options,
                ],
                test,
                run=Path(folder) / "run",
            )
        wall = time.perf_counter() - start
        scores.append(result.scores["accuracy"])
        cells = f"{scores[-1]:.1f} | {result.seconds:.0f} s | {wall:.0f} s"
        print(f"| seed {seed} | {cells} |", flush=True)
    deviation = statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"mean {statistics.mean(scores):.1f} ± {deviation:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="training file: a table, or label-first lines")
    parser.add_argument("test", type=Path, help="test file of the same format")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("options", nargs="*", help="further options of `regard train`, after --")
    arguments = parser.parse_args()
    print_baseline(arguments.train, arguments.test)
    print_recipe(arguments.train, arguments.test, range(1, arguments.seeds + 1), arguments.options)


if __name__ == "__main__":
    main()
