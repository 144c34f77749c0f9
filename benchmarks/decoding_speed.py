"""Compare the decoding speed of Regard with OpenNMT-py, JoeyNMT, transformers and CTranslate2.

    python benchmarks/decoding_speed.py DATA

DATA contains Multi30k, English and German. All contestants decode test 2016 in exactly 15 steps, so
the speed does not depend on the lengths that a model prefers, and untrained weights can be used.
Contestants take turns on one core, or on as many as --threads. The time to load a model is
excluded. For Regard, the cost of returning the attention of every kind, layer and head is measured
too.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import instruction_sets
from peers.corpus import prepare
from peers.environments import Environment, MissingError
from peers.running import Answer, Contestant, Place, do, started
from training_speed import BASELINE, JOEYNMT, MARIAN, OPENNMT, WORK, regard_contestants, select

CTRANSLATE2 = Environment("ctranslate2", torch=False)
TOKENS = 15


@dataclass(frozen=True)
class Column:
    """Search settings of one column of the table."""

    title: str
    beam: int
    batch: int
    attention: bool = False


COLUMNS = {
    "greedy": Column("greedy, batch 64", 1, 64),
    "beam": Column("beam 5, batch 64", 5, 64),
    "single": Column("beam 5, one sentence at a time", 5, 1),
}
WITH_ATTENTION = {
    "greedy": Column("greedy, batch 64, with attention", 1, 64, attention=True),
    "beam": Column("beam 5, batch 64, with attention", 5, 64, attention=True),
    "single": Column("beam 5, one sentence at a time, with attention", 5, 1, attention=True),
}


def regard_with_int8(model: str, about: str) -> Contestant:
    return Contestant(f"Regard{about}, int8", "run_regard", model, precision="int8")


ROWS = {
    "lstm": [
        Contestant(f"{BASELINE}, LSTM", "run_opennmt", "luong", OPENNMT),
        Contestant("JoeyNMT 2.3.0, LSTM", "run_joeynmt", "luong", JOEYNMT),
        *regard_contestants("luong", ", LSTM"),
        regard_with_int8("luong", ", LSTM"),
        *regard_contestants("luong-fed", ", LSTM, input feeding"),
        *regard_contestants("bahdanau", ", LSTM, Bahdanau"),
    ],
    "transformer": [
        Contestant(f"{BASELINE}, Transformer", "run_opennmt", "transformer", OPENNMT),
        Contestant("JoeyNMT 2.3.0, Transformer", "run_joeynmt", "transformer", JOEYNMT),
        Contestant("transformers 5.23, Marian", "run_marian", "transformer", MARIAN),
        Contestant("CTranslate2 4.8.5, float32", "run_ctranslate2", "transformer", CTRANSLATE2),
        Contestant(
            "CTranslate2 4.8.5, int8", "run_ctranslate2", "transformer", CTRANSLATE2, "int8"
        ),
        *regard_contestants("transformer", ", Transformer"),
        regard_with_int8("transformer", ", Transformer"),
    ],
}


@dataclass(frozen=True)
class Measured:
    """Measurements of one contestant in every column."""

    name: str
    columns: dict[str, list[Answer]]

    def speed(self, column: str, clock: str) -> float:
        """Return the sentences per second, median of the turns."""
        return median(turn["sentences"] / turn[clock] for turn in self.columns[column])

    def facts(self) -> dict[str, dict[str, float]]:
        return {
            column: {
                "sentences/s": self.speed(column, "wall"),
                "sentences per CPU second": self.speed(column, "cpu"),
            }
            for column in self.columns
        }


def measure(row: str, place: Place, options: argparse.Namespace) -> list[Measured]:
    contestants = [each for each in select(ROWS[row], options) if is_convertible(each, place)]
    columns = {name: COLUMNS[name] for name in options.columns}
    with_attention = {WITH_ATTENTION[name].title: WITH_ATTENTION[name] for name in options.columns}
    with started(contestants, "decode", place) as running:
        answers: dict[str, dict[str, list[Answer]]] = {}
        for turn in range(options.turns):
            for each in running:
                contestant = each.contestant
                requests = {COLUMNS[name].title: column for name, column in columns.items()}
                requests |= with_attention if contestant.driver == "run_regard" else {}
                mine = answers.setdefault(contestant.name, {})
                for title, column in requests.items():
                    print(f"turn {turn + 1}: {contestant.name}: {title}", file=sys.stderr)
                    count = options.single if column.batch == 1 else options.sentences
                    answer = each.request(
                        beam=column.beam,
                        batch=column.batch,
                        sentences=count,
                        tokens=TOKENS,
                        attention=column.attention,
                    )
                    check(contestant, answer)
                    mine.setdefault(title, []).append(answer)
    return [Measured(name, columns) for name, columns in answers.items()]


def check(contestant: Contestant, answer: Answer) -> None:
    """Report a contestant that decoded another number of tokens."""
    if answer["written"] != TOKENS * answer["sentences"]:
        print(
            f"{contestant.name} decoded {answer['written']} tokens, not "
            f"{TOKENS} for each of {answer['sentences']} sentences",
            flush=True,
        )


def is_convertible(contestant: Contestant, place: Place) -> bool:
    """Convert OpenNMT-py's model for CTranslate2 if this contestant needs it."""
    if contestant.driver != "run_ctranslate2":
        return True
    maker = Contestant("OpenNMT-py for CTranslate2", "run_opennmt", "transformer", OPENNMT)
    try:
        do(maker, "convert", place, place.folder(contestant, "decode"))
    except MissingError as error:
        print(f"left out: {contestant.name}: {error}", flush=True)
        return False
    return True


