"""Systems of table2.py: their recipes, the phases that spend the budget, and their results."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from regard.cli.training import train
from regard.pipeline.cost import cost_of
from regard.tasks.training.cost import Cost

BUDGET = 8e13
"""FLOPs of a training."""
SEEDS = (1, 2, 3)
WARMUP = 0.1
"""Share of the updates over which the learning rate rises."""
NUM_VALIDATIONS = 5
CHARACTERS = "128"
"""Largest size of ByteNet's vocabularies. Multi30k has fewer characters."""
REWARD_SHARE, REWARD_TOKENS, NUM_SAMPLES = 0.2, 512, 5
"""Share of the budget for rewards, tokens of a batch and samples of a sentence."""

COMMON = {
    "--data.vocabulary-size": "5000",
    "--data.batch-tokens": "2048",
    "--training.schedule": "linear",
    "--training.average": "3",
}
REWARDS = {
    "--training.objective": "expected_reward",
    "--training.samples": str(NUM_SAMPLES),
    "--training.learning-rate": "0.0002",
    "--data.batch-tokens": str(REWARD_TOKENS),
    "--model.dropout": "0",
}
TINY = {
    "--data.vocabulary-size": "200",
    "--data.batch-tokens": "512",
    "--model.size": "16",
    "--search.max-length": "10",
}
"""Options of the tests."""


@dataclass(frozen=True)
class System:
    """Translation system: its recipe and the changes to it."""

    title: str
    recipe: str
    options: dict[str, str]
    layers: str
    path: str
    """Formula of the path between two of n source positions."""
    published: str
    """BLEU of one model and of an ensemble on the test of WMT 2014, English to German and English
    to French (Vaswani et al. 2017, table 2; GNMT without rewards: Wu et al. 2016, table 6)."""
    has_rewards: bool = False


GNMT = {"--model.size": "160", "--training.learning-rate": "0.002", "--data.bpe-dropout": "0"}
SYSTEMS = {
    "bytenet": System(
        "ByteNet",
        "multi30k-bytenet",
        {
            "--data.vocabulary-size": CHARACTERS,
            "--data.batch-tokens": "4096",
            "--training.learning-rate": "0.001",
        },
        "10 + 10 dilated convolutions of width 3",
        "log₂ n",
        "23.75, –; –",
    ),
    "deep-att": System(
        "Deep-Att",
        "multi30k-deep-att",
        {"--model.size": "144"},
        "2 x 5 + 4 LSTM",
        "n - 1",
        "–, 39.2; –, 40.4",
    ),
    "gnmt": System("GNMT", "multi30k-gnmt", GNMT, "4 + 4 LSTM", "n - 1", "24.67, 38.95; –"),
    "gnmt-rewards": System(
        "GNMT + rewards",
        "multi30k-gnmt",
        GNMT,
        "4 + 4 LSTM",
        "n - 1",
        "24.6, 39.92; 26.30, 41.16",
        has_rewards=True,
    ),
    "convs2s": System(
        "ConvS2S",
        "multi30k-convs2s",
        {"--model.size": "208"},
        "4 + 4 gated convolutions of width 3",
        "n - 1",
        "25.16, 40.46; 26.36, 41.29",
    ),
    "experts": System(
        "mixture of experts",
        "multi30k-transformer-experts",
        {},
        "4 + 4 Transformer, 2 of 8 experts",
        "1",
        "26.03, 40.56; –",
    ),
    "transformer": System(
        "Transformer",
        "multi30k-transformer",
        {
            "--model.size": "192",
            "--model.encoder.feed-forward": "384",
            "--model.decoder.feed-forward": "384",
        },
        "4 + 4 Transformer",
        "1",
        "27.3, 38.1; –",
    ),
}
CONTROLS = {
    "transformer-128": System(
        "Transformer of size 128",
        "multi30k-transformer",
        {},
        "4 + 4 Transformer",
        "1",
        "–",
    ),
}
"""Systems that are not in the table, but explain a row. The Transformer of size 128 is the dense
model of the mixture of experts, with as many updates."""
BY_NAME = SYSTEMS | CONTROLS


@dataclass(frozen=True)
class Settings:
    """Data, output and budget of all trainings."""

    data: Path
    output: Path
    budget: float
    is_tiny: bool = False

    def folder(self, system: str, seed: int | str) -> Path:
        """Return the folder of a training, or of the ensemble of all seeds."""
        return self.output / f"{system}-{seed}"

    def test(self) -> list[str]:
        """Return the arguments of an evaluation on the test pairs."""
        source, target = (str(self.data / f"test_2016_flickr.{side}.gz") for side in ("en", "de"))
        return [source, "--target-path", target]


