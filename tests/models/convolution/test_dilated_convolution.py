"""ByteNet (Kalchbrenner et al. 2016), against loops of its equations and its receptive fields."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import END, START, Tokens, pad
from regard.errors import UserError
from regard.layers.windows import causal, centred
from regard.models.convolution.dilated_convolution import DilatedBlock
from regard.search import Limits, greedy
from tests import configs
from tests.messages import raises
from tests.oracles import convolution as oracle

KINDS = ("dilated_convolution", "dilated_convolution")
SIZES = dict(size=6, embedding=5, sets=1, dilations=(1, 2))


def build(**values):
    torch.manual_seed(3)
    model = build_translation(configs.translation(*KINDS, **SIZES | values), 13, 17).double()
    for name, weight in model.named_parameters():
        if "norms" in name or name.endswith("bias"):
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model.eval()


def plain(layer):
    return tuple(weight.detach().numpy() for weight in (layer.weight, layer.bias))


def run_blocks(states, blocks, is_causal):
    for block in blocks:
        reach = (block.width - 1) * block.dilation
        weight, bias = plain(block.convolve)
        states = oracle.dilated_block(
            states,
            [plain(norm) for norm in block.norms],
            plain(block.reduce),
            (weight.reshape(len(weight), block.width, -1), bias),
            plain(block.expand),
            -reach if is_causal else -reach // 2,
            block.dilation,
        )
    return states


def test_the_model_is_that_of_the_paper():
    """|t^| is 1.2 * 6 = 7.2, rounded up to 8 columns; the target has ten steps."""
    model, source, target = build(), [4, 5, 6, 7, 8, 11], [START, 4, 5, 6, 16, 7, 8, 9, 10, 11]
    encoder, decoder = model.encoder, model.decoder
    words = encoder.embedding.weight.detach().numpy()
    columns = np.array([words[token] for token in source] + 2 * [encoder.blank.detach().numpy()])
    columns = run_blocks(oracle.affine(columns, *plain(encoder.first)), encoder.blocks, False)
    encoded = encoder(pad([source]))
    torch.testing.assert_close(encoded.unfolded.values[0], torch.from_numpy(columns))
    torch.testing.assert_close(encoded.layers[-1][0], torch.from_numpy(columns[:6]))
    words = decoder.embedding.weight.detach().numpy()
    zeros = np.zeros((2, columns.shape[1]))
    inputs = np.concatenate(
        [np.array([words[token] for token in target]), np.concatenate([columns, zeros])], axis=1
    )
    states = run_blocks(oracle.affine(inputs, *plain(decoder.first)), decoder.blocks, True)
    features = oracle.relu(oracle.affine(oracle.relu(states), *plain(decoder.last)))
    output = decoder(torch.tensor([target]), model.encode(pad([source])), need_weights=True)
    torch.testing.assert_close(output.features[0], torch.from_numpy(features))
    assert output.attention == ()


@pytest.mark.parametrize("windows", [centred, causal])
def test_a_set_of_five_reads_63_positions(windows):
    """1 + 2 (1 + 2 + 4 + 8 + 16) positions with width 3 (section 3.5)."""
    torch.manual_seed(3)
    blocks = [DilatedBlock(4, 3, dilation, 0.0).double() for dilation in (1, 2, 4, 8, 16)]
    inputs = torch.randn(1, 101, 4, dtype=torch.float64, requires_grad=True)
    states = inputs
    for block in blocks:
        states = block.after(states, windows(block.before(states), 3, block.dilation))
    gradient = torch.zeros(101)
    for output in states[0, 70]:  # a ReLU may hide a position from one channel
        (part,) = torch.autograd.grad(output, inputs, retain_graph=True)
        gradient += part[0].abs().sum(dim=1)
    read = gradient.nonzero()[:, 0].tolist()
    first = 70 - (31 if windows is centred else 62)
    assert (min(read), max(read)) == (first, 101 - 1 if windows is centred else 70)
    assert set(read) <= set(range(first, first + 63))


def test_columns_are_a_multiple_of_the_source():
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 3:] = False
    assert build().encoder.columns(mask).sum(dim=1).tolist() == [12, 4]
    assert build(unfolding=(1.5, 2)).encoder.columns(mask).sum(dim=1).tolist() == [17, 7]
    assert build(unfolding=(0.5, 0)).encoder.columns(mask).sum(dim=1).tolist() == [10, 3]


def test_an_empty_batch_has_columns():
    model = build()
    source = Tokens(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3, dtype=torch.bool))
    output = model.decoder(torch.zeros(0, 2, dtype=torch.long), model.encode(source))
    assert output.features.shape == (0, 2, 5)


@pytest.mark.parametrize("ratio", ["1.2", "1.1", "0.3", "2.1"])
def test_the_number_of_columns_has_no_rounding_error(ratio):
    """1.2 times 25 tokens are 30 columns, although 1.2 is not a binary number."""
    mask = torch.ones(200, 200, dtype=torch.bool).tril()
    columns = build(unfolding=(float(ratio), 0)).encoder.columns(mask).sum(dim=1).tolist()
    assert columns == [max(math.ceil(Fraction(ratio) * n), n) for n in range(1, 201)]


def test_outputs_may_be_longer_than_the_columns():
    model = build()
    memories = model.encode(pad([[4, 5]]))
    limits = Limits(start=START, end=END, maximum=torch.tensor([11]), minimum=11)
    (output,) = greedy(model.decoder, memories, limits)
    assert memories[0].values.size(1) == 3
    assert len(output.tokens) >= 11


def test_later_targets_have_no_influence():
    model = build()
    memories = model.encode(pad([[4, 5, 6]]))
    first, second = (
        model.decoder(torch.tensor([[START, 4, *rest]]), memories).features
        for rest in ([5, 6], [9, 11])
    )
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.equal(first[:, 2:], second[:, 2:])


@pytest.mark.parametrize(
    "values",
    [
        dict(size=7),
        dict(encoder_width=4),
        dict(dilations=()),
        dict(copy="pointer_generator"),
    ],
)
def test_settings_that_do_not_fit(values):
    with raises(UserError):
        build(**values)


BLOCKS = 5 * 6 + 2 * (6 * 3 + 9 * 3 + 3 * 6)
"""Weights of a linear layer of 5 x 6, and of two blocks of 6 x 3 + 9 x 3 + 3 x 6."""


@pytest.mark.parametrize(("factor", "columns"), [(1.2, 1.2), (0.5, 1)])
def test_the_encoder_multiplies_as_many_columns_as_it_computes(factor, columns):
    assert build(unfolding=(factor, 0)).encoder.num_multiplied == round(columns * BLOCKS)


def test_each_number_is_multiplied_by_the_embedding_once():
    encoder = build().encoder
    encoder.embedding = torch.nn.Linear(8, 5)
    assert encoder.num_multiplied == 8 * 5 + round(1.2 * BLOCKS)
