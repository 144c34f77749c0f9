"""What every choice of query, key, value, score and wiring is worth on one task: letters to sounds.

    python benchmarks/variants.py DATA            (half an hour, one core)

DATA holds LANGUAGE_train.tsv, LANGUAGE_dev.tsv and LANGUAGE_test.tsv. Every row is the recipe `g2p`
with the options that stand beside it, trained by `regard train` for the same number of epochs with
one seed: differences of one or two points are chance. The score is the share of pronunciations of
the test that are wholly right, by a beam; the time that of the processor, training and dev scores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LUONG = "--model.wiring luong"
LOCAL = "--model.attention.window 3"
TRANSFORMER = (
    "--model.family transformer --model.size 128 --model.layers 2 --model.heads 4 "
    "--model.feed-forward 256 --model.dropout 0.2"
)
VARIANTS = {
    "the recipe: the state before asks, additive score": "",
    "no attention": "--model.wiring plain",
    "the new state asks": LUONG,
    "the same, context fed to the next step": f"{LUONG} --model.feeding context",
    "the same, attentional vector fed": f"{LUONG} --model.feeding attentional --model.output tanh",
    "score dot": "--model.attention.score dot",
    "score scaled dot": "--model.attention.score scaled_dot",
    "score general": "--model.attention.score general",
    "score concat": "--model.attention.score concat",
    "score shared additive": "--model.attention.score shared_additive",
    "score cosine": "--model.attention.score cosine --model.attention.temperature 0.1",
    "sparsemax": "--model.attention.normaliser sparsemax",
    "1.5-entmax": "--model.attention.normaliser entmax15",
    "local-m, 3 to each side": f"{LUONG} {LOCAL} --model.attention.scope local_m",
    "local-p, 3 to each side": f"{LUONG} {LOCAL} --model.attention.scope local_p",
    "score with coverage": "--model.attention.score coverage",
    "score with location": "--model.attention.score location",
    "query: the lower of two layers": "--model.layers 2 --model.query first_layer",
    "query: the input": "--model.query input",
    "query: the last two states": "--model.query last_two",
    "query: the same place of the source": "--model.query same_place",
    "query: learned": "--model.query learned",
    "keys: embeddings": "--model.keys embedding",
    "keys and values: all layers": "--model.keys all --model.values all",
    "keys and values: one neighbour to each side": "--model.neighbours 1",
    "keys with positions": "--model.key-positions True",
    "beside the source: 8 learned vectors": "--model.memory-vectors 8",
    "beside the source: 8 vectors of a file": "--model.external EXTERNAL",
    "beside the source: what was written": "--model.looks-at-written True",
    "Transformer": TRANSFORMER,
    "Transformer, window of 2": f"{TRANSFORMER} --model.window 2",
    "Transformer, additive heads": f"{TRANSFORMER} --model.attention.score additive",
}


def measure(options: list[str], arguments: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """The percentage that is right, and the seconds of the processor."""
    files = {
        part: str(arguments.data / f"{arguments.language}_{part}.tsv")
        for part in ("train", "dev", "test")
    }
    run = folder / "run"
    asked = ["--data.path", files["train"], "--data.dev-path", files["dev"], "--run", str(run)]
    asked += ["--training.epochs", str(arguments.epochs), "--training.seed", str(arguments.seed)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    regard("train", "g2p", *asked, *options)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    regard("evaluate", str(run), files["test"])
    (page,) = json.loads((run / "results.json").read_text(encoding="utf8")).values()
    scores = {score["name"]: score["value"] for score in page[-1]["scores"]}
    return scores["exact match"], seconds


def regard(*command: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "regard.cli.main", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"regard {' '.join(command)}: {done.stderr.strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the files of a language")
    parser.add_argument("--language", default="fre")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="rows with one of these words")
    arguments = parser.parse_args()
    print("| | options | right | time |")
    print("|---|---|---|---|")
    for title, line in VARIANTS.items():
        if arguments.only and not any(word in title for word in arguments.only):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.save(folder / "external.npy", np.random.default_rng(1).normal(size=(8, 64)))
            options = line.replace("EXTERNAL", str(folder / "external.npy")).split()
            right, seconds = measure(options, arguments, folder)
        shown = f"`{line}`" if line else ""
        print(f"| {title} | {shown} | {right:.1f} % | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