ENSEMBLE = "ensemble"
"""Seed of the rows of ensembles."""


@dataclass(frozen=True)
class Result:
    """Row of results.tsv. Resources are those of the training with its validations. An ensemble has
    the sum of its members' FLOPs and times, and their largest memory."""

    system: str
    seed: int | str
    bleu: float
    parameters: int
    embeddings: int
    """Parameters of the embeddings, which are part of `parameters`."""
    flops: float
    updates: int
    cpu_seconds: float
    wall_seconds: float
    megabytes: float
    evaluation_seconds: float
    """CPU seconds of the evaluation."""
    path: str
    """Measured path between two source positions."""
    path_positions: int
    """Number of positions of the sentence whose path was measured."""


@dataclass(frozen=True)
class Phase:
    """Training of a part of the budget: its options, and the FLOPs of an update."""

    name: str
    recipe: str
    options: dict[str, str]
    updates: int
    flops_of_update: float

    @property
    def flops(self) -> float:
        return self.updates * self.flops_of_update


def phases_of(system: System, seed: int, settings: Settings) -> list[Phase]:
    """Return the phases that spend the budget. Learning rates are scaled to the length of a phase,
    which has a round number of updates."""
    options = {
        **_files(settings.data),
        **COMMON,
        **system.options,
        **(TINY if settings.is_tiny else {}),
        "--training.seed": str(seed),
    }
    share = 1 - REWARD_SHARE if system.has_rewards else 1.0
    cost = cost_with(system.recipe, options)
    likelihood = _phase(
        "likelihood", system.recipe, options, share * settings.budget, flops_of_update(cost)
    )
    if not system.has_rewards:
        return [likelihood]
    options = options | REWARDS
    rewards = _phase(
        "rewards",
        system.recipe,
        options,
        REWARD_SHARE * settings.budget,
        flops_of_rewarded_update(cost_with(system.recipe, options)),
    )
    return [likelihood, rewards]


def flops_of_update(cost: Cost) -> float:
    """Return the FLOPs of an update with the likelihood. ValueError if they are unknown."""
    if cost.update is None:
        raise ValueError("expected a recipe with a number of tokens in a batch")
    return cost.update


def flops_of_rewarded_update(cost: Cost) -> float:
    """Return the FLOPs of an update with the expected reward.

    Each sample costs two FLOPs for every weight to draw it and six to train on it, and the
    likelihood of the reference costs six. Samples are taken to be as long as references. This is
    the number by which the measured rows were trained. It counts a pass of the encoder for each
    sample; `Cost.times_likelihood` counts one for all samples, as the program computes it."""
    return flops_of_update(cost) * (NUM_SAMPLES * (2 + 6) + 6) / 6


def _phase(name: str, recipe: str, options: dict[str, str], budget: float, flops: float) -> Phase:
    updates = max(1, round(budget / flops))
    options = options | {
        "--training.updates": str(updates),
        "--training.warmup": str(round(WARMUP * updates)),
        "--training.validate-every": str(math.ceil(updates / NUM_VALIDATIONS)),
    }
    return Phase(name, recipe, options, updates, flops)


def _files(data: Path) -> dict[str, str]:
    return {
        "--data.path": str(data / "train.en.gz"),
        "--data.target-path": str(data / "train.de.gz"),
        "--data.dev-path": str(data / "val.en.gz"),
        "--data.dev-target-path": str(data / "val.de.gz"),
    }


def cost_with(recipe: str, options: dict[str, str]) -> Cost:
    """Return the cost of a recipe with these options."""
    return cost_of(train.parse([recipe, *words_of(options)], lambda _: None).experiment)


def words_of(options: dict[str, str]) -> list[str]:
    """Return options as arguments of a command."""
    return [word for option in options.items() for word in option]


def read_result(folder: Path) -> Result | None:
    """Return the result of a folder; None before it is finished."""
    try:
        return Result(**json.loads((folder / "result.json").read_text(encoding="utf8")))
    except FileNotFoundError:
        return None


def all_results(settings: Settings) -> list[Result]:
    """Return all results in the output folder, in the order of systems and seeds."""
    folders = (settings.folder(name, seed) for name in BY_NAME for seed in (*SEEDS, ENSEMBLE))
    results = map(read_result, folders)
    return [result for result in results if result is not None]
