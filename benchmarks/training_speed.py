"""Compare the training speed of Regard on one core with JoeyNMT, OpenNMT-py and transformers.

    python benchmarks/training_speed.py DATA

DATA contains Multi30k, English and German. All contestants train on the same joint subwords in
batches of 4,096 tokens: forward pass, backward pass and update. They take turns on one core, so
other load affects all of them. Wall-clock and CPU seconds are measured. Each peer gets an
environment under --work; a peer that cannot be installed is skipped with a message.

    python benchmarks/training_speed.py DATA --dev-loss 3

trains only Regard, in float32 and in bfloat16, for this number of epochs, and prints the dev
losses.

    python benchmarks/training_speed.py DATA --products --instruction-set avx2

compares each update of Regard with its matrix products alone (update_products.py) and with the
speed of the core: the achieved FLOP/s and their share.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import instruction_sets
import yaml
from peers.corpus import Corpus, prepare
from peers.environments import HERE, Environment
from peers.our_recipes import EQUAL_LENGTHS, recipe
from peers.running import Answer, Contestant, Place, started

WORK = Path(tempfile.gettempdir()) / "regard-benchmarks"
OPENNMT, JOEYNMT = Environment("opennmt"), Environment("joeynmt")
MARIAN = Environment("marian")
TORCH = "torch's nn.Transformer"
BASELINE = "OpenNMT-py 3.5.1"


@dataclass(frozen=True)
class Row:
    title: str
    contestants: list[Contestant]


def peers(model: str) -> list[Contestant]:
    return [
        Contestant(BASELINE, "run_opennmt", model, OPENNMT),
        Contestant("JoeyNMT 2.3.0", "run_joeynmt", model, JOEYNMT),
    ]


def regard_contestants(model: str, about: str = "") -> list[Contestant]:
    return [
        Contestant(f"Regard{about}", "run_regard", model),
        Contestant(f"Regard{about}, bfloat16", "run_regard", model, precision="bfloat16"),
    ]


def regard_with_equal_lengths(model: str) -> Contestant:
    return Contestant("Regard, equal lengths", "run_regard", model + EQUAL_LENGTHS)


ROWS = {
    "luong": Row(
        "LSTM 256, Luong general",
        [
            *peers("luong"),
            *regard_contestants("luong"),
            regard_with_equal_lengths("luong"),
            *regard_contestants("luong-fed", ", input feeding"),
        ],
    ),
    "bahdanau": Row(
        "LSTM 256, Bahdanau",
        [
            *peers("bahdanau"),
            *regard_contestants("bahdanau"),
            regard_with_equal_lengths("bahdanau"),
        ],
    ),
    "transformer": Row(
        "Transformer 3+3, 256, 1024, 4 heads",
        [
            *peers("transformer"),
            Contestant("transformers 5.23, Marian", "run_marian", "transformer", MARIAN),
            Contestant(TORCH, "run_torch", "transformer"),
            *regard_contestants("transformer"),
            regard_with_equal_lengths("transformer"),
        ],
    ),
}


@dataclass(frozen=True)
class Measured:
    """Measurements of one contestant in its turns."""

    name: str
    turns: list[Answer]

    def total(self, name: str) -> float:
        return sum(turn[name] for turn in self.turns)

    def speed(self, clock: str) -> float:
        """Return source tokens per second, median of the turns."""
        return median(turn["source"] / turn[clock] for turn in self.turns)

    def padding(self, side: str) -> float:
        """Return the share of positions without a token. End tokens of sources count as padding."""
        return 1 - self.total(side) / self.total(f"{side}_positions")

    def facts(self) -> dict[str, float]:
        return {
            "source tokens/s": self.speed("wall"),
            "source tokens per CPU second": self.speed("cpu"),
            "sentences a batch": self.total("sentences") / self.total("updates"),
            "padding of sources": self.padding("source"),
            "padding of targets": self.padding("target"),
            "peak MB": max(turn["peak_mb"] for turn in self.turns),
        }


def measure(row: Row, place: Place, options: argparse.Namespace) -> list[Measured]:
    """Warm up every contestant, then measure them in turns."""
    with started(select(row.contestants, options), "train", place) as running:
        for each in running:
            each.request(seconds=options.warm_up)
        for turn in range(options.turns):
            for each in running:
                print(f"turn {turn + 1}: {each.contestant.name}", file=sys.stderr, flush=True)
                each.answers.append(each.request(seconds=options.seconds / options.turns))
    return [Measured(each.contestant.name, each.answers) for each in running]


def select(contestants: list[Contestant], options: argparse.Namespace) -> list[Contestant]:
    """Return the contestants that --contestants names, except those whose bfloat16 products would
    be emulated on this CPU."""
    words = [word.lower() for word in options.contestants or [""]]
    named = [each for each in contestants if any(word in each.name.lower() for word in words)]
    if options.device != "cpu" or instruction_sets.has_bfloat16(options.instruction_set):
        return named
    for each in named:
        if each.precision == "bfloat16":
            print(f"left out: {each.name}: no bfloat16 instructions are used", flush=True)
    return [each for each in named if each.precision != "bfloat16"]


def table(title: str, measured: list[Measured]) -> None:
    print(f"\n{title}\n")
    print(
        "| | source tokens/s | per CPU second | over OpenNMT-py: wall, CPU | sentences a batch "
        "| padding: source with its end, target | MB |\n|---|---|---|---|---|---|---|"
    )
    base = next((each for each in measured if each.name == BASELINE), None)
    for each in measured:
        ratios = [
            f"{each.speed(clock) / base.speed(clock):.2f}" if base else "-"
            for clock in ("wall", "cpu")
        ]
        print(
            f"| {each.name} | {each.speed('wall'):,.0f} | {each.speed('cpu'):,.0f} "
            f"| {', '.join(ratios)} | {each.facts()['sentences a batch']:.0f} "
            f"| {each.padding('source'):.0%}, {each.padding('target'):.0%} "
            f"| {each.facts()['peak MB']:,.0f} |",
            flush=True,
        )


def dev_losses(names: list[str], corpus: Corpus, options: argparse.Namespace) -> None:
    """Train Regard with its command, once in each precision, and print the dev losses of its
    log."""
    for name in names:
        print(f"\n{ROWS[name].title}: dev loss after each epoch, in nats per token")
        for contestant in filter(is_regard, select(ROWS[name].contestants, options)):
            folder = options.work / f"dev-loss-{contestant.model}-{contestant.precision}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            values = recipe(contestant.model, contestant.batch_tokens, corpus.folder)
            values["data"] |= {"dev_path": str(corpus.folder / "val.en")}
            values["data"] |= {"dev_target_path": str(corpus.folder / "val.de"), "dev_size": None}
            values["training"] |= {"epochs": options.dev_loss, "precision": contestant.precision}
            path, run = folder / "recipe.yaml", folder / "run"
            path.write_text(yaml.safe_dump(values), encoding="utf8")
            command = [sys.executable, "-m", "regard.cli.main", "train", str(path), "--output"]
            subprocess.run([*command, str(run)], check=True, stdout=subprocess.DEVNULL)
            lines = (run / "log.jsonl").read_text(encoding="utf8").splitlines()
            losses = [line["loss"] for line in map(json.loads, lines) if line["kind"] == "dev"]
            print(f"{contestant.name:20}" + "".join(f"{loss:9.4f}" for loss in losses), flush=True)


def products(names: list[str], corpus: Corpus, options: argparse.Namespace) -> None:
    """Print the speed of Regard's updates beside that of their matrix products alone."""
    for name in names:
        for contestant in filter(is_regard, select(ROWS[name].contestants, options)):
            place = place_of(corpus, options)
            path = place.folder(contestant, "products") / "recipe.yaml"
            values = recipe(contestant.model, contestant.batch_tokens, corpus.folder)
            path.write_text(yaml.safe_dump(values), encoding="utf8")
            print(f"\n{ROWS[name].title}, {contestant.name}", flush=True)
            command = [sys.executable, str(HERE.parent / "update_products.py"), str(path)]
            options_of = ["--precision", contestant.precision, "--threads", str(place.threads)]
            subprocess.run(
                [*command, *options_of], check=True, env=place.variables, preexec_fn=place.pin
            )


