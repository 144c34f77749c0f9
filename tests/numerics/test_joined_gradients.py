"""Gradients of parameters that every step of a loop reads, compared with those of PyTorch."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from threading import Thread

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.compiled.recurrent.lookup import lookup
from regard.numerics.joined_gradients import JoinedParameters, joined_gradients
from regard.numerics.linear import JOINED_ROWS, Linear, affine

STEPS, BATCH, SIZE, WORDS = 4, 3, 5, 7


class Loop(nn.Module):
    """Recurrence whose steps read a layer twice, a layer without a bias, and an embedding."""

    def __init__(self, dtype=torch.double):
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(WORDS, SIZE, padding_idx=0, dtype=torch.double)
        self.inner = Linear(SIZE, SIZE, dtype=torch.double)
        self.outer = Linear(SIZE, SIZE, bias=False, dtype=torch.double)
        self.to(dtype)

    def forward(self, tokens, state):
        outputs = []
        for step in tokens.T:
            state = torch.tanh(self.inner(state) + self.outer(lookup(self.embedding, step)))
            state = torch.tanh(self.inner(state)) + affine(state, self.embedding.weight[:SIZE])
            outputs.append(state)
        return torch.stack(outputs)


def start(dtype=torch.double):
    """Return tokens, the first state, and weights of the loss."""
    torch.manual_seed(2)
    tokens = torch.randint(WORDS, (BATCH, STEPS))
    state, weights = (torch.randn(*axes, SIZE).to(dtype) for axes in ((BATCH,), (STEPS, BATCH)))
    return tokens, state.requires_grad_(), weights


def is_joined(output):
    """Whether the gradient of a layer's output is joined with those of other steps."""
    return "_Affine" in str(output.grad_fn.next_functions)


def gradients_of(loop, *, joined, times=1):
    """Return the gradients of the state and of all parameters."""
    tokens, state, weights = start(loop.inner.weight.dtype)
    if joined:
        with joined_gradients():
            outputs = loop(tokens, state)
    else:
        outputs = loop(tokens, state)
    for time in range(times):
        (outputs * weights).sum().backward(retain_graph=time < times - 1)
    return [state.grad, *(parameter.grad for parameter in loop.parameters())]


def assert_equal(ours, theirs, tolerance=1e-12):
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


def test_gradients_equal_those_of_single_steps():
    assert_equal(gradients_of(Loop(), joined=True), gradients_of(Loop(), joined=False))


def test_finite_differences_agree():
    loop = Loop()
    tokens, state, _ = start()
    tokens = tokens.clamp(min=1)  # the gradient of padding is zero
    names = [name for name, _ in loop.named_parameters()]

    def outputs(first, *parameters):
        with joined_gradients():
            return torch.func.functional_call(
                loop, dict(zip(names, parameters, strict=True)), (tokens, first)
            )

    parameters = [parameter.detach().clone().requires_grad_() for parameter in loop.parameters()]
    assert torch.autograd.gradcheck(outputs, (state, *parameters), fast_mode=True)


def test_every_parameter_has_one_product(monkeypatch):
    calls = []
    gradient = torch.Tensor.__matmul__
    monkeypatch.setattr(
        "regard.numerics.linear.weight_gradient",
        lambda grad_output, inputs: (calls.append(len(inputs)), gradient(grad_output.T, inputs))[1],
    )
    gradients_of(Loop(), joined=True)
    assert sorted(calls) == [*[BATCH] * STEPS, STEPS * BATCH, 2 * STEPS * BATCH]
    # the slice of the embedding is another tensor at every step


def test_gradients_add_up_over_two_backward_passes():
    once = gradients_of(Loop(), joined=True)
    assert_equal(gradients_of(Loop(), joined=True, times=2), [2 * each for each in once])


def test_frozen_parameters_have_no_gradient():
    loops = Loop(), Loop()
    for loop in loops:
        loop.inner.bias.requires_grad_(False)
        loop.outer.weight.requires_grad_(False)
        loop.embedding.weight.requires_grad_(False)
    ours, theirs = (
        gradients_of(loop, joined=joined) for loop, joined in zip(loops, (True, False), strict=True)
    )
    assert [each is None for each in ours] == [False, True, False, True, True]
    assert_equal(ours[:1] + ours[2:3], theirs[:1] + theirs[2:3])


