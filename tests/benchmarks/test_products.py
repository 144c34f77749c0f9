"""Speeds of products: the shapes, and the rows of the shipped table."""

import pytest

from regard.numerics import linear, product_library
from tests.benchmarks.scripts import script

products = script("products")


def test_the_shapes_have_all_classes():
    assert {shape.shape_class for shape in products.shapes()} == set(product_library.SHAPE_CLASSES)


def speeds(**gains):
    """Return the speed of a shape of every class: 10 GFLOP/s by oneDNN, times the gain by MKL."""
    shapes = {shape.shape_class: shape for shape in products.shapes()}
    return [
        products.Speed(shape, {"mkl": 1e10 * gains.get(name, 1.0), "onednn": 1e10})
        for name, shape in shapes.items()
    ]


def test_mkl_computes_a_class_where_it_is_clearly_faster():
    rows = products.rows_of(speeds(small=1.5, gradient=1.01), "AMD", "avx2", "a CPU")
    cells = [row.split("\t") for row in rows]
    assert [(name, library) for _, _, name, library, *_ in cells] == [
        (name, "mkl" if name == "small" else "onednn") for name in product_library.SHAPE_CLASSES
    ]
    assert cells[0] == ["AMD", "avx2", "small", "mkl", "15", "10", "a CPU"]


def test_rows_replace_those_of_their_vendor_and_instruction_set():
    header, old, other = (
        "header",
        "AMD\tavx2\tsmall\tmkl\t1\t1\told",
        "Intel\tany\tsmall\tmkl\t\t\tx",
    )
    rows = products.rows_of(speeds(), "AMD", "avx2", "new")
    assert products.replaced("\n".join((header, old, other)), rows).splitlines() == [
        header,
        *rows,
        other,
    ]


def test_rows_of_a_limited_cpu_do_not_replace_those_of_a_real_one():
    real = "AMD\tavx2\tsmall\tmkl\t1\t1\ta real CPU"
    limited = "AMD\tavx2\tgradient\tmkl\t1\t1\tanother CPU limited to avx2"
    rows = products.rows_of(speeds(), "AMD", "avx2", "a CPU limited to avx2")
    lines = products.replaced("\n".join(("header", real, limited)), rows).splitlines()
    assert real in lines
    assert limited not in lines
    assert sorted(lines[1:]) == sorted([real, *rows[1:]])


@pytest.mark.skipif(linear.LINEAR is None, reason="PyTorch without oneDNN")
def test_each_library_computes_its_own_turns(monkeypatch):
    calls, compute = [], linear.LINEAR
    monkeypatch.setattr(linear, "LINEAR", lambda *a: (calls.append(1), compute(*a))[1])
    functions = products.products_of(products.Shape(64, 256, 257))
    functions["mkl"]()
    assert not calls
    functions["onednn"]()
    assert len(calls) == 1
    speed = products.measure(products.Shape(64, 256, 257), 1)
    assert set(speed.speeds) == set(functions)
    assert all(value > 0 for value in speed.speeds.values())
