"""Colour scale of figures: white for 0, then blue to a dark indigo for 1. Images, which often have
blue areas, are covered with a scale of magentas.

Lightness falls linearly, so equal differences of weights look equal, also in grey and to
colour-blind readers; hue and chroma only support it. The scale is computed in OKLab (Ottosson
2020).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

NUM_COLOURS = 256
LIGHTEST, DARKEST = 1.0, 0.27
WHITE, BLACK = "#ffffff", "#000000"
HUES = (215.0, 285.0)
"""Hue in degrees at weight 0 and at weight 1."""
NEGATIVE_HUES = (75.0, 40.0)
"""Hues of negative numbers, near 0 and at -1."""
CHROMA = 0.12
"""Largest chroma, in the middle of the scale."""
FILM_HUES, FILM_CHROMA = (335.0, 320.0), 0.2
"""Hues and largest chroma of the scale on images."""

FROM_OKLAB = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
TO_LINEAR_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def scale(hues: tuple[float, float], largest_chroma: float) -> Float[np.ndarray, "colour 3"]:
    """Return red, green and blue (sRGB, 0 to 1) of evenly spaced weights from 0 to 1. The hues are
    those of weights 0 and 1, in degrees."""
    weight = np.linspace(0, 1, NUM_COLOURS)
    lightness = LIGHTEST + (DARKEST - LIGHTEST) * weight
    hue = np.radians(hues[0] + (hues[1] - hues[0]) * weight)
    chroma = largest_chroma * np.sin(np.pi * weight**0.8 * 0.82)
    return _to_srgb(np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1))


def _to_srgb(oklab: Float[np.ndarray, "colour 3"]) -> Float[np.ndarray, "colour 3"]:
    linear = np.clip((oklab @ FROM_OKLAB.T) ** 3 @ TO_LINEAR_RGB.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def hexadecimal(weight: float) -> str:
    """Return the colour of a weight as "#rrggbb". Weights outside 0 to 1 are clipped."""
    red, green, blue = (round(255 * part) for part in _colour(weight))
    return f"#{red:02x}{green:02x}{blue:02x}"


def ink(weight: float) -> str:
    """Return black or white, whichever has more contrast (WCAG 2) on the colour of a weight."""
    light = luminance(_colour(weight)) + 0.05
    return WHITE if (1 + 0.05) / light > light / 0.05 else BLACK


def luminance(colour: Float[np.ndarray, "3"]) -> float:
    """Return the relative luminance of red, green and blue (sRGB), from 0 to 1."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def _colour(weight: float) -> Float[np.ndarray, "3"]:
    return SCALE[round(min(max(weight, 0.0), 1.0) * (NUM_COLOURS - 1))]


SCALE = scale(HUES, CHROMA)
DIVERGING = np.concatenate([scale(NEGATIVE_HUES, CHROMA)[::-1], SCALE])
"""Colour scale of numbers from -1 to 1: white for 0, brown to orange below."""
ZERO = "#d3d3d3"
"""Colour of exact zeros in figures whose smallest numbers are nearly white: grey, which the scale
does not have."""
FILM = scale(FILM_HUES, FILM_CHROMA)
"""Colour scale of weights on images."""
