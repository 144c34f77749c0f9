"""Unusual and wrong tensors, and the comparison of results with a formula.

REGARD_FUZZ=5000 tries 5000 inputs for each function; the default is small.
"""

import math
import os
from collections import Counter

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

INPUTS = int(os.environ.get("REGARD_FUZZ", "20"))
OUTCOMES: dict[str, Counter] = {}

fuzzed = settings(
    max_examples=INPUTS,
    deadline=None,
    derandomize=INPUTS <= 100,
    database=None,
    suppress_health_check=list(HealthCheck),
)

axis = st.sampled_from([1, 1, 2, 2, 3, 3, 3, 0, 5, 17])
batches = st.lists(st.sampled_from([1, 2, 2, 3, 0]), max_size=2).map(tuple)
SIZE = 6
sizes = st.sampled_from([SIZE] * 12 + [1, 0, SIZE - 1, SIZE + 11, 2 * SIZE])
dtypes = st.sampled_from([torch.float32] * 12 + [torch.bfloat16, torch.float64, torch.int64])
devices = st.sampled_from(["cpu"] * 30 + ["meta"])
layouts = st.sampled_from(["dense", "dense", "strided", "expanded", "turned"])
numbers = st.sampled_from(["normal"] * 6 + ["large", "nan", "inf"])
mask_dtypes = st.sampled_from([torch.bool] * 8 + [torch.uint8, torch.int64, torch.float32])


def tensor(draw, shape, *, dtype=None, special=True):
    """Draw numbers of this shape in any type, layout and device."""
    shape = tuple(shape)
    dtype = draw(dtypes) if dtype is None else dtype
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1 << 30)))
    kind = draw(numbers) if special else "normal"
    layout = draw(layouts)
    base = shape
    if layout == "strided" and shape:
        base = (*shape[:-1], 2 * shape[-1] + 1)
    elif layout == "expanded" and shape:
        base = (*shape[:-1], 1)
    elif layout == "turned" and len(shape) > 1:
        base = (*shape[:-2], shape[-1], shape[-2])
    values = torch.randn(base, generator=generator)
    if kind == "large":
        values = values * 10.0 ** draw(st.sampled_from([2, 10, 38]))
    elif kind in ("nan", "inf") and values.numel():
        place = draw(st.integers(0, values.numel() - 1))
        values.view(-1)[place] = (
            math.nan if kind == "nan" else draw(st.sampled_from([math.inf, -math.inf]))
        )
    values = values.to(dtype)
    if layout == "strided" and shape:
        values = values[..., : 2 * shape[-1] : 2]
    elif layout == "expanded" and shape:
        values = values.expand(shape)
    elif layout == "turned" and len(shape) > 1:
        values = values.mT
    return values.to(draw(devices))


def outcome(call):
    """Return the result of a call, or None if it raises ValueError. Other errors are defects."""
    try:
        return call()
    except ValueError:
        return None


def record(name, library, result):
    kind = "rejected" if result is None else "computed"
    OUTCOMES.setdefault(f"{name} ({library})", Counter())[kind] += 1


def must_be(result, formula, *tensors):
    """Compare a result with the formula, which must accept the inputs. Numbers out of float32's
    range are compared by shape only."""
    expected = formula()
    assert result.shape == expected.shape, (result.shape, expected.shape)
    usual = all(
        x is None or not x.is_floating_point() or (x.isfinite().all() and (x.abs() < 1e4).all())
        for x in tensors
    )
    if usual:
        rough = any(x is not None and x.dtype == torch.bfloat16 for x in tensors)
        tolerance = 0.1 if rough else 2e-4
        torch.testing.assert_close(
            result.double(), expected.double(), rtol=tolerance, atol=tolerance
        )
