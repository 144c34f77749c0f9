"""The choice of a library for matrix products: its table, its record, and equal results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product

import pytest
import torch

from regard.numerics import linear as linear_module
from regard.numerics import product_library
from regard.numerics.linear import Linear, batch_matmul, linear, weight_gradient
from regard.numerics.product_library import (
    ONEDNN,
    SHAPE_CLASSES,
    choice,
    class_of_gradient,
    class_of_product,
    using,
)

needs_onednn = pytest.mark.skipif(linear_module.LINEAR is None, reason="PyTorch without oneDNN")


def test_every_row_of_the_table_has_all_classes():
    for libraries in product_library.table().values():
        assert list(libraries) == list(SHAPE_CLASSES)


def test_a_cpu_without_rows_uses_onednn():
    assert choice("other", "avx2") == choice("AMD", "baseline") == ONEDNN


def test_rows_of_any_instruction_set_hold_for_sets_without_rows():
    assert ("Intel", "baseline") not in product_library.table()
    assert set(choice("Intel", "baseline").values()) == {"mkl"}


def test_mkl_computes_all_products_on_intel():
    assert set(choice("Intel", "avx2").values()) == {"mkl"}
    assert set(choice("Intel", "avx512").values()) == {"mkl"}


def test_products_on_amd_depend_on_the_instruction_set():
    assert choice("AMD", "avx2")["many_rows"] == "mkl"
    assert choice("AMD", "avx512")["many_rows"] == "onednn"


@pytest.mark.parametrize(
    ("sizes", "of_product", "of_gradient"),
    [
        ((64, 256, 255), "small", "small"),
        ((64, 256, 256), "few_rows", "small_gradient"),
        ((127, 256, 8000), "few_rows", "gradient"),
        ((128, 512, 256), "many_rows", "gradient"),
    ],
)
def test_classes_have_these_bounds(sizes, of_product, of_gradient):
    assert class_of_product(*sizes) == of_product
    assert class_of_gradient(*sizes) == of_gradient


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        ("vendor_id\t: AuthenticAMD\n", "AMD"),
        ("vendor_id\t: GenuineIntel\n", "Intel"),
        ("CPU implementer\t: 0x41\n", "other"),
    ],
)
def test_the_vendor_is_read_from_cpuinfo(text, vendor, tmp_path, monkeypatch):
    monkeypatch.setattr(product_library, "CPUINFO", tmp_path / "cpuinfo")
    product_library.CPUINFO.write_text(text)
    assert product_library.vendor() == vendor


def test_without_cpuinfo_the_processor_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(product_library, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.processor", lambda: "Intel64 Family 6 Model 85, GenuineIntel")
    assert product_library.vendor() == "Intel"


def test_a_limit_lowers_the_instruction_set(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setenv("REGARD_INSTRUCTION_SET", "avx2")
    assert product_library.instructions() == "avx2"
    monkeypatch.delenv("REGARD_INSTRUCTION_SET")
    assert product_library.instructions() == "avx512"


def test_a_choice_ends_with_its_block_also_after_an_error():
    before = product_library.current()
    during = []

    def fail():
        with using({"many_rows": "mkl"}):
            during.append(product_library.current())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert during == [{**ONEDNN, "many_rows": "mkl"}]
    assert product_library.current() == before


def test_blocks_of_two_threads_need_one_choice():
    """The first block may end first."""
    before, first, second = product_library.current(), ExitStack(), ExitStack()
    mkl = {"many_rows": "mkl"}
    first.enter_context(using(mkl))
    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(RuntimeError, match="train in two processes"):
            thread.submit(second.enter_context, using({"small": "mkl"})).result()
        thread.submit(second.enter_context, using(mkl)).result()
        first.close()
        assert product_library.current() == {**ONEDNN, **mkl}
        thread.submit(second.close).result()
    assert product_library.current() == before


@pytest.mark.parametrize("recorded", [{"huge": "mkl"}, {"small": "blas"}])
def test_an_unknown_choice_is_rejected(recorded):
    before = product_library.current()
    with pytest.raises(ValueError, match="library of products"), using(recorded):
        pass
    assert product_library.current() == before


@pytest.fixture
def calls(monkeypatch):
    """Shapes of the products that oneDNN computes."""
    calls, compute = [], linear_module.LINEAR
    monkeypatch.setattr(
        linear_module,
        "LINEAR",
        lambda x, *rest: (calls.append(tuple(x.shape)), compute(x, *rest))[1],
    )
    return calls


SIZES = {
    "small": (53, 131, 197),
    "few_rows": (61, 257, 521),
    "many_rows": (131, 257, 521),
    "small_gradient": (131, 257, 263),
    "gradient": (131, 257, 521),
}


@needs_onednn
@pytest.mark.parametrize(("name", "library"), [*product(SHAPE_CLASSES, ("mkl", "onednn"))])
def test_both_libraries_compute_the_product_of_float64(name, library, calls):
    rows, inner, columns = SIZES[name]
    inputs, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    grad_output = torch.randn(rows, columns)
    with using({**dict.fromkeys(SHAPE_CLASSES, "mkl"), name: library}):
        if "gradient" in name:
            result, expected = (
                weight_gradient(grad_output, inputs),
                grad_output.double().T @ inputs.double(),
            )
        else:
            result, expected = linear(inputs, weight), inputs.double() @ weight.double().T
    torch.testing.assert_close(result, expected.float(), rtol=1e-5, atol=3e-4)
    assert len(calls) == (library == "onednn")


@needs_onednn
@pytest.mark.parametrize("library", ["mkl", "onednn"])
def test_batches_of_products_use_the_library_of_their_class(library, calls):
    left, right = torch.randn(3, 131, 257), torch.randn(3, 257, 521)
    with using({"many_rows": library}):
        result = batch_matmul(left, right)
    torch.testing.assert_close(
        result, (left.double() @ right.double()).float(), rtol=1e-5, atol=3e-4
    )
    assert len(calls) == 3 * (library == "onednn")


@needs_onednn
def test_where_mkl_computes_everything_the_layer_is_that_of_torch(calls):
    layer, inputs = Linear(257, 521), torch.randn(131, 257, requires_grad=True)
    with using(dict.fromkeys(SHAPE_CLASSES, "mkl")):
        result = layer(inputs)
        result.sum().backward()
    expected = torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    assert torch.equal(result, expected)
    assert not calls


@needs_onednn
def test_bfloat16_is_not_in_the_table(monkeypatch):
    calls = []

    def compute(inputs, weight, bias, *_):  # also on CPUs where oneDNN has no bfloat16
        calls.append(tuple(inputs.shape))
        return torch.nn.functional.linear(inputs, weight, bias)

    monkeypatch.setattr(linear_module, "LINEAR", compute)
    monkeypatch.setattr(linear_module, "_TYPES", (torch.float32, torch.bfloat16))
    inputs, weight = torch.randn(131, 257).bfloat16(), torch.randn(521, 257).bfloat16()
    with using(dict.fromkeys(SHAPE_CLASSES, "mkl")):
        linear(inputs, weight)
    assert len(calls) == 1
