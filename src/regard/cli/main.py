"""`regard`: finds the command and turns a person's mistake into one line."""

from __future__ import annotations

import difflib
import importlib
import os
import sys

from regard import instruction_set, interruption
from regard.cli.output import drop_output
from regard.cli.typed import is_text
from regard.config.checks import shown
from regard.errors import UsageError, UserError
from regard.files import shortened
from regard.memory_policy import keep_freed_memory
from regard.version import VERSION

COMMANDS = {
    "train": "train a recipe, or a file of pairs",
    "translate": "lines in, as many lines out",
    "classify": "lines in, a label or a number for each",
    "caption": "pictures in, a caption for each",
    "evaluate": "score a run, with signatures",
    "score": "log probability of given targets, with attention",
    "plot": "draw what an output looked at",
    "export": "write a run for onnxruntime or CTranslate2",
    "average": "the mean of the weights of several runs, as a run",
    "data": "fetch or generate data",
    "check": "look at data before training",
    "recipes": "list the recipes, or show one",
    "demo": "two minutes of everything, on number words",
}

NO_MEMORY = ("DefaultCPUAllocator", "out of memory", "Storage size calculation overflowed")
OUT_OF_MEMORY = (
    "not enough memory: lower the sizes of the model, the tokens of a batch or the beam, or take "
    "shorter texts"
)


def main() -> None:
    """The console entry point."""
    # Threads that wait for each other spin, and after so many turns sleep. With the 300,000 of GNU
    # OpenMP a busy core beside ours made training ten times slower; sleeping at once costs half on
    # a quiet machine. It is read once, when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    interruption.handle("regard")
    keep_freed_memory()
    try:
        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # while an error was being printed
        status = interruption.INTERRUPTED
    except interruption.TerminatedError:
        status = interruption.TERMINATED
    finally:
        interruption.ignore()
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command; returns the exit status."""
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
    name, *rest = arguments
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`regard --help` lists the commands"
        print(f"regard: unknown command {shown(name)}; {hint}", file=sys.stderr)
        return UsageError.STATUS
    command = importlib.import_module(f"regard.cli.{name}")
    try:
        status = command.run(rest) or 0
        sys.stdout.flush()  # a full disk is met now, where it can be said
        return status
    except UserError as error:
        print(f"regard {name}: {error}", file=sys.stderr)
        return UsageError.STATUS if isinstance(error, UsageError) else 1
    except BrokenPipeError:
        drop_output()
        return 1
    except (OSError, UnicodeError) as error:
        print(f"regard {name}: {_in_words(error)}", file=sys.stderr)
        drop_output()
        return 1
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        print(f"regard {name}: {OUT_OF_MEMORY}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"regard {name}: interrupted", file=sys.stderr)
        return interruption.INTERRUPTED
    except interruption.TerminatedError:
        print(f"regard {name}: terminated", file=sys.stderr)
        return interruption.TERMINATED


def _is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether an allocation failed: PyTorch raises a RuntimeError, whose message tells."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in NO_MEMORY)


def _in_words(error: OSError | UnicodeError) -> str:
    """One line of what the machine refused, where no command knew better."""
    if isinstance(error, UnicodeEncodeError):
        letters = ascii(error.object[error.start : error.end])
        typed = not is_text(error.object)
        remedy = "what was typed has to be UTF-8" if typed else "set PYTHONIOENCODING=utf8"
        return f"cannot write {letters} in {error.encoding}: {remedy}"
    if isinstance(error, OSError) and error.strerror:
        return f"{shortened(error.filename or 'the output')}: {error.strerror.lower()}"
    return " ".join(str(error).split())


def _help() -> str:
    lines = [f"  {name:10} {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "Regard trains, runs and opens up attention models.",
            "",
            "usage: regard COMMAND [ARGUMENTS]        regard COMMAND --help",
            "",
            *lines,
        ]
    )


if __name__ == "__main__":
    main()
