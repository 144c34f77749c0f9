"""Import of the scripts in benchmarks/, which is no package."""

import sys
from importlib import import_module
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name):
    """Import a script with the modules beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))