def table(measured: list[Measured], names: list[str]) -> None:
    """Print sentences per wall-clock second, and per CPU second in brackets."""
    titles = [COLUMNS[name].title for name in names]
    print(f"\n| sentences/s (per CPU second) | {' | '.join(titles)} |")
    print("|---|" + "---|" * len(titles))
    base = {each.name: each for each in measured}
    for each in measured:
        rival = base.get(f"{BASELINE}, {'LSTM' if 'LSTM' in each.name else 'Transformer'}")
        cells = []
        for title in titles:
            cell = f"{each.speed(title, 'wall'):,.1f} ({each.speed(title, 'cpu'):,.1f})"
            if rival is not None:
                ratio = each.speed(title, "cpu") / rival.speed(title, "cpu")
                cell += f" {ratio:.2f}x"
            cells.append(cell)
        print(f"| {each.name} | {' | '.join(cells)} |")
    for each in measured:
        for name in names:
            plain, attention = COLUMNS[name].title, WITH_ATTENTION[name].title
            if attention in each.columns:
                cost = each.speed(plain, "cpu") / each.speed(attention, "cpu") - 1
                print(f"{each.name}, {plain}: attention costs {cost:+.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with Multi30k")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), help="rows")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument(
        "--contestants", nargs="+", help="only contestants whose name contains one of these words"
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=1000,
        help="number of sentences that are decoded in batches",
    )
    parser.add_argument(
        "--single", type=int, default=200, help="number of sentences that are decoded one at a time"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the environments")
    parser.add_argument("--core", type=int, default=0, help="first core of all contestants")
    parser.add_argument("--threads", type=int, default=1, help="threads and cores of each")
    instruction_sets.add_option(parser)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, help="file of all figures")
    options = parser.parse_args()
    options.work = options.work.resolve()
    text = prepare(options.data, options.work / "corpus")
    place = Place(
        text.folder,
        options.work,
        options.device,
        options.core,
        options.threads,
        options.instruction_set,
    )
    figures = {}
    for row in options.only:
        measured = measure(row, place, options)
        table(measured, options.columns)
        figures[row] = {each.name: each.facts() for each in measured}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf8")


if __name__ == "__main__":
    main()
