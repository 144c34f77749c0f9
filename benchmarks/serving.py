"""Measure the throughput and the latency of `regard serve`, beside serving one by one, CTranslate2
behind the same server, and offline translation of the same lines.

    python benchmarks/serving.py RUN LINES
    python benchmarks/serving.py RUN LINES --soak 30

RUN is a run that translates, and LINES a file of sources. For CTranslate2, RUN must be a
Transformer that `regard export` can export. Each client sends one line, waits for its translation
and sends the next line. Each system is a process of its own; the clients are in this process. All
addresses are loopback. With --soak, 16 clients send correct and incorrect requests for some
minutes, and the resident memory of the server at the start, in the middle and at the end is
printed.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice, repeat
from pathlib import Path
from statistics import quantiles
from typing import Any

from serving_clients import send, soak, wait_until_ready

WARM_UP = 32
"""Requests before a measurement."""
SYSTEMS = {
    "serve": "regard serve",
    "single": "regard serve, one by one",
    "ctranslate2": "CTranslate2, same server",
}


@dataclass(frozen=True)
class Load:
    """Measurement of one system with one number of clients."""

    system: str
    clients: int
    sentences_per_second: float
    p50: float
    """Median latency in milliseconds."""
    p99: float


def measure(system: str, url: str, lines: Sequence[str], clients: int) -> tuple[Load, list[str]]:
    asyncio.run(send(url, lines[:WARM_UP], min(clients, WARM_UP)))
    began = time.perf_counter()
    latencies, outputs = asyncio.run(send(url, lines, clients))
    seconds = time.perf_counter() - began
    cuts = quantiles(latencies, n=100, method="inclusive")
    speed = len(lines) / seconds
    return Load(system, clients, speed, 1000 * cuts[49], 1000 * cuts[98]), outputs


@contextmanager
def served(*command: str) -> Iterator[str]:
    """Run a server in a process of its own; yield its address when it is ready."""
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if " at http://" not in line:
                raise SystemExit(f"the server did not start: {' '.join(command)}")
            url = line.partition(" at ")[2].split()[0]
            asyncio.run(wait_until_ready(url))
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            if process.wait(60):
                print(f"the server ended with status {process.returncode}", file=sys.stderr)


def server_of(system: str, options: argparse.Namespace, folder: Path) -> tuple[str, ...]:
    """Return the command that serves the run."""
    own = ("--port", "0", "--device", options.device, "--batch-texts", str(options.batch_texts))
    match system:
        case "serve":
            return ("-m", "regard", "serve", str(options.run), *own)
        case "single":
            return ("-m", "regard", "serve", str(options.run), *own[:-1], "1")
        case _:
            exported = folder / "exported"
            if not exported.exists():
                command = ["-m", "regard", "export", str(options.run), "--to", "ctranslate2"]
                run_python(*command, "-o", str(exported))
            me = str(Path(__file__))
            return (me, str(options.run), "-", "--exported", str(exported), *own[-2:])


def run_python(*command: str) -> str:
    """Run a command of Python and return its last line."""
    done = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


@dataclass(frozen=True)
class CTranslate2Translation:
    """Translation by CTranslate2, in the place of the run's own model."""

    translator: Any
    tokenizers: Any
    about: dict[str, Any]

    @classmethod
    def load(cls, run: Path, exported: Path) -> "CTranslate2Translation":
        import ctranslate2

        from regard.runs.folder import RunFolder
        from regard.tasks.translation.encoding import Tokenizers

        translator = ctranslate2.Translator(
            str(exported), compute_type="float32", inter_threads=1, intra_threads=1
        )
        about = json.loads((exported / "about.json").read_text(encoding="utf8"))
        return cls(translator, Tokenizers.load(RunFolder(run)), about)

    def lengths(self, items: Sequence[str], settings: Any) -> list[int]:  # noqa: ARG002
        return [len(ids) for ids in self.tokenizers.source.encode_batch(items)]

    def needs(self, lengths: Sequence[int], settings: Any) -> list[Any]:  # noqa: ARG002
        """Nothing is estimated: CTranslate2 has a memory of its own."""
        from regard.serving.batches.operations import Need

        return [Need(0, 0)] * len(lengths)

    def run(self, items: Sequence[str], settings: Any) -> list[str]:
        source, target = self.tokenizers.source, self.tokenizers.target
        pieces = [source.pieces(ids) for ids in source.encode_batch(items)]
        longest = max(map(len, pieces)) + len(self.about["source_end"])
        maximum = settings.search.max_length or int(
            self.about["max_ratio"] * longest + self.about["beyond_ratio"]
        )
        search = {**self.about["search"], "beam_size": settings.search.beam}
        results = self.translator.translate_batch(
            pieces, max_batch_size=len(items), max_decoding_length=maximum, **search
        )
        numbers = {piece: number for number, piece in enumerate(target.vocabulary)}
        texts = [
            target.decode([numbers[piece] for piece in result.hypotheses[0]]) for result in results
        ]
        return [json.dumps({"text": text}) for text in texts]


