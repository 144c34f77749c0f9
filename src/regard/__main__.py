"""`python -m regard`, and the entry point of the console script `regard`."""

import signal

from regard.runtime import signals


def main() -> None:
    """Run the command line. The handler of Ctrl-C is set before any large import."""
    try:
        signals.handle("regard")
        from regard.cli.main import main as run

        run()
    except KeyboardInterrupt:
        signals.leave("regard")
    except signals.TerminatedError:
        signals.leave("regard", signal.SIGTERM)


if __name__ == "__main__":
    main()
