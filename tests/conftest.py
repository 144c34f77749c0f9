"""Every test of `make test` runs with the types of shapes checked at run time, and can be
interrupted. REGARD_TEST_SHAPES=0 omits these checks, which take half of a test's time."""

import gc
import os
import signal
from dataclasses import replace
from functools import partial

import jaxtyping
import pytest
from jaxtyping import install_import_hook

from tests import types_of_shapes

gc.disable()  # until all tests are imported
if os.environ.get("REGARD_TEST_SHAPES") != "0":
    # The hook decorates with the function that bears this name.
    jaxtyping.jaxtyped = partial(types_of_shapes.jaxtyped, original=jaxtyping.jaxtyped)
    install_import_hook("regard", "beartype.beartype")
    types_of_shapes.find_submodules()

# What a shell starts in the background ignores Ctrl-C, and so would the tests of interruption.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Exempt modules and tests, which stay until the end, from the search for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup():
    """Check the first calls of every function again."""
    types_of_shapes.Turn.number += 1


@pytest.fixture(autouse=True, scope="session")
def _session(tmp_path_factory):
    """Tests keep nothing for the person's own runs. The estimate of a training's memory, which
    takes a third of a tiny training, is made once for each kind of model, data and objective."""
    from regard.training.peak_memory import peak_of_update  # after the hook

    kinds = set()

    def peak(model, objective, batch, precision):
        kind = precision, *map(type, (objective, batch, model, *model.children()))
        if kind in kinds:
            return 0
        kinds.add(kind)
        return peak_of_update(model, objective, batch, precision)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr("regard.pipeline.plan.peak_of_update", peak)
        yield


@pytest.fixture
def unchecked():
    """Run without the types of shapes: a user's call is not held to them, and they fix the batch
    size of an export."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params={"baseline": 4, "AVX2": 8, "AVX-512": 16}.items(), ids=lambda item: item[0])
def instruction_set(request):
    """The kernels, by each set of instructions that this CPU has."""
    from regard import kernels  # after the hook

    if not kernels.available():
        pytest.skip("the kernels are not compiled")
    best, (name, wanted) = kernels.lanes(), request.param
    if kernels.lanes(wanted) != wanted:
        pytest.skip(f"this CPU has no {name}")
    yield
    kernels.lanes(best)


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a trained run."""
    from regard.pipeline.train import train
    from tests.small_runs import small

    folder = tmp_path_factory.mktemp("runs") / "small"
    train(small(teacher_forcing=0.5), folder)
    return folder


@pytest.fixture
def toy():
    """The recipe `toy` with fewer epochs."""
    from regard import recipes

    experiment = recipes.load(recipes.find("toy"))
    return replace(experiment, training=replace(experiment.training, epochs=3))
