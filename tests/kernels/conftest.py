"""Fixtures of the tests of wrong inputs."""

import sys

import pytest

from regard import kernels
from tests.kernels.wrong_inputs import INPUTS, OUTCOMES


@pytest.fixture(params=["compiled", "torch"], scope="module")
def library(request):
    """Run with and without the compiled library."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(kernels, "_LIBRARY", None)
        elif not kernels.available():
            pytest.skip("the kernels are not compiled")
        yield request.param


@pytest.fixture
def outcomes(capsys):
    """Print the numbers of computed and rejected inputs of a function, if they are large."""
    OUTCOMES.clear()
    yield
    if INPUTS > 100:
        with capsys.disabled():
            for name, counter in OUTCOMES.items():
                sys.stdout.write(f"\n{name}: {dict(counter)}\n")
