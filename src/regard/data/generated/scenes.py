"""Scenes of one to three shapes, drawn as images, with captions in five wordings. A caption can be
checked against its scene, and the correct attention of each word is known.

    large red circle top left; small blue square centre          scene as text
    a large red circle at the top left and a small blue ...      caption
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from regard.data.examples import Pair
from regard.errors import UserError
from regard.shapes import Float, UInt8
from regard.storage.files import shorten_name

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = ("circle", "square", "triangle")
COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 90, 200),
    "yellow": (235, 200, 20),
    "purple": (140, 60, 170),
    "white": (245, 245, 245),
}
SIZES = {"small": 0.15, "large": 0.27}
"""Sizes as fractions of the side of the image."""
PLACES = {
    "top left": (0, 0),
    "top": (0, 1),
    "top right": (0, 2),
    "left": (1, 0),
    "centre": (1, 1),
    "right": (1, 2),
    "bottom left": (2, 0),
    "bottom": (2, 1),
    "bottom right": (2, 2),
}
"""Row and column of each place in a grid of three by three."""
NUMBERS = (1, 2, 3)
"""Numbers of shapes in a scene."""
NUM_WORDINGS = 5
SAMPLE = "large red circle top left"
FINER = 4
"""Factor by which images are drawn larger and then scaled down, so that edges are smooth."""


@dataclass(frozen=True)
class Shape:
    """Shape in a scene."""

    size: str
    colour: str
    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.size} {self.colour} {self.kind} {self.place}"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom, as fractions of the side of the image."""
        row, column = PLACES[self.place]
        half = SIZES[self.size] / 2
        x, y = (column + 0.5) / 3, (row + 0.5) / 3
        return x - half, y - half, x + half, y + half

    def inside(self, side: int) -> Float[np.ndarray, "cell"]:
        """Return the fraction of each grid cell that lies in the box. The grid has `side` rows and
        columns; cells are in row order."""
        left, top, right, bottom = self.box
        edges = np.arange(side + 1) / side

        def covered(first: float, last: float) -> Float[np.ndarray, "side"]:
            return np.clip(np.minimum(edges[1:], last) - np.maximum(edges[:-1], first), 0, None)

        return np.outer(covered(top, bottom), covered(left, right)).ravel() * side**2


@dataclass(frozen=True)
class Scene:
    """Shapes in reading order, from the top left to the bottom right."""

    shapes: tuple[Shape, ...]
    copy: int = 1
    """Number of this image among images of equal shapes, which differ in ground and noise."""

    def __str__(self) -> str:
        text = "; ".join(map(str, self.shapes))
        return text if self.copy == 1 else f"{text} #{self.copy}"

    @classmethod
    def of(cls, text: str) -> Scene:
        """Parse the text of a scene, as `str` returns it. UserError for any other text."""
        described, has_copy, copy = text.partition("#")
        if has_copy and not re.fullmatch(r"[0-9]{1,9}", copy):
            raise UserError(
                f"{shorten_name(copy)!r} is not an image number: expected, for example, "
                f"'{SAMPLE} #2'"
            )
        shapes = []
        for part in described.split(";"):
            words = part.split()
            size, colour, kind, *place = [*words, "", "", ""]
            shape = Shape(size, colour, kind, " ".join(place).strip())
            if not _is_known(shape):
                raise UserError(
                    f"{shorten_name(part.strip())!r} is not a shape: expected, for example, "
                    f"'{SAMPLE}'"
                )
            shapes.append(shape)
        return cls(tuple(shapes), int(copy) if has_copy else 1)


def _is_known(shape: Shape) -> bool:
    return (
        shape.size in SIZES
        and shape.colour in COLOURS
        and shape.kind in KINDS
        and shape.place in PLACES
    )


@dataclass(frozen=True)
class SceneSplit:
    """Scenes of each split."""

    train: tuple[Scene, ...]
    dev: tuple[Scene, ...]
    test: tuple[Scene, ...]


