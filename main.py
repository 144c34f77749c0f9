"""Count each letter of a random sequence by attention: train a model, and print its attention.

    python3 main.py --train
    python3 main.py --test --plot

docs/counting.md has the task, the model and the measurements. Help and errors appear without
loading torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))  # runs from a bare checkout too

from regard.runtime import signals

if __name__ == "__main__":  # before the other imports, in which Ctrl-C can come
    signals.handle("main.py")

import argparse
import importlib
import math
import os
import random
import time
import webbrowser
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from regard.cli.output import drop_output, say
from regard.errors import UserError
from regard.tasks.counting.settings import CHOICES, LARGEST, CountingSettings

if TYPE_CHECKING:
    from regard.tasks.counting.counting import CountedLetters, Counter

DONE, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130
NUM_QUICK, NUM_FULL = 1_000, 10_000
"""Number of test sequences: during training, and of each length afterwards."""
NEAR = 1e-6
"""Largest difference of two weights that count as equal."""


@dataclass(frozen=True)
class Command:
    """Parsed command line. `settings` has the settings of the model that it sets."""

    train: bool
    test: bool
    settings: dict[str, Any]
    savepath: Path
    print_every: int
    save_every: int
    plot: bool
    sample_len: int | None
    seed: int | None


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status. An error is one line."""
    try:
        try:
            status = run(arguments)
        except SystemExit:  # --help
            status = DONE
        if sys.stdout is not None:
            sys.stdout.flush()  # reports a full disk or a closed pipe before the exit
        return status
    except UserError as error:
        return complain(error, FAILED)
    except BrokenPipeError:
        drop_output()
        return FAILED
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        drop_output()
        return complain(f"{getattr(error, 'filename', None) or 'the output'}: {reason}", FAILED)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)


def run(arguments: list[str]) -> int:
    """Train or test; UserError if that fails."""
    try:
        command = read(arguments)
    except UserError as error:
        return complain(error, MISUSED)
    try:
        importlib.import_module("regard.tasks.counting.counting")
    except ImportError as error:
        missing = f"{error.name or error} is not installed for {sys.executable}"
        install = "`sh scripts/install` installs all of it into .venv"
        return complain(f"{missing}: {install}; then run .venv/bin/python main.py", FAILED)
    try:
        check_mode(command)
        settings = CountingSettings(**command.settings)
    except UserError as error:
        return complain(error, MISUSED)
    return train(command, settings) if command.train else test(command)


def read(arguments: list[str]) -> Command:
    """Parse the command line. Options may be spelled with underscores or hyphens."""
    parser = build_parser()
    try:
        parsed, unknown = parser.parse_known_args(
            [with_underscores(argument) for argument in arguments]
        )
    except argparse.ArgumentError as error:
        raise UserError(f"{error}; see --help") from error
    if unknown:
        raise UserError(f"unknown option {unknown[0]}; --help lists the options")
    names = [field.name for field in fields(CountingSettings)]
    settings = {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}
    CountingSettings(**settings)
    for name, minimum in (("print_every", 0), ("save_every", 0), ("sample_len", 1), ("seed", 0)):
        value = getattr(parsed, name)
        if value is not None and not minimum <= value <= LARGEST:
            raise UserError(f"{name} is {value}: expected {minimum} to {LARGEST}")
    others = {field.name for field in fields(Command)} - {"settings"}
    return Command(settings=settings, **{name: getattr(parsed, name) for name in others})


