"""Windows of sequences, against PyTorch's convolution and loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from regard.layers.windows import Window, causal, centred
from tests.oracles import convolution as oracle


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 11),
    st.booleans(),
)
def test_a_linear_layer_of_windows_is_a_convolution(width, dilation, length, is_causal):
    generator = torch.Generator().manual_seed(length)
    states = torch.randn(2, length, 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(7, 3, width, generator=generator, dtype=torch.float64)
    reach = (width - 1) * dilation
    margins = (reach, 0) if is_causal else (reach // 2, reach // 2)
    expected = F.conv1d(F.pad(states.mT, margins), weight, dilation=dilation).mT
    windows = (causal if is_causal else centred)(states, width, dilation)
    torch.testing.assert_close(windows @ weight.mT.flatten(1).T, expected)
    loop = oracle.convolve(
        states[1].numpy(), weight.mT.numpy(), torch.zeros(7).numpy(), -margins[0], dilation
    )
    torch.testing.assert_close(expected[1], torch.from_numpy(loop))


@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (2, 1), (3, 1), (3, 4)])
def test_steps_have_the_windows_of_the_whole_sequence(width, dilation):
    states = torch.randn(2, 7, 3)
    whole = causal(states, width, dilation)
    window = Window.empty(states, 3, width, dilation)
    for position in range(7):
        line, window = window.append(states[:, position : position + 1])
        assert torch.equal(line[:, 0], whole[:, position])
        assert window.inputs.shape == (2, 1, (width - 1) * dilation, 3)


def test_windows_of_selected_hypotheses():
    window = Window(torch.arange(12.0).view(2, 3, 2, 1), 1)
    chosen = window.select(torch.tensor([[2, 0], [1, 1]]))
    assert chosen.inputs[..., 0].tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]
    assert window.keep(torch.tensor([1])).inputs.shape == (1, 3, 2, 1)


def test_an_even_width_has_no_centre():
    with pytest.raises(ValueError, match="expected an odd width, got 4"):
        centred(torch.zeros(1, 5, 3), 4)


@pytest.mark.parametrize(
    ("name", "width", "dilation"), [("width", 0, 1), ("width", -1, 1), ("dilation", 3, 0)]
)
def test_sizes_of_windows_are_checked(name, width, dilation):
    states = torch.randn(2, 5, 3)
    for windows in (
        causal,
        centred,
        lambda states, *sizes: Window.empty(states, 3, *sizes),
    ):
        with pytest.raises(ValueError, match=f"{name} of a window: expected a number from 1"):
            windows(states, width, dilation)
