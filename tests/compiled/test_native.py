"""Native classes: when a module is replaced, copies, and calls that run in PyTorch."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import product

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules.module import register_module_forward_hook

from regard import kernels
from regard.compiled.exact import kind_of
from regard.compiled.freeze import freeze
from tests.compiled.cases import CASES
from tests.compiled.native_steps import copies_of

pytestmark = pytest.mark.skipif(not kernels.available(), reason="the kernels are not compiled")

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
CHANGES = [
    pytest.param(case, change, id=f"{name}-{label}")
    for name, case in CASES.items()
    for label, change in case.changes.items()
]


@pytest.mark.parametrize(("case", "change"), CHANGES)
@pytest.mark.usefixtures("unchecked")
def test_modules_with_other_parts_are_not_replaced(case, change):
    module = case.of(case.problems.model_of())
    assert case.native.is_supported(module)
    change(module)
    assert not case.native.is_supported(module)
    assert case.native.replacing(module) is module
    with pytest.raises(ValueError, match="a part has no kernel"):
        case.native(module)


@pytest.mark.parametrize(
    ("case", "values"),
    [
        pytest.param(case, values, id=f"{name}-{label}")
        for name, case in CASES.items()
        for label, values in case.other_models.items()
    ],
)
def test_other_models_are_not_replaced(case, values):
    model = case.problems.model_of(**values)
    assert type(case.of(freeze(model))) is type(case.of(model))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("recurrent decoder", "output"),
        *product(
            ("Transformer decoder", "Transformer encoder"),
            ("norm", "last norm", "torch's linear", "other temperature"),
        ),
        ("Transformer decoder", "temperature of cross-attention"),
        ("Transformer encoder", "window"),
    ],
)
@pytest.mark.usefixtures("unchecked")
@torch.no_grad()
def test_parts_without_a_kernel_use_the_reference(name, label):
    """Parts that are replaced before the first call, or before the model is frozen again."""
    case = CASES[name]
    frozen = freeze(case.problems.model_of())
    native = case.of(frozen)
    case.changes[label](native.reference)
    case.assert_reference(native.reference, native)
    assert type(case.of(freeze(frozen))) is type(native.reference)


@every_case
@torch.no_grad()
def test_copies_pickles_and_frozen_models_that_are_frozen_again_give_the_same_bits(case):
    frozen = freeze(case.problems.model_of())
    expected = case.results(case.of(frozen))
    copies = [*copies_of(frozen), freeze(frozen)]
    del frozen
    for duplicate in map(case.of, copies):
        assert duplicate._weights is None
        assert kind_of(duplicate.reference) is case.reference
        results = case.results(duplicate)
        assert duplicate._weights is not None
        for ours, theirs in zip(results, expected, strict=True):
            assert torch.equal(ours, theirs)


@every_case
@torch.no_grad()
def test_a_native_module_that_is_not_renewed_has_one_reference(case):
    """Because it has a hook, or is the whole model that is frozen."""
    model = case.problems.model_of()
    frozen = freeze(model)
    case.assert_native(case.of(model), freeze(case.of(frozen)))
    case.of(frozen).register_forward_hook(lambda *_: None)
    again = case.of(freeze(frozen))
    assert kind_of(again.reference) is case.reference
    case.assert_native(case.of(model), again)


@contextmanager
def compiling():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.compiler, "is_compiling", lambda: True)
        yield


MODES = {
    "gradients": torch.enable_grad,
    "autocast": partial(torch.autocast, "cpu", torch.bfloat16),
    "forward derivatives": forward_ad.dual_level,
    "compiler": compiling,
}


@pytest.mark.parametrize("mode", MODES)
@every_case
@torch.no_grad()
def test_modes_of_pytorch_use_the_reference(case, mode):
    """From the start, and from a native state. C++ computes the next start."""
    reference, native = case.pair()
    tolerance = 0.1 if mode == "autocast" else 2e-5
    for state in (None, case.start(native)):
        with MODES[mode]():
            case.assert_reference(reference, native, state, tolerance)
    case.assert_native(reference, native)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float64, 1e-9)])
@every_case
@torch.no_grad()
def test_other_types_use_the_reference(case, dtype, tolerance):
    reference, native = case.pair(dtype)
    case.assert_reference(reference, native, tolerance=tolerance, dtype=dtype)


@every_case
@torch.no_grad()
def test_without_the_library_the_reference_computes(case, monkeypatch):
    model = case.problems.model_of()
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    case.assert_reference(case.of(model), case.of(freeze(model)))


@every_case
@torch.no_grad()
def test_in_training_the_reference_computes(case):
    reference, native = case.pair(dropout=0.0)
    case.assert_reference(reference, native.train())
    case.assert_native(reference, native.eval())


@every_case
@torch.no_grad()
def test_dropout_of_the_reference_has_an_effect(case):
    """Also if only the reference, or only its dropout, is in training."""
    _, native = case.pair(dropout=0.5)

    def varies(state=None):
        return not torch.equal(*(case.call(native, state) for _ in range(2)))

    state = case.start(native)
    native.reference.train()
    assert varies(state)
    assert varies()
    native.reference.eval()
    assert not varies()
    for module in native.reference.modules():
        module.train(isinstance(module, nn.Dropout))
    assert varies()


@every_case
@torch.no_grad()
def test_hooks_are_called_from_the_next_start_on(case):
    """Hooks of a module, and of all modules."""
    reference, native = case.pair()
    module, calls = native.reference.get_submodule(case.hooked), []
    for register in (module.register_forward_hook, register_module_forward_hook):
        with register(lambda part, *_: calls.append(part)):
            case.call(native)
        assert module in calls
        calls.clear()
        state = case.start(native)
        with register(lambda part, *_: calls.append(part)):
            if state is not None:
                case.call(native, state)
                assert module not in calls
            case.call(native)
        assert module in calls
        case.assert_native(reference, native)
