"""Recurrent layers and deep stacks of them, one sequence, position and layer at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

FORWARD_SCALE = 0.03
"""Factor of fast-forward connections."""


@dataclass(frozen=True)
class Weights:
    """Weights of one direction of a layer: W and b of its input, U and c of its last state."""

    kind: str
    inputs: np.ndarray
    bias: np.ndarray
    recurrent: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True)
class State:
    """Hidden state and cell, which only an LSTM reads."""

    hidden: np.ndarray
    cell: np.ndarray


def of_layer(layer, kind: str, *, backwards: bool = False) -> Weights:
    """Return the weights of a direction of one of PyTorch's layers."""
    suffix = "_reverse" if backwards else ""
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    values = [getattr(layer, f"{name}_l0{suffix}").detach().double().numpy() for name in names]
    return Weights(kind, *values)


def zeros(weights: Weights) -> State:
    """Return the state before the first position."""
    size = weights.recurrent.shape[1]
    return State(np.zeros(size), np.zeros(size))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(weights: Weights, gates: np.ndarray, last: State) -> State:
    """Return the next state, given W x + b."""
    recurrent = weights.recurrent @ last.hidden + weights.shift
    if weights.kind == "elman":
        return State(np.tanh(gates + recurrent), last.cell)
    if weights.kind == "gru":
        (r, z, n), (ur, uz, un) = np.split(gates, 3), np.split(recurrent, 3)
        update = sigmoid(z + uz)
        new = np.tanh(n + sigmoid(r + ur) * un)
        return State((1 - update) * new + update * last.hidden, last.cell)
    enter, forget, new, leave = np.split(gates + recurrent, 4)
    cell = sigmoid(forget) * last.cell + sigmoid(enter) * np.tanh(new)
    return State(sigmoid(leave) * np.tanh(cell), cell)


def input_gates(weights: Weights, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return W x + b of every position."""
    return [weights.inputs @ x + weights.bias for x in inputs]


def run(
    weights: Weights, gates: Sequence[np.ndarray], first: State, *, backwards: bool = False
) -> tuple[list[np.ndarray], State]:
    """Return the hidden states of every position, and the state after the last step."""
    states, state = [], first
    for gate in reversed(gates) if backwards else gates:
        state = step(weights, gate, state)
        states.append(state.hidden)
    return (states[::-1] if backwards else states), state


def residual(
    layers: Sequence[Sequence[Weights]],
    inputs: Sequence[np.ndarray],
    beside: Sequence[np.ndarray] | None = None,
    first: Sequence[State] | None = None,
    mixture: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[list[list[np.ndarray]], list[State]]:
    """Return the outputs of every layer of a residual stack, and its last states (Wu et al. 2016,
    section 3.1). A layer has the weights of one direction or of two. `beside` enters every layer
    above the first. `mixture` is a mixture of experts between the last two layers (Shazeer et al.
    2017, appendix E)."""
    outputs, ends, below = [], [], list(inputs)
    for number, directions in enumerate(layers):
        entering = below
        if number and beside is not None:
            entering = [np.concatenate(pair) for pair in zip(below, beside, strict=True)]
        runs = [
            run(
                weights,
                input_gates(weights, entering),
                zeros(weights) if first is None else first[number],
                backwards=bool(direction),
            )
            for direction, weights in enumerate(directions)
        ]
        states = [np.concatenate(parts) for parts in zip(*(s for s, _ in runs), strict=True)]
        if number >= 2:
            states = [state + x for state, x in zip(states, below, strict=True)]
        outputs.append(states)
        ends.append(runs[0][1])
        below = states
        if mixture is not None and number == len(layers) - 2:
            below = [x + sigmoid(mixture(x)) for x in states]
    return outputs, ends


def fast_forward(
    layers: Sequence[Weights],
    inputs: Sequence[np.ndarray],
    *,
    first: Sequence[State] | None = None,
    beside: Sequence[np.ndarray] | None = None,
    column: int | None = None,
) -> tuple[list[list[np.ndarray]], list[np.ndarray], list[State]]:
    """Return the states of every layer of a column, the gates of the highest, and the last states
    (Zhou et al. 2016, section 3). Without the number of a column, all layers run forwards."""
    outputs, ends, below = [], [], list(inputs)
    for number, weights in enumerate(layers):
        gates = input_gates(weights, below)
        backwards = column is not None and (number + column) % 2 == 1
        start = zeros(weights) if first is None else first[number]
        states, end = run(weights, gates, start, backwards=backwards)
        outputs.append(states)
        ends.append(end)
        below = [
            np.concatenate([FORWARD_SCALE * gate[: len(gate) // 2], state])
            for gate, state in zip(gates, states, strict=True)
        ]
        if beside is not None:
            below = [np.concatenate(pair) for pair in zip(below, beside, strict=True)]
    return outputs, gates, ends
