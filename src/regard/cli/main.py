"""`regard`: runs a command, and prints an error as one line."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from regard.cli.output import drop_output, open_closed_streams, warn, with_own_options
from regard.config.checks import format_value, is_text
from regard.errors import ConnectionLostError, UsageError, UserError, is_out_of_memory
from regard.runtime import instruction_set, signals, torchrun
from regard.runtime.memory_policy import keep_freed_memory
from regard.storage.files import shorten_name
from regard.version import VERSION

COMMANDS = {
    "train": ("training.train", "train a model by a recipe, or on a file of pairs"),
    "translate": ("inference.translate", "translate lines"),
    "classify": ("inference.classify", "predict a label or numbers for each line"),
    "caption": ("inference.caption", "caption images"),
    "evaluate": ("analysis.evaluate", "score a run on pairs"),
    "sweep": ("training.sweep", "train a recipe with varied fields, side by side"),
    "ensemble": ("training.ensemble", "train a recipe with several seeds, as one model"),
    "compare": ("analysis.compare", "compare runs: scores over seeds, and significance"),
    "score": ("inference.score", "compute log probabilities of given targets"),
    "plot": ("analysis.plot", "draw the attention of an output"),
    "serve": ("inference.serve", "serve runs over HTTP"),
    "export": ("inference.export", "convert a run for onnxruntime or CTranslate2"),
    "average": ("training.average", "average the weights of several runs"),
    "reproduce": ("training.reproduce", "train a run again, and compare the weights"),
    "data": ("data", "download or generate data"),
    "check": ("training.check", "inspect data before training"),
    "recipes": ("recipes", "list the recipes, or print one"),
    "demo": ("demo", "train, evaluate and plot in a minute, on number words"),
}
"""Module and meaning of each command."""

PLAIN = "--plain"
"""Option of every command that runs the formulas instead of accelerated classes."""

OUT_OF_MEMORY = (
    "not enough memory: reduce the size of the model, the tokens of a batch or the beam, or use "
    "shorter texts"
)


def main() -> None:
    """Run the command line, as the entry point of the console script."""
    # Waiting threads spin for a number of turns, then sleep. With GNU OpenMP's default of 300,000
    # turns, another process on the same core made training ten times slower. Sleeping at once costs
    # half of the speed on a quiet machine. torch reads the variable when it loads.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    if torchrun.is_used():
        # The reducer of gradients warns of its search for weights without a gradient, which is
        # needed, and of nothing else that a user can change.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    open_closed_streams()
    signals.handle("regard", connects=torchrun.is_used())
    keep_freed_memory()
    try:
        torchrun.end_with_launcher()
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # before a command began, or while an error was being printed
        print("regard: interrupted", file=sys.stderr)
        status = signals.INTERRUPTED
    except signals.TerminatedError:
        print("regard: terminated", file=sys.stderr)
        status = signals.TERMINATED
    finally:
        signals.ignore()
    if torchrun.is_used():
        # A thread of torch.distributed sometimes aborts a process whose interpreter ends, and
        # torchrun would take the finished training for a failed one.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command and return the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"regard {VERSION}")
        return 0
    try:
        instruction_set.limit()
    except ValueError as error:
        print(f"regard: {error}", file=sys.stderr)
        return 2
    end = arguments.index("--") if "--" in arguments else len(arguments)
    if PLAIN in arguments[:end]:
        os.environ["REGARD_PLAIN"] = "1"  # also for the processes that a command starts
        return run([word for word in arguments[:end] if word != PLAIN] + list(arguments[end:]))
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`regard --help` lists the commands"
        print(f"regard: unknown command {format_value(name)}; {hint}", file=sys.stderr)
        return UsageError.STATUS
    place = f" (process {torchrun.rank()})" if torchrun.rank() else ""
    command = module_of(name)
    try:
        status = command.run(list(_with_hyphens(rest))) or 0
        sys.stdout.flush()  # reports a full disk as one line
        return status
    except ConnectionLostError as error:
        if not torchrun.has_launcher():  # otherwise it tells why the other process ended
            warn(f"regard {name}{place}: {error}")
        return error.STATUS
    except UserError as error:
        message = with_own_options(str(error), getattr(command, "Options", None))
        warn(f"regard {name}{place}: {message}")
        return error.STATUS
    except BrokenPipeError:
        drop_output()
        return 1
    except (OSError, UnicodeError) as error:
        print(f"regard {name}{place}: {_in_words(error)}", file=sys.stderr)
        drop_output()
        return 1
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"regard {name}{place}: {OUT_OF_MEMORY}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(f"regard {name}{place}: interrupted{_notes(error)}", file=sys.stderr)
        return signals.INTERRUPTED
    except signals.TerminatedError as error:
        print(f"regard {name}{place}: terminated{_notes(error)}", file=sys.stderr)
        return signals.TERMINATED


def module_of(command: str) -> ModuleType:
    """Return the module of a command."""
    return importlib.import_module(f"regard.cli.{COMMANDS[command][0]}")


def _notes(error: BaseException) -> str:
    """Return the notes of an exception, for the end of a line."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", ()))


def _with_hyphens(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments with hyphens for the underscores in names of options, which recipes and
    Python write: --data.source_column."""
    are_options = True
    for argument in arguments:
        are_options = are_options and argument != "--"
        name, equals, value = argument.partition("=")
        is_option = are_options and name.startswith("--")
        yield name.replace("_", "-") + equals + value if is_option else argument


def _in_words(error: OSError | UnicodeError) -> str:
    """Return an error of the system as one line."""
    if isinstance(error, UnicodeEncodeError):
        letters = ascii(error.object[error.start : error.end])
        written = is_text(error.object[error.start : error.end])
        remedy = "set PYTHONIOENCODING=utf8" if written else "type the arguments in UTF-8"
        return f"cannot write {letters} in {error.encoding}: {remedy}"
    if isinstance(error, OSError) and error.strerror:
        return f"{shorten_name(error.filename or 'the output')}: {error.strerror.lower()}"
    return " ".join(str(error).split())


def _help() -> str:
    lines = [f"  {name:10} {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "Train and run attention models, and draw their attention.",
            "",
            "usage: regard COMMAND [ARGUMENTS]        regard COMMAND --help",
            "",
            *lines,
            "",
            f"  {PLAIN:10} with any command: run the formulas instead of accelerated classes",
        ]
    )


if __name__ == "__main__":
    main()
