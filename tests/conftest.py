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
from tests.messages import MESSAGES

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


def pytest_runtest_setup(item):
    """Check the first calls of every function again, and begin with the first message."""
    types_of_shapes.Turn.number += 1
    MESSAGES.begin(item.nodeid)


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
        MESSAGES.folder = tmp_path_factory.getbasetemp()
        yield
    MESSAGES.write()


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
def trained(tmp_path_factory):
    """Function that returns the run of an experiment's name, which is trained once and read only;
    `evaluate` may add results."""
    from regard.pipeline.train import train
    from tests.small_runs import EXPERIMENTS

    folder, contents = tmp_path_factory.mktemp("trained"), {}

    def read(run):
        files = (path for path in run.rglob("*") if path.is_file() and path.name != "results.json")
        return {path: path.read_bytes() for path in files}

    def run_of(name):
        run = folder / name
        if run not in contents:
            train(EXPERIMENTS[name](folder), run)
            contents[run] = read(run)
        return run

    yield run_of
    changed = [run.name for run in contents if read(run) != contents[run]]
    assert not changed, "a test has changed a run that tests share: copy it"


@pytest.fixture(scope="session")
def run(trained):
    """The folder of a trained run."""
    return trained("translation")


@pytest.fixture
def toy():
    """The recipe `toy` with fewer epochs."""
    from regard import recipes

    experiment = recipes.load(recipes.find("toy"))
    return replace(experiment, training=replace(experiment.training, epochs=3))
