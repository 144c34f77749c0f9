"""The one exception that a person's input can cause."""


class UserError(Exception):
    """Says in one line what came, what was expected and what to do. The command line prints it
    without a traceback and exits with a non-zero status."""