def serve_ctranslate2(options: argparse.Namespace) -> None:
    """Serve the exported model with the server of `regard serve`."""
    from regard.runs.folder import RunFolder
    from regard.serving import server
    from regard.serving.api.limits import Limits
    from regard.serving.api.verbs import VERBS
    from regard.serving.service import ServedRun, Service

    search = RunFolder(options.run).experiment().search
    run = ServedRun(
        "ctranslate2",
        (VERBS["translate"],),
        search,
        lambda: {"translate": CTranslate2Translation.load(options.run, options.exported)},
    )
    with server.listen("127.0.0.1", 0) as bound:
        print(f"ctranslate2 at {server.url_of(bound)}", flush=True)
        server.serve(Service([run], Limits(batch_texts=options.batch_texts)), bound)


def translate_offline(options: argparse.Namespace) -> None:
    """Translate all lines with one call, and print the sentences per second and the texts."""
    import regard

    lines = lines_of(options)
    model = regard.load(options.run, device=options.device)
    model.translate(lines[:WARM_UP], attention=False)
    began = time.perf_counter()
    outputs = model.translate(lines, attention=False)
    speed = len(lines) / (time.perf_counter() - began)
    print(json.dumps({"speed": speed, "texts": [output.text for output in outputs]}))


def lines_of(options: argparse.Namespace) -> list[str]:
    """Return `options.requests` lines of the file that are not blank; a short file is repeated."""
    lines = [line for line in options.lines.read_text(encoding="utf8").splitlines() if line.strip()]
    return list(islice((line for part in repeat(lines) for line in part), options.requests))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.exported:
        serve_ctranslate2(options)
        return
    if options.offline:
        translate_offline(options)
        return
    lines = lines_of(options)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.soak:
            with served(*server_of("serve", options, folder)) as url:
                figures["soak"] = asyncio.run(soak(url, lines, 60 * options.soak))
            print(json.dumps(figures["soak"]))
        else:
            figures |= compare(options, lines, folder)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf8")


def compare(options: argparse.Namespace, lines: list[str], folder: Path) -> dict[str, Any]:
    """Measure all systems, print a table and return the figures."""
    me = str(Path(__file__))
    own = ("--requests", str(options.requests), "--device", options.device)
    offline = json.loads(run_python(me, str(options.run), str(options.lines), "--offline", *own))
    print(f"offline: {offline['speed']:.1f} sentences/s")
    print(
        "\n| system | clients | sentences/s | of offline | p50, ms | p99, ms |\n" + "|---" * 6 + "|"
    )
    loads = []
    for system in options.systems:
        title = SYSTEMS[system]
        with served(*server_of(system, options, folder)) as url:
            for clients in options.clients:
                load, outputs = measure(system, url, lines, clients)
                loads.append(load)
                share = load.sentences_per_second / offline["speed"]
                print(
                    f"| {title} | {clients} | {load.sentences_per_second:.1f} | {share:.0%} | "
                    f"{load.p50:.1f} | {load.p99:.1f} |",
                    flush=True,
                )
                different = sum(map(str.__ne__, outputs, offline["texts"]))
                if different:
                    print(f"{title}: {different} texts differ from offline", file=sys.stderr)
    return {"offline": offline["speed"], "loads": [asdict(load) for load in loads]}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("lines", type=Path, help="file of sources")
    parser.add_argument("--requests", type=int, default=2000, help="number of lines that are sent")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=SYSTEMS,
        default=list(SYSTEMS),
    )
    parser.add_argument("--batch-texts", type=int, default=32, help="largest batch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--soak", type=float, help="minutes of a soak test, instead of the table")
    parser.add_argument("--json", type=Path, help="file of all figures")
    parser.add_argument("--offline", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--exported", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
