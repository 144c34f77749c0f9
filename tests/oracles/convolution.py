"""ConvS2S (Gehring et al. 2017) by loops over positions, kernels and channels, in float64.

Weights are arrays `[output, width, channel]`; sequences are arrays `[position, channel]`."""

import math

import numpy as np


def normalised(direction, gain):
    """Return g v / |v| for each row (Salimans and Kingma 2016, eq. 2)."""
    rows = []
    for row, length in zip(direction, gain, strict=True):
        norm = math.sqrt(sum(float(number) ** 2 for number in row))
        rows.append([length * float(number) / norm for number in row])
    return np.array(rows)


def convolve(inputs, weight, bias, first, dilation=1):
    """Return b_o + sum over k, c of W[o, k, c] x[i + first + k dilation, c], with zeros outside."""
    num_outputs, width, num_channels = weight.shape
    result = np.zeros((len(inputs), num_outputs))
    for position in range(len(inputs)):
        for output in range(num_outputs):
            total = bias[output]
            for place in range(width):
                source = position + first + place * dilation
                if 0 <= source < len(inputs):
                    for channel in range(num_channels):
                        total += weight[output, place, channel] * inputs[source, channel]
            result[position, output] = total
    return result


def gated(numbers):
    """Return A * sigmoid(B) for numbers [A B]."""
    half = numbers.shape[-1] // 2
    return numbers[..., :half] / (1 + np.exp(-numbers[..., half:]))


def affine(inputs, weight, bias):
    return np.array(
        [[weight[row] @ each + bias[row] for row in range(len(bias))] for each in inputs]
    )


def residual(states, inputs, shortcut):
    inputs = inputs if shortcut is None else affine(inputs, *shortcut)
    return (states + inputs) * math.sqrt(0.5)


def encode(embedded, first, layers, last):
    """Return z. A layer is (weight, bias, shortcut)."""
    states = affine(embedded, *first)
    for weight, bias, shortcut in layers:
        margin = (weight.shape[1] - 1) // 2
        states = residual(gated(convolve(states, weight, bias, -margin)), states, shortcut)
    return affine(states, *last)


def decode(embedded, source, first, layers, last):
    """Return features and the attention weights of each layer. The source is (z, e); a layer is
    (weight, bias, shortcut, query layer, context layer)."""
    outputs, embeddings = source
    states, maps = affine(embedded, *first), []
    for weight, bias, shortcut, query, context in layers:
        below = states
        states = gated(convolve(below, weight, bias, 1 - weight.shape[1]))
        weights = np.zeros((len(states), len(outputs)))
        changes = np.zeros_like(states)
        for target in range(len(states)):
            summary = (affine(states[target][None], *query)[0] + embedded[target]) * math.sqrt(0.5)
            scores = np.array([summary @ output for output in outputs])
            weights[target] = np.exp(scores - scores.max())
            weights[target] /= weights[target].sum()
            mixed = sum(
                share * (output + embedding) * math.sqrt(0.5)
                for share, output, embedding in zip(
                    weights[target], outputs, embeddings, strict=True
                )
            )
            num_source = len(outputs)
            scaled = num_source * math.sqrt(1 / num_source) * mixed
            changes[target] = affine(scaled[None], *context)[0]
        states = residual((changes + states) * math.sqrt(0.5), below, shortcut)
        maps.append(weights)
    return affine(states, *last), maps


def layer_norm(vector, scale, shift):
    mean = sum(vector) / len(vector)
    variance = sum((number - mean) ** 2 for number in vector) / len(vector)
    return (vector - mean) / math.sqrt(variance + 1e-5) * scale + shift


def relu(numbers):
    return np.maximum(numbers, 0)


def dilated_block(states, norms, reduce, convolution, expand, first, dilation):
    """Return the residual block of ByteNet (Kalchbrenner et al. 2016, section 3.6). Norms are
    (scale, shift), layers (weight, bias); the window begins at `first`."""

    def normed(rows, norm):
        return relu(np.array([layer_norm(row, *norm) for row in rows]))

    change = affine(normed(states, norms[0]), *reduce)
    change = convolve(normed(change, norms[1]), *convolution, first, dilation)
    return states + affine(normed(change, norms[2]), *expand)