def leaves_nothing(use):
    """Whether no factor of a step outlives the graph of a loop. `use` runs a backward pass."""
    loop = Loop()
    tokens, state, weights = start()
    seen = []
    save = JoinedParameters.save

    def watched(joined, *factors):
        save(joined, *factors)
        *_, steps = joined._passes.values()
        seen.extend(map(weakref.ref, steps[-1]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JoinedParameters, "save", watched)
        with joined_gradients():
            loss = (loop(tokens, state) * weights).sum()
        use(loss, state, loop)
    del loss
    gc.collect()
    return bool(seen) and not any(reference() is not None for reference in seen)


def test_gradients_of_the_state_alone_leave_nothing_for_the_next_pass():
    def use(loss, state, loop):
        for _ in range(2):
            (of_state,) = torch.autograd.grad(loss, state, retain_graph=True)
        loss.backward()
        expected = gradients_of(Loop(), joined=False)
        assert_equal([of_state, *(each.grad for each in loop.parameters())], expected)

    assert leaves_nothing(use)
    assert leaves_nothing(lambda loss, state, _: torch.autograd.grad(loss, state))


def test_a_pass_that_fails_leaves_nothing_for_the_next_one():
    def use(loss, state, loop):
        def fail(_):
            raise RuntimeError("broken")

        handle = state.register_hook(fail)
        with pytest.raises(RuntimeError, match="broken"):
            loss.backward(retain_graph=True)
        handle.remove()
        for each in (state, *loop.parameters()):
            each.grad = None
        loss.backward()
        expected = gradients_of(Loop(), joined=False)
        assert_equal([state.grad, *(each.grad for each in loop.parameters())], expected)

    assert leaves_nothing(use)


def test_steps_without_an_effect_on_the_loss_have_none_on_the_gradient():
    results = []
    for joined in (True, False):
        loop, (tokens, state, weights) = Loop(), start()
        if joined:
            with joined_gradients():
                outputs = loop(tokens, state)
        else:
            outputs = loop(tokens, state)
        (outputs[:2] * weights[:2]).sum().backward()
        results.append([state.grad, *(each.grad for each in loop.parameters())])
    assert_equal(*results)


def test_second_derivatives_of_parameters_are_refused():
    loop = Loop()
    tokens, state, weights = start()
    with joined_gradients():
        loss = (loop(tokens, state) * weights).sum()
    (gradient,) = torch.autograd.grad(loss, loop.inner.weight, create_graph=True)
    torch.testing.assert_close(gradient, gradients_of(Loop(), joined=False)[2])
    with pytest.raises(NotImplementedError, match=r"first derivatives only"):
        gradient.sum().backward()


def test_a_parameter_may_also_be_read_outside_of_the_loop():
    results = []
    for joined in (True, False):
        loop, (tokens, state, weights) = Loop(), start()
        first = loop.inner(state)
        if joined:
            with joined_gradients():
                outputs = loop(tokens, first)
        else:
            outputs = loop(tokens, first)
        (F.linear(outputs, loop.embedding.weight).sum() + (outputs * weights).sum()).backward()
        results.append([state.grad, *(each.grad for each in loop.parameters())])
    assert_equal(*results)


def test_the_loop_ends_with_its_context():
    linear = Linear(SIZE, SIZE)
    with pytest.raises(KeyError), joined_gradients():
        raise KeyError
    inputs = torch.randn(BATCH, SIZE)
    assert not is_joined(linear(inputs))
    seen = []
    with joined_gradients():
        assert is_joined(linear(inputs))
        thread = Thread(target=lambda: seen.append(is_joined(linear(inputs))))
        thread.start()
        thread.join()
        with torch.no_grad():
            assert linear(inputs).grad_fn is None
    assert seen == [False]


def test_loops_within_loops_and_after_each_other_are_separate():
    loop = Loop()
    tokens, state, weights = start()
    with joined_gradients():
        first = loop(tokens, state)
        with joined_gradients():
            second = loop(tokens, state)
        third = loop(tokens, state)
    with joined_gradients():
        fourth = loop(tokens, state)
    ((first + second + third + fourth) * weights).sum().backward()
    ours = [state.grad, *(each.grad for each in loop.parameters())]
    assert_equal(ours, [4 * each for each in gradients_of(Loop(), joined=False)])


def test_steps_of_many_rows_have_their_own_gradients():
    linear = Linear(2, 2)
    with joined_gradients():
        assert is_joined(linear(torch.randn(JOINED_ROWS, 2)))
        assert not is_joined(linear(torch.randn(JOINED_ROWS + 1, 2)))


@pytest.mark.parametrize("axes", [(), (0,), (2, 0), (2, 3)])
def test_inputs_have_any_leading_axes(axes):
    linear = Linear(SIZE, 2 * SIZE)
    inputs = torch.randn(*axes, SIZE)
    with joined_gradients():
        outputs = linear(inputs)
    torch.testing.assert_close(outputs, F.linear(inputs, linear.weight, linear.bias))
    outputs.sum().backward()
    assert linear.weight.grad.shape == linear.weight.shape


def test_types_that_do_not_fit_are_named_by_torch():
    linear = Linear(SIZE, SIZE).bfloat16()
    with joined_gradients(), pytest.raises(RuntimeError, match="same dtype"):
        linear(torch.randn(BATCH, SIZE))


COMPILED = """
import torch
from regard.numerics.joined_gradients import joined_gradients
from regard.numerics.linear import Linear

linear, state = Linear(5, 5), torch.randn(3, 5)

def loop(state):
    with joined_gradients():
        for _ in range(3):
            state = torch.tanh(linear(state))
    return state

gradients = []
for function in (loop, torch.compile(loop, backend="aot_eager")):
    linear.weight.grad = None
    function(state).sum().backward()
    gradients.append(linear.weight.grad)
torch.testing.assert_close(*gradients)
torch.compile(linear, backend="aot_eager", fullgraph=True)(state)
"""


def test_torchs_compiler_computes_the_plain_loop():
    """In a process without the checks of shapes, which the compiler cannot read."""
    subprocess.run([sys.executable, "-c", COMPILED], check=True)


def test_under_autocast_gradients_are_rounded_once():
    ours, theirs = [], []
    for joined, results in ((True, ours), (False, theirs)):
        with torch.autocast("cpu", torch.bfloat16):
            results += gradients_of(Loop(torch.float), joined=joined)
    assert all(each.dtype == torch.float for each in ours)
    assert_equal(ours, theirs, tolerance=0.1)
    exact = gradients_of(Loop(), joined=False)
    for mine, other in zip(ours, exact, strict=True):
        assert F.cosine_similarity(mine.double().flatten(), other.flatten(), dim=0) > 0.999