def place_of(corpus: Corpus, options: argparse.Namespace) -> Place:
    return Place(
        corpus.folder,
        options.work,
        options.device,
        options.core,
        options.threads,
        options.instruction_set,
    )


def is_regard(contestant: Contestant) -> bool:
    return contestant.driver == "run_regard"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with Multi30k")
    parser.add_argument("--only", nargs="+", choices=ROWS, help="rows (default: all)")
    parser.add_argument(
        "--contestants", nargs="+", help="only contestants whose name contains one of these words"
    )
    parser.add_argument("--seconds", type=float, default=60, help="seconds for each contestant")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds of warm-up, not counted")
    parser.add_argument("--turns", type=int, default=3, help="number of turns")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the environments")
    parser.add_argument("--core", type=int, default=0, help="first core of all contestants")
    parser.add_argument("--threads", type=int, default=1, help="threads and cores of each")
    instruction_sets.add_option(parser)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--dev-loss", type=int, metavar="EPOCHS", help="print dev losses of Regard instead"
    )
    parser.add_argument(
        "--products", action="store_true", help="compare Regard's updates with their products alone"
    )
    parser.add_argument("--json", type=Path, help="file of all figures")
    options = parser.parse_args()
    options.work = options.work.resolve()
    names = options.only or list(ROWS)
    text = prepare(options.data, options.work / "corpus")
    if options.dev_loss:
        dev_losses(names, text, options)
        return
    if options.products:
        products(names, text, options)
        return
    figures = {}
    for name in names:
        measured = measure(ROWS[name], place_of(text, options), options)
        table(ROWS[name].title, measured)
        figures[name] = {each.name: each.facts() for each in measured}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf8")


if __name__ == "__main__":
    main()