def with_underscores(argument: str) -> str:
    """Return an argument with underscores in the name of its option: --max-len=5 as --max_len=5."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of both modes. A setting that is not on the command line is None."""
    parser = argparse.ArgumentParser(
        prog="main.py",
        description="Count each letter of a random sequence by attention.",
        epilog="Options may have hyphens in place of underscores. A saved model has its settings.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--train", action="store_true", help="train a model and save it")
    parser.add_argument(
        "--test", action="store_true", help="count one sequence and print the attention"
    )
    for field in fields(CountingSettings):
        about = field.metadata["help"]
        if isinstance(field.default, bool):
            parser.add_argument(f"--{field.name}", action="store_const", const=True, help=about)
        else:
            choices = CHOICES.get(field.name)
            parser.add_argument(
                f"--{field.name}",
                type=type(field.default),
                choices=choices,
                metavar=None if choices else "N",
                help=f"{about} ({field.default})",
            )
    add = parser.add_argument
    add("--savepath", type=folder, default=Path("models"), help="folder of the model (models/)")
    add(
        "--print_every",
        type=int,
        default=200,
        metavar="N",
        help="steps between lines; 0: none (200)",
    )
    add(
        "--save_every",
        type=int,
        default=500,
        metavar="N",
        help="steps between saved models; 0: only the last (500)",
    )
    add("--plot", action="store_true", help="with --test: draw the attention")
    add("--sample_len", type=int, metavar="N", help="with --test: letters to count (max_len)")
    add("--seed", type=int, metavar="N", help="random seed (0; with --test a new one each time)")
    return parser


