"""`python -m regard`, and where the console's `regard` begins."""

import signal

from regard import interruption


def main() -> None:
    """Run the command line. Ctrl-C is handled before anything large is imported."""
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
