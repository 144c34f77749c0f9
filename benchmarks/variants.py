"""Measure every choice of query, key, value, score function, decoder and encoder on a small task.

    python benchmarks/variants.py g2p DATA             (an hour and a half, one core)
    python benchmarks/variants.py trec DATA            (15 minutes)
    python benchmarks/variants.py shapes-caption       (six trainings of 10 to 30 minutes)

Every row is the recipe of the task with the options of the row, trained by `regard train` and
scored by `regard evaluate`. `g2p` needs a folder with LANGUAGE_train.tsv, LANGUAGE_dev.tsv and
LANGUAGE_test.tsv, `trec` one with TREC's two files. Each score is from one seed, so differences
of one or two points are not significant. Time is CPU time including the dev scores, and memory
is the peak of the training.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from whole_runs import WholeRun, run_recipe, sounds

LUONG = "--model.decoder.wiring luong"
ADDITIVE = (
    "--model.encoder.attention.score additive --model.encoder.attention.size 64 "
    "--model.decoder.attention.score additive --model.decoder.attention.size 64"
)
LOCAL = "--model.decoder.attention.window 3"
TRANSFORMER = (
    "--model.family transformer --model.size 128 --model.encoder.layers 2 --model.decoder.layers 2 "
    "--model.encoder.feed-forward 256 --model.decoder.feed-forward 256 --model.dropout 0.2"
)
READ_BY_TRANSFORMER = (
    "--model.encoder.kind transformer --model.encoder.layers 1 "
    "--model.encoder.size 128 --model.encoder.feed-forward 256 "
    "--training.learning-rate 0.001"
)
LETTERS = {
    "the recipe: Bahdanau's decoder, additive score": "",
    "no attention": "--model.decoder.wiring plain",
    "Luong's decoder": LUONG,
    "Luong's decoder, context as input of the next step": (
        f"{LUONG} --model.decoder.feeding context"
    ),
    "Luong's decoder, attentional vector as input of the next step": (
        f"{LUONG} --model.decoder.feeding attentional --model.decoder.output tanh"
    ),
    "score dot": "--model.decoder.attention.score dot",
    "score scaled dot": "--model.decoder.attention.score scaled_dot",
    "score general": "--model.decoder.attention.score general",
    "score concat": "--model.decoder.attention.score concat",
    "score shared additive": "--model.decoder.attention.score shared_additive",
    "score cosine": (
        "--model.decoder.attention.score cosine --model.decoder.attention.temperature 0.1"
    ),
    "sparsemax": "--model.decoder.attention.normaliser sparsemax",
    "1.5-entmax": "--model.decoder.attention.normaliser entmax15",
    "local-m, 3 positions to each side": (
        f"{LUONG} {LOCAL} --model.decoder.attention.scope local_m"
    ),
    "local-p, 3 positions to each side": (
        f"{LUONG} {LOCAL} --model.decoder.attention.scope local_p"
    ),
    "score coverage": "--model.decoder.attention.score coverage",
    "score location": "--model.decoder.attention.score location",
    "query: bottom layer of two": (
        "--model.encoder.layers 2 --model.decoder.layers 2 --model.decoder.query first_layer"
    ),
    "query: input embedding": "--model.decoder.query input",
    "query: last two states": "--model.decoder.query last_two",
    "query: encoder state at the same position": "--model.decoder.query same_position",
    "query: learned vector": "--model.decoder.query learned",
    "keys: embeddings": "--model.decoder.key-layers 0",
    "keys and values: embeddings and states": (
        "--model.decoder.key-layers 0 1 --model.decoder.value-layers 0 1"
    ),
    "keys and values: one neighbour on each side": "--model.decoder.context-window 1",
    "keys with positions": "--model.decoder.key-positions",
    "additional memory: 8 learned vectors": "--model.decoder.memory-vectors 8",
    "additional memory: 8 vectors from a file": "--model.decoder.extra-vectors EXTERNAL",
    "intra-decoder attention": "--model.decoder.intra-attention",
    "Transformer": TRANSFORMER,
    "Transformer, attention window of 2": (
        f"{TRANSFORMER} --model.encoder.window 2 --model.decoder.window 2"
    ),
    "Transformer, additive heads": f"{TRANSFORMER} {ADDITIVE}",
}
CONVOLUTIONS = (
    "--model.encoder.kind gated_convolution --model.encoder.layers 2 --model.encoder.size 128"
)
QUESTIONS = {
    "the recipe: LSTM, learned query": "",
    "LSTM, last state as query": "--model.head.query last",
    "LSTM, last state without attention": "--model.head.kind last",
    "LSTM, mean": "--model.head.kind mean",
    "GRU, learned query": "--model.encoder.cell gru",
    "GRU, last state as query": "--model.encoder.cell gru --model.head.query last",
    "Elman network, learned query": "--model.encoder.cell elman",
    "Elman network, last state without attention": (
        "--model.encoder.cell elman --model.head.kind last"
    ),
    "Transformer, learned query": READ_BY_TRANSFORMER,
    "Transformer, mean": f"{READ_BY_TRANSFORMER} --model.head.kind mean",
    "Transformer, attention window of 2, learned query": (
        f"{READ_BY_TRANSFORMER} --model.encoder.window 2"
    ),
    "gated convolutions, learned query": CONVOLUTIONS,
    "gated convolutions, mean": f"{CONVOLUTIONS} --model.head.kind mean",
    "bag of words, learned query": "--model.encoder.kind bag_of_words",
    "bag of words, mean": "--model.encoder.kind bag_of_words --model.head.kind mean",
}
SCENES = {
    "the recipe: soft attention, gate, doubly stochastic": "",
    "without gate": "--model.decoder.no-gate",
    "output layer of the paper": "--model.decoder.output summed",
    "without doubly stochastic attention": "--model.decoder.attention.doubly-stochastic 0",
    "hard attention": (
        "--model.decoder.attention.sampling hard --model.decoder.attention.doubly-stochastic 0"
    ),
    "Transformer": "--model.decoder.kind transformer --training.learning-rate 0.001",
}


@dataclass(frozen=True)
class Task:
    """Variants of a recipe, and the scores to print."""

    variants: dict[str, str]
    scores: tuple[str, ...]


TASKS = {
    "g2p": Task(LETTERS, ("exact match",)),
    "trec": Task(QUESTIONS, ("accuracy", "macro F1")),
    "shapes-caption": Task(SCENES, ("true", "attention")),
}


def measure(options: list[str], arguments: argparse.Namespace, run: Path) -> WholeRun:
    """Train the recipe with these options and score it."""
    flags, test = [*options, "--training.seed", str(arguments.seed)], None
    if arguments.task == "g2p":
        files, test = sounds(arguments.data, arguments.language)
        flags += files
    elif arguments.data is not None:
        flags += ["--data.path", str(arguments.data)]
    if arguments.epochs is not None:
        flags += ["--training.epochs", str(arguments.epochs)]
    return run_recipe(arguments.task, flags, test, run=run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with its data")
    parser.add_argument("--language", default="fre")
    parser.add_argument("--epochs", type=int, help="other than the recipe's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="begin with this row")
    parser.add_argument("--last", type=int, help="end before this row")
    arguments = parser.parse_args()
    task = TASKS[arguments.task]
    print("|", "options", *task.scores, "time", "memory", "", sep=" | ")
    print("|---" * (len(task.scores) + 4) + "|")
    for title, line in list(task.variants.items())[arguments.first : arguments.last]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.save(folder / "external.npy", np.random.default_rng(1).normal(size=(8, 64)))
            options = line.replace("EXTERNAL", str(folder / "external.npy")).split()
            result = measure(options, arguments, folder / "run")
        scores = [f"{result.scores[name]:.1f}" for name in task.scores]
        used = f"{result.seconds:.0f} s", f"{result.megabytes:,.0f} MB"
        cells = title, f"`{line}`" if line else "", *scores, *used
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
