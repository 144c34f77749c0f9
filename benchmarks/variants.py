"""What every choice of query, key, value, score, wiring and encoder is worth, each on a small task.

    python benchmarks/variants.py g2p DATA             (an hour and a half, one core)
    python benchmarks/variants.py trec DATA            (15 minutes)
    python benchmarks/variants.py shapes-caption       (half an hour)

Every row is the recipe of the task with the options that stand beside it, trained by `regard train`
and scored by `regard evaluate`. `g2p` wants a folder with LANGUAGE_train.tsv, LANGUAGE_dev.tsv and
LANGUAGE_test.tsv, `trec` one with TREC's two files. One seed each: differences of a point or two
are chance. Time is the processor's, with the dev scores; memory the most that training held.
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
    "the recipe: the state before asks, additive score": "",
    "no attention": "--model.decoder.wiring plain",
    "the new state asks": LUONG,
    "the same, context fed to the next step": f"{LUONG} --model.decoder.feeding context",
    "the same, attentional vector fed": (
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
    "local-m, 3 to each side": f"{LUONG} {LOCAL} --model.decoder.attention.scope local_m",
    "local-p, 3 to each side": f"{LUONG} {LOCAL} --model.decoder.attention.scope local_p",
    "score with coverage": "--model.decoder.attention.score coverage",
    "score with location": "--model.decoder.attention.score location",
    "query: the lower of two layers": (
        "--model.encoder.layers 2 --model.decoder.layers 2 --model.decoder.query first_layer"
    ),
    "query: the input": "--model.decoder.query input",
    "query: the last two states": "--model.decoder.query last_two",
    "query: the same place of the source": "--model.decoder.query same_position",
    "query: learned": "--model.decoder.query learned",
    "keys: embeddings": "--model.decoder.key-layers 0",
    "keys and values: embeddings and states": (
        "--model.decoder.key-layers 0 1 --model.decoder.value-layers 0 1"
    ),
    "keys and values: one neighbour to each side": "--model.decoder.context-window 1",
    "keys with positions": "--model.decoder.key-positions",
    "beside the source: 8 learned vectors": "--model.decoder.memory-vectors 8",
    "beside the source: 8 vectors of a file": "--model.decoder.extra-vectors EXTERNAL",
    "beside the source: what was written": "--model.decoder.intra-attention",
    "Transformer": TRANSFORMER,
    "Transformer, window of 2": f"{TRANSFORMER} --model.encoder.window 2 --model.decoder.window 2",
    "Transformer, additive heads": f"{TRANSFORMER} {ADDITIVE}",
}
QUESTIONS = {
    "the recipe: LSTM, a learned query": "",
    "LSTM, the last state asks": "--model.head.query last",
    "LSTM, the last state alone": "--model.head.kind last",
    "LSTM, mean": "--model.head.kind mean",
    "GRU, a learned query": "--model.encoder.cell gru",
    "GRU, the last state asks": "--model.encoder.cell gru --model.head.query last",
    "Elman network, a learned query": "--model.encoder.cell elman",
    "Elman network, the last state alone": "--model.encoder.cell elman --model.head.kind last",
    "Transformer, a learned query": READ_BY_TRANSFORMER,
    "Transformer, mean": f"{READ_BY_TRANSFORMER} --model.head.kind mean",
    "Transformer, window of 2, a learned query": f"{READ_BY_TRANSFORMER} --model.encoder.window 2",
    "bag of words, a learned query": "--model.encoder.kind bag_of_words",
    "bag of words, mean": "--model.encoder.kind bag_of_words --model.head.kind mean",
}
SCENES = {
    "the recipe: soft, gate, doubly stochastic": "",
    "no gate": "--model.decoder.no-gate",
    "the paper's output layer": "--model.decoder.output summed",
    "not doubly stochastic": "--model.decoder.attention.doubly-stochastic 0",
    "hard": "--model.decoder.attention.sampling hard",
    "Transformer": "--model.decoder transformer --training.learning-rate 0.001",
}


@dataclass(frozen=True)
class Task:
    """The rows of a recipe, and which of the scores to print."""

    variants: dict[str, str]
    scores: tuple[str, ...]


TASKS = {
    "g2p": Task(LETTERS, ("exact match",)),
    "trec": Task(QUESTIONS, ("accuracy", "macro F1")),
    "shapes-caption": Task(SCENES, ("true", "attention")),
}


def measure(options: list[str], arguments: argparse.Namespace, run: Path) -> WholeRun:
    """Train the recipe with these options and score it."""
    asked, test = [*options, "--training.seed", str(arguments.seed)], None
    if arguments.task == "g2p":
        files, test = sounds(arguments.data, arguments.language)
        asked += files
    elif arguments.data is not None:
        asked += ["--data.path", str(arguments.data)]
    if arguments.epochs is not None:
        asked += ["--training.epochs", str(arguments.epochs)]
    return run_recipe(arguments.task, asked, test, run=run)


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
            found = measure(options, arguments, folder / "run")
        scores = [f"{found.scores[name]:.1f}" for name in task.scores]
        used = f"{found.seconds:.0f} s", f"{found.megabytes:,.0f} MB"
        cells = title, f"`{line}`" if line else "", *scores, *used
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
