"""Whether bfloat16 is said to be fast only where the machine lists the instructions."""

from pathlib import Path

import pytest

from regard.training.precision import has_fast_bfloat16

FLAGS = Path("/proc/cpuinfo")


@pytest.mark.skipif(not FLAGS.exists(), reason="the judge is Linux's list of instructions")
def test_the_cpu_is_asked():
    flags = set(FLAGS.read_text().split())
    assert has_fast_bfloat16("cpu") == bool(flags & {"amx_bf16", "avx512_bf16", "svebf16"})


def test_other_devices_are_not_promised():
    assert not has_fast_bfloat16("meta")
