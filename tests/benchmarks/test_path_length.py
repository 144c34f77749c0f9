"""Lengths of paths in encoders, against the formulas of their layers."""

import math

import pytest
import torch

from regard.building.translators import build_translation
from tests import configs
from tests.benchmarks.scripts import script

path_length = script("path_length")
LENGTH = 11


def path_of(encoder, decoder, **values):
    torch.manual_seed(1)
    model = build_translation(configs.translation(encoder, decoder, **values), 23, 23)
    is_recurrent = encoder == "recurrent"
    return path_length.measure_path(model.encoder, LENGTH, is_recurrent=is_recurrent)


@pytest.mark.parametrize(
    "values",
    [
        dict(encoder_layers=1),
        dict(encoder_layers=3, encoder_connections="residual"),
        dict(encoder_layers=2, encoder_connections="fast_forward"),
    ],
)
def test_a_signal_takes_a_step_for_each_position_of_a_recurrence(values):
    path = path_of("recurrent", "recurrent", size=6, cell="lstm", bidirectional=True, **values)
    assert (path.operations, path.max_distance) == (LENGTH - 1, LENGTH - 1)
    assert str(path) == "10"


def test_one_direction_connects_no_position_with_a_later_one_and_back():
    path = path_of("recurrent", "recurrent", size=6, bidirectional=False)
    assert (path.operations, path.max_distance) == (0, 0)


def test_one_layer_of_self_attention_connects_all_positions():
    path = path_of("transformer", "transformer", size=8, encoder_layers=3, heads=2)
    assert (path.operations, path.max_distance) == (1, LENGTH - 1)


def test_a_window_of_self_attention_is_passed_on_by_every_layer():
    path = path_of("transformer", "transformer", size=8, encoder_layers=3, heads=2, window=2)
    assert (path.operations, path.max_distance) == (3, 6)
    assert str(path) == "3, to distance 6"


@pytest.mark.parametrize(("width", "layers"), [(3, 2), (5, 2), (7, 4)])
def test_stacked_convolutions_add_up_their_windows(width, layers):
    kind = "gated_convolution"
    path = path_of(kind, kind, size=6, encoder_layers=layers, encoder_widths=(width,))
    max_distance = min(layers * (width // 2), LENGTH - 1)
    assert path.max_distance == max_distance
    assert path.operations == math.ceil(max_distance / (width // 2))


@pytest.mark.parametrize("dilations", [(1, 2), (1, 2, 4)])
def test_dilations_that_double_reach_exponentially_far(dilations):
    kind = "dilated_convolution"
    path = path_of(kind, kind, size=6, embedding=5, encoder_sets=1, encoder_dilations=dilations)
    assert path.max_distance == 2 ** len(dilations) - 1
    assert path.operations == math.log2(path.max_distance + 1)


def test_an_encoder_without_embeddings_is_rejected():
    with pytest.raises(ValueError, match="token embeddings"):
        path_length.connecting_layers(torch.nn.Linear(3, 5), LENGTH)
