"""The scale is even, ends in white and dark, and can be written on."""

from __future__ import annotations

import numpy as np
import pytest

from regard.viewing.colours import BLACK, FILM, SCALE, WHITE, hexadecimal, ink


def relative_luminance(colour: str) -> float:
    """By the definition of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [SCALE, FILM])
def test_lightness_decreases_linearly(colours) -> None:
    """CIE lightness is no part of how the scale is made."""
    places = np.linspace(0, len(colours) - 1, 21).round().astype(int)
    parts = [f"#{''.join(f'{round(255 * part):02x}' for part in colours[n])}" for n in places]
    luminance = np.array([relative_luminance(colour) for colour in parts])
    lightness = np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)
    steps = -np.diff(lightness)
    assert lightness[0] == pytest.approx(100)
    assert lightness[-1] < 20
    assert steps.min() > 0.6 * steps.mean()
    assert steps.max() < 1.4 * steps.mean()


def test_weights_outside_zero_to_one_have_the_end_colours() -> None:
    assert hexadecimal(0.0) == hexadecimal(-0.1) == "#ffffff"
    assert hexadecimal(1.0) == hexadecimal(1.7) != hexadecimal(0.9)
    assert SCALE.min() >= 0
    assert SCALE.max() <= 1


def test_ink_can_be_read_on_every_colour() -> None:
    assert ink(0.0) == BLACK
    assert ink(1.0) == WHITE
    for weight in np.linspace(0, 1, 101).tolist():
        pair = relative_luminance(ink(weight)), relative_luminance(hexadecimal(weight))
        assert (max(pair) + 0.05) / (min(pair) + 0.05) >= 4.5
