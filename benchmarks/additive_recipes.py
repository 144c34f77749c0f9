"""Compare the training speed of recipes with additive attention: plain formula, tiles and kernel.

    python benchmarks/additive_recipes.py DATA

DATA contains tatoeba/deu.txt and multi30k/{train,val}.{en,de}.gz.
"""

import argparse
import json
import tempfile
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from additive import PlainScore
from torch import nn

from regard import recipes
from regard.attention.attend import Attention
from regard.building.translators import build_translation
from regard.compiled.attention.fused_additive import backends, tiled
from regard.pipeline import train as training
from regard.tasks.translation import training as translation

WAYS = ("plain", "tiled", "kernel")


def build_with_plain_scores(*arguments: Any) -> nn.Module:
    model = build_translation(*arguments)
    for module in model.modules():
        if isinstance(module, Attention):
            module.score = PlainScore(module.score)
    return model


def computed_by(way: str) -> AbstractContextManager[Any]:
    match way:
        case "plain":
            return patch.object(translation, "build_translation", build_with_plain_scores)
        case "tiled":
            return patch.object(backends, "native", tiled)
        case _:
            return nullcontext()


def tokens_per_second(name: str, data: dict[str, Any], options: argparse.Namespace) -> float:
    """Return the speed of the fastest `options.updates` updates of one epoch, without the first."""
    recipe = recipes.load(recipes.find(name))
    recipe = replace(
        recipe,
        data=replace(recipe.data, **data),
        training=replace(
            recipe.training, epochs=1, log_every=options.updates, precision=options.precision
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        training.train(recipe, Path(folder) / "run")
        lines = (Path(folder) / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    speeds = [line["tokens_per_second"] for line in entries if line["kind"] == "train"]
    return max(speeds[1:] or speeds)


def data_of(name: str, folder: Path) -> dict[str, Any]:
    if name.startswith("tatoeba"):
        return {"path": folder / "tatoeba" / "deu.txt", "dev_size": 50, "test_size": 0}
    captions = folder / "multi30k"
    return {
        "path": captions / "train.en.gz",
        "target_path": captions / "train.de.gz",
        "limit": 12_000,
        "dev_size": 50,
        "test_size": 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--updates", type=int, default=15, help="number of updates of one measurement"
    )
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, {options.precision}")
    print(f"{'target tokens per second':24}" + "".join(f"{way:>10}" for way in WAYS))
    for name in ("tatoeba-luong", "tatoeba-bahdanau", "multi30k-bahdanau"):
        speeds = []
        for way in WAYS:
            with computed_by(way):
                speeds.append(tokens_per_second(name, data_of(name, options.data), options))
        ratios = [f"{speed / speeds[0]:.2f}x" for speed in speeds]
        print(f"{name:24}" + "".join(f"{speed:10,.0f}" for speed in speeds))
        print(f"{'':24}" + "".join(f"{ratio:>10}" for ratio in ratios))


if __name__ == "__main__":
    main()