def folder(text: str) -> Path:
    """Parse the path of a folder, which must not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, got an empty path")
    return Path(text)


def check_ram(num_bytes: int, remedy: str) -> None:
    """Raise a UserError if the process may not use this number of bytes of RAM."""
    from regard.building.ram import ram_limit

    limit = ram_limit()
    if num_bytes > limit:
        raise UserError(
            f"this needs at least {num_bytes / 1e9:,.0f} GB of memory and the machine has "
            f"{limit / 1e9:,.0f} GB: {remedy}"
        )


def check_mode(command: Command) -> None:
    """Raise a UserError unless there is one mode. With --test, options of the training may be
    repeated."""
    if command.train == command.test:
        raise UserError("expected either --train or --test; see --help")
    if command.train and (command.plot or command.sample_len is not None):
        raise UserError(f"{'--plot' if command.plot else '--sample_len'} goes with --test")


def train(command: Command, settings: CountingSettings) -> int:
    """Train a model and save it. An interruption saves the current model."""
    import torch

    from regard.tasks.counting import counting

    check_ram(settings.training_bytes, "lower batchsize, max_len or hidden")
    seed = command.seed or 0
    model = counting.build_counter(settings, seed)
    sampler = counting.training_letters(settings)
    optimizer = counting.build_optimizer(model, settings)
    generator = torch.Generator().manual_seed(seed)
    counting.check_writable(command.savepath)
    step, status, begun = 0, DONE, time.perf_counter()
    try:
        for loss in counting.fit(model, sampler, optimizer, settings, generator):
            step += 1
            if not math.isfinite(loss):
                raise UserError(
                    f"the loss is {loss:.4g} after {step} steps: lower lr, which is {settings.lr}"
                )
            if is_due(step, command.print_every):
                say(progress(counting.Counter(model, settings, step), float(loss)))
            if is_due(step, command.save_every):
                counting.save(counting.Counter(model, settings, step), command.savepath)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except OSError:  # the output cannot be written: save the model first
        counting.save(counting.Counter(model, settings, step), command.savepath)
        raise
    path = counting.save(counting.Counter(model, settings, step), command.savepath)
    if status == INTERRUPTED:
        print(f"\nInterrupted: the model after {step} steps is in {path}")
        return status
    print(f"Trained {step} steps in {time.perf_counter() - begun:.1f} s: {path}\n")
    print(f"Accuracy (all counts correct) on {NUM_FULL:,} new sequences of each length:")
    for length in tested_lengths(settings):
        share = counting.accuracy(model, settings, length, NUM_FULL, seed + 1)
        print(f"  length {length}: {share:.2%}", flush=True)
    return status


def is_due(step: int, every: int) -> bool:
    """Return whether an action of every `every` steps (0: never) is due at this step."""
    return every > 0 and step % every == 0


def progress(counter: Counter, loss: float) -> str:
    """Return a line on the progress of training."""
    from regard.tasks.counting.counting import accuracy

    settings, step = counter.settings, counter.step
    share = accuracy(counter.model, settings, settings.max_len, NUM_QUICK, seed=step)
    return f"step {step} of {settings.steps}: loss {loss:.4f}, {share:.1%} of new sequences correct"


def tested_lengths(settings: CountingSettings) -> list[int]:
    """Return the lengths of the training sequences, and others if the model counts any length."""
    longest = settings.max_len
    trained = range(1 if settings.variable_length else longest, longest + 1)
    others = (max(longest // 2, 1), 2 * longest, 10 * longest) if settings.counts_any_length else ()
    return sorted({*trained, *others})


def test(command: Command) -> int:
    """Count one random sequence with the saved model, and print the attention."""
    import torch

    from regard.data.generated.counting import EvenLetters
    from regard.tasks.counting import counting

    counter = counting.load(command.savepath)
    check_same(command.settings, counter)
    settings = counter.settings
    length = command.sample_len or settings.max_len
    check_ram(settings.sequence_bytes(length), "lower sample_len")
    for warning in warnings_about(counter, length):
        print(f"main.py: warning: {warning}", file=sys.stderr)
    seed = random.randrange(2**32) if command.seed is None else command.seed
    draw = EvenLetters(settings.vocab_size, length)
    counted = counting.count_letters(counter, draw(1, torch.Generator().manual_seed(seed))[0])
    print(report(counted))
    if command.plot:
        plot(counted, command.savepath / "attention.png")
    return DONE


def check_same(settings: dict[str, Any], counter: Counter) -> None:
    """Raise a UserError if the command line contradicts the settings of the saved model."""
    for name, value in settings.items():
        saved = asdict(counter.settings)[name]
        if value != saved:
            option = f"--{name}" if value is True else f"--{name}={value}"
            raise UserError(
                f"{option} contradicts the saved model, whose {name} is {saved}: leave it out, or "
                "train another model"
            )


def warnings_about(counter: Counter, length: int) -> list[str]:
    """Return the reasons why counts of a sequence of this length may be wrong."""
    settings, warnings = counter.settings, []
    if counter.step < settings.steps:
        warnings.append(f"the training stopped after {counter.step} of {settings.steps} steps")
    if settings.counts_any_length:
        return warnings
    if length > settings.max_len:
        warnings.append(
            f"{length} letters are more than the {settings.max_len} that were trained on: expect "
            "wrong counts"
        )
    elif length < settings.max_len and not settings.variable_length:
        warnings.append(
            f"only sequences of {settings.max_len} letters were trained on: expect wrong counts "
            f"of {length}, or train with --variable_length"
        )
    return warnings


def report(counted: CountedLetters) -> str:
    """Return the letters, the counts and, for each count, the steps with the largest weights."""
    rows = "\n  ".join(f"['{letter}']" for letter in counted.text)
    counts = " ".join(map(str, counted.counts))
    lines = [f"Input:\n[[{rows}]]", f"Prediction:\n[[{counts}]]", "Encoder-Decoder Attention:"]
    pairs = []
    for output, weights in enumerate(counted.trace.map().weights[0, 0].tolist()):
        highest = max(weights)
        steps = " ".join(str(i) for i, weight in enumerate(weights) if highest - weight <= NEAR)
        pairs.append(
            f"Output step {output} attended mainly to Input steps: [{steps}]\n"
            f"{[round(weight, 3) for weight in weights]}"
        )
    return "\n\n".join(lines) + "\n" + "\n".join(pairs)


def plot(counted: CountedLetters, path: Path) -> None:
    """Draw a heatmap, print its path, and show it if there is a screen."""
    from regard.viewing import heatmap

    try:
        heatmap.save(counted.trace, path)
    except OSError as error:
        raise UserError(f"cannot write the figure to {path}: {error}") from error
    print(f"\nHeatmap: {path}")
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_screen:
        webbrowser.open(path.resolve().as_uri())


def complain(error: object, status: int) -> int:
    """Print an error as one line and return the exit status."""
    print(f"main.py: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except KeyboardInterrupt:
        signals.leave("main.py")
    finally:
        signals.ignore()
    sys.exit(status)
