"""The device of the tests marked `gpu`, and the conditions under which they run."""

import os

import pytest

from tests.gpu import devices
from tests.gpu.comparison import tf32

# Without it, products of a GPU are not deterministic. It is read when the first one is computed.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def pytest_collection_modifyitems(items):
    here = [item for item in items if item.path.parent == devices.FOLDER]
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if not devices.is_there():
            item.add_marker(pytest.mark.skip(reason=devices.MISSING))


@pytest.fixture
def device():
    """The device, without TF32, which cuDNN uses by default for products of float32 numbers."""
    with devices.active() as device, tf32(allowed=False):
        yield device
