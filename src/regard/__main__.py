"""`python -m regard`, and the entry point of the console script `regard`."""

import signal

from regard import interruption


def main() -> None:
    """Run the command line. The handler of Ctrl-C is set before any large import."""
    try:
        interruption.handle("regard")
        from regard.cli.main import main as run

        run()
    except KeyboardInterrupt:
        interruption.leave("regard")
    except interruption.TerminatedError:
        interruption.leave("regard", signal.SIGTERM)


if __name__ == "__main__":
    main()
