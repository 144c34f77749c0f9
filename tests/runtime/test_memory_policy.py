"""Freed memory is kept, so that later allocations need no new pages."""

import os
import subprocess
import sys

import pytest

from regard.runtime import memory_policy

PROGRAM = """
import resource, torch
from regard.runtime.memory_policy import keep_freed_memory
if {keeps} and not keep_freed_memory():
    raise SystemExit("cannot")
for update in range(10):
    if update == 6:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_memory_pages_are_requested_once():
    kept, given_back = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(keeps=keeps)],
            capture_output=True,
            text=True,
            check=False,
        )
        for keeps in (True, False)
    )
    if kept.stderr.strip() == "cannot":
        pytest.skip("this C library has no such settings")
    assert int(given_back.stdout) > 12 * 1000  # sixty-four megabytes, twelve times
    assert int(kept.stdout) < 1000


COLLECTION = """
import gc
from regard.runtime.memory_policy import pause_collection
for number in range(2):
    try:
        with pause_collection():
            print(gc.isenabled(), end=" ")
            import torch
            raise ImportError
    except ImportError:
        print(gc.isenabled(), gc.get_freeze_count() > 100_000, end=" ")
"""


def test_only_the_import_of_torch_pauses_collection():
    done = subprocess.run(
        [sys.executable, "-c", COLLECTION], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "True", "True", "True", "True"]


def test_cached_products_are_limited_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("LRU_CACHE_CAPACITY", raising=False)
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    memory_policy.limit_cached_products()
    assert os.environ.pop("LRU_CACHE_CAPACITY") == "64"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