def scenes(count: int, seed: int = 1, num_shapes: Sequence[int] = NUMBERS) -> tuple[Scene, ...]:
    """Draw distinct scenes with equal numbers of scenes for each number of shapes, as far as
    possible: there are 324 scenes of one shape. UserError if there are fewer scenes than
    `count`."""
    maximum = sum(map(_num_scenes, num_shapes))
    if not 1 <= count <= maximum:
        raise UserError(f"{count} scenes: expected 1 to {maximum:,}")
    return _distinct(count, random.Random(seed), {n: _num_scenes(n) for n in num_shapes})


def split_scenes(count: int, held_out: tuple[int, int], seed: int = 1) -> SceneSplit:
    """Draw `count` scenes for training, dev and test. Each split has equal numbers of scenes with
    one, two and three shapes.

    Held-out scenes are distinct and not in training. Training scenes may repeat, as images with
    another ground and noise, because there are 324 scenes of one shape. At most half of these are
    held out. UserError if `count` leaves no training scene or too many are held out."""
    num_dev, num_test = held_out
    num_train = count - num_dev - num_test
    limits = {number: _num_scenes(number) // 2 for number in NUMBERS}
    if num_train < 1 or num_dev + num_test > sum(limits.values()):
        raise UserError(
            f"cannot hold out {num_dev:,} and {num_test:,} of {count:,} scenes: expected fewer "
            f"than {count:,} and at most {sum(limits.values()):,}, half of all distinct scenes"
        )
    drawing = random.Random(seed)
    held_out_scenes = _distinct(num_dev + num_test, drawing, limits)
    unseen, train, copies = frozenset(held_out_scenes), list[Scene](), Counter[Scene]()
    while len(train) < num_train:
        scene = _draw_scene(drawing, NUMBERS[len(train) % len(NUMBERS)])
        if scene not in unseen:
            copies[scene] += 1
            train.append(replace(scene, copy=copies[scene]))
    return SceneSplit(tuple(train), held_out_scenes[:num_dev], held_out_scenes[num_dev:])


def _distinct(count: int, drawing: random.Random, limits: dict[int, int]) -> tuple[Scene, ...]:
    """Draw distinct scenes with equal numbers of shapes. At most `limits[n]` have n shapes."""
    drawn, sizes = dict[Scene, None](), cycle(limits)
    room = dict(limits)
    while len(drawn) < count:
        number = next(number for number in sizes if room[number])
        room[number] -= 1
        scene = _draw_scene(drawing, number)
        while scene in drawn:
            scene = _draw_scene(drawing, number)
        drawn[scene] = None
    return tuple(drawn)


def _draw_scene(drawing: random.Random, number: int) -> Scene:
    places = sorted(drawing.sample(list(PLACES), number), key=list(PLACES).index)
    sizes, colours = list(SIZES), list(COLOURS)
    return Scene(
        tuple(
            Shape(drawing.choice(sizes), drawing.choice(colours), drawing.choice(KINDS), place)
            for place in places
        )
    )


def _num_scenes(number: int) -> int:
    """Return the number of distinct scenes with this number of shapes."""
    num_kinds = len(SIZES) * len(COLOURS) * len(KINDS)
    return math.comb(len(PLACES), number) * num_kinds**number


def captioned(drawn: Iterable[Scene]) -> tuple[Pair, ...]:
    """Return pairs of a scene as text and a caption; each scene has five captions."""
    both = [(scene, caption) for scene in drawn for caption in captions(scene)]
    return tuple(Pair(str(scene), caption, line) for line, (scene, caption) in enumerate(both, 1))


def captions(scene: Scene) -> tuple[str, ...]:
    """Return the captions of a scene in every wording."""
    return tuple(_caption(scene, wording) for wording in range(NUM_WORDINGS))


def _caption(scene: Scene, wording: int) -> str:
    shapes = scene.shapes
    match wording:
        case 0:
            return " and ".join(f"a {_named(shape)} {_at(shape)}" for shape in shapes)
        case 1:
            phrases = [f"a {_named(shape)} {_at(shape)}" for shape in shapes]
            return f"there is {_listed(phrases)}"
        case 2:
            return " , ".join(f"{_at(shape)} there is a {_named(shape)}" for shape in shapes)
        case 3:
            phrases = [f"a {_named(shape)} {_at(shape)}" for shape in shapes]
            return f"the picture shows {_listed(phrases)}"
        case _:
            return " and ".join(
                f"one {shape.colour} {shape.kind} , {shape.size} , {_at(shape)}" for shape in shapes
            )


def _named(shape: Shape) -> str:
    return f"{shape.size} {shape.colour} {shape.kind}"


def _at(shape: Shape) -> str:
    match shape.place:
        case "centre":
            return "in the centre"
        case "left" | "right":
            return f"on the {shape.place}"
        case _:
            return f"at the {shape.place}"


def _listed(phrases: Sequence[str]) -> str:
    *first, last = phrases
    return f"{' , '.join(first)} and {last}" if first else last


_PLACE = rf"(?:in|on|at) the (?P<place>{'|'.join(sorted(PLACES, key=len, reverse=True))})\b"
_NAMED = rf"(?P<size>{'|'.join(SIZES)}) (?P<colour>{'|'.join(COLOURS)}) (?P<kind>{'|'.join(KINDS)})"
_CLAIMS = (
    re.compile(rf"a {_NAMED} {_PLACE}"),
    re.compile(rf"{_PLACE} there is a {_NAMED}"),
    re.compile(
        rf"one (?P<colour>{'|'.join(COLOURS)}) (?P<kind>{'|'.join(KINDS)}) , "
        rf"(?P<size>{'|'.join(SIZES)}) , {_PLACE}"
    ),
)
_BETWEEN = re.compile(r"(?:there is|the picture shows|and|,|\s)*")


@dataclass(frozen=True)
class Claim:
    """Shape that a caption claims, and the numbers of the words for its size, colour and kind."""

    shape: Shape
    words: tuple[int, ...]


def claims(caption: str) -> tuple[Claim, ...] | None:
    """Return the shapes that a caption claims; None for an unknown wording."""
    best: tuple[Claim, ...] | None = None
    for pattern in _CLAIMS:
        matches = [
            Claim(
                Shape(**match.groupdict()),
                tuple(
                    len(caption[: match.start(part)].split()) for part in ("size", "colour", "kind")
                ),
            )
            for match in pattern.finditer(caption)
        ]
        rest = pattern.sub(" ", caption)
        if matches and _BETWEEN.fullmatch(rest):
            best = tuple(matches)
    return best


def is_true(caption: str, scene: Scene) -> bool:
    """Return whether a caption claims every shape of the scene once and no other shape."""
    claimed = [str(claim.shape) for claim in claims(caption) or ()]
    return sorted(claimed) == sorted(map(str, scene.shapes))


def draw(scene: Scene, size: int = 64, seed: int | None = None) -> Image:
    """Draw the scene as a square image on a grey ground that varies with the scene."""
    from PIL import Image, ImageDraw

    drawing = random.Random(str(scene) if seed is None else seed)
    ground = drawing.randint(60, 110)
    fine = size * FINER
    image = Image.new("RGB", (fine, fine), (ground, ground, ground))
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        left, top, right, bottom = (share * fine for share in shape.box)
        colour = COLOURS[shape.colour]
        match shape.kind:
            case "circle":
                pen.ellipse((left, top, right, bottom), fill=colour)
            case "square":
                pen.rectangle((left, top, right, bottom), fill=colour)
            case _:
                pen.polygon([(left, bottom), (right, bottom), ((left + right) / 2, top)], colour)
    small = image.resize((size, size), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(drawing.getrandbits(32)).normal(0, 4, (size, size, 3))
    return Image.fromarray(np.clip(np.asarray(small) + noise, 0, 255).astype(np.uint8))


def pixels(scene: Scene, size: int = 64) -> UInt8[np.ndarray, "channel height width"]:
    """Return the image of a scene as red, green and blue from 0 to 255."""
    return np.ascontiguousarray(np.asarray(draw(scene, size)).transpose(2, 0, 1))
