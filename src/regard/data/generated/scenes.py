"""Scenes of one to three shapes, drawn as pictures and told in five ways. What a caption says can
be checked against the scene itself, and where it has to look is known.

    large red circle top left; small blue square centre          a scene as text
    a large red circle at the top left and a small blue ...      what is said of it
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
from regard.files import shortened
from regard.shapes import Float, UInt8

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
"""Shares of the picture's side."""
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
"""Rows and columns of a picture of three by three."""
NUMBERS = (1, 2, 3)
"""Numbers of shapes in a scene."""
NUM_WORDINGS = 5
SAMPLE = "large red circle top left"
FINER = 4
"""Pictures are drawn so many times as large, so that edges are smooth."""


@dataclass(frozen=True)
class Shape:
    """One thing in a scene."""

    size: str
    colour: str
    kind: str
    place: str

    def __str__(self) -> str:
        return f"{self.size} {self.colour} {self.kind} {self.place}"

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom, in shares of the picture's side."""
        row, column = PLACES[self.place]
        half = SIZES[self.size] / 2
        x, y = (column + 0.5) / 3, (row + 0.5) / 3
        return x - half, y - half, x + half, y + half

    def inside(self, side: int) -> Float[np.ndarray, "cell"]:
        """The share of each cell that lies in the box, for a grid of so many rows and columns, row
        after row."""
        left, top, right, bottom = self.box
        edges = np.arange(side + 1) / side

        def covered(first: float, last: float) -> Float[np.ndarray, "side"]:
            return np.clip(np.minimum(edges[1:], last) - np.maximum(edges[:-1], first), 0, None)

        return np.outer(covered(top, bottom), covered(left, right)).ravel() * side**2


@dataclass(frozen=True)
class Scene:
    """Shapes in the order in which they are read: from the top left to the bottom right."""

    shapes: tuple[Shape, ...]
    copy: int = 1
    """Number of this picture among those of the same shapes, which differ in ground and noise."""

    def __str__(self) -> str:
        text = "; ".join(map(str, self.shapes))
        return text if self.copy == 1 else f"{text} #{self.copy}"

    @classmethod
    def of(cls, text: str) -> Scene:
        """What `str` wrote; UserError for anything else."""
        described, has_copy, copy = text.partition("#")
        if has_copy and not re.fullmatch(r"[0-9]{1,9}", copy):
            came = shortened(copy)
            raise UserError(f"{came!r} is no number of a picture: expected such as '{SAMPLE} #2'")
        shapes = []
        for part in described.split(";"):
            words = part.split()
            size, colour, kind, *place = [*words, "", "", ""]
            shape = Shape(size, colour, kind, " ".join(place).strip())
            if not _is_known(shape):
                came = shortened(part.strip())
                raise UserError(f"{came!r} is no shape of a scene: expected such as '{SAMPLE}'")
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
    """Scenes for training, for the dev score and for the test."""

    train: tuple[Scene, ...]
    dev: tuple[Scene, ...]
    test: tuple[Scene, ...]


def scenes(count: int, seed: int = 1) -> tuple[Scene, ...]:
    """Draw distinct scenes: as many of one, of two and of three shapes, as long as there are any.
    There are 324 scenes of one shape."""
    most = sum(map(_num_scenes, NUMBERS))
    if not 1 <= count <= most:
        raise UserError(f"{count} scenes were asked for: expected 1 to {most:,}")
    return _distinct(count, random.Random(seed), {n: _num_scenes(n) for n in NUMBERS})


def split_scenes(count: int, held_out: tuple[int, int], seed: int = 1) -> SceneSplit:
    """Draw scenes for training, dev and test, `count` in all: in each part as many of one, of two
    and of three shapes.

    Held-out scenes are distinct and not in training. Scenes in training may repeat, as pictures
    with another ground and noise, since there are 324 of one shape. At most half of these are held
    out."""
    num_dev, num_test = held_out
    num_train = count - num_dev - num_test
    most = {number: _num_scenes(number) // 2 for number in NUMBERS}
    if num_train < 1 or num_dev + num_test > sum(most.values()):
        raise UserError(
            f"cannot hold out {num_dev:,} and {num_test:,} of {count:,} scenes: expected fewer "
            f"than {count:,} and at most {sum(most.values()):,}, half of all distinct scenes"
        )
    drawing = random.Random(seed)
    held_out_scenes = _distinct(num_dev + num_test, drawing, most)
    unseen, train, copies = frozenset(held_out_scenes), list[Scene](), Counter[Scene]()
    while len(train) < num_train:
        scene = _draw_scene(drawing, NUMBERS[len(train) % len(NUMBERS)])
        if scene not in unseen:
            copies[scene] += 1
            train.append(replace(scene, copy=copies[scene]))
    return SceneSplit(tuple(train), held_out_scenes[:num_dev], held_out_scenes[num_dev:])


def _distinct(count: int, drawing: random.Random, most: dict[int, int]) -> tuple[Scene, ...]:
    """Distinct scenes, evenly by number of shapes, but at most `most` of each number."""
    drawn, sizes = dict[Scene, None](), cycle(NUMBERS)
    room = dict(most)
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
    """Number of scenes of this number of shapes."""
    looks = len(SIZES) * len(COLOURS) * len(KINDS)
    return math.comb(len(PLACES), number) * looks**number


def captioned(drawn: Iterable[Scene]) -> tuple[Pair, ...]:
    """Scenes as text, each with its five captions."""
    told = [(scene, caption) for scene in drawn for caption in captions(scene)]
    return tuple(Pair(str(scene), caption, line) for line, (scene, caption) in enumerate(told, 1))


def captions(scene: Scene) -> tuple[str, ...]:
    """The same scene in every wording."""
    return tuple(_tell(scene, wording) for wording in range(NUM_WORDINGS))


def _tell(scene: Scene, wording: int) -> str:
    shapes = scene.shapes
    match wording:
        case 0:
            return " and ".join(f"a {_named(each)} {_at(each)}" for each in shapes)
        case 1:
            told = [f"a {_named(each)} {_at(each)}" for each in shapes]
            return f"there is {_listed(told)}"
        case 2:
            return " , ".join(f"{_at(each)} there is a {_named(each)}" for each in shapes)
        case 3:
            told = [f"a {_named(each)} {_at(each)}" for each in shapes]
            return f"the picture shows {_listed(told)}"
        case _:
            return " and ".join(
                f"one {each.colour} {each.kind} , {each.size} , {_at(each)}" for each in shapes
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


def _listed(told: Sequence[str]) -> str:
    return told[0] if len(told) == 1 else f"{' , '.join(told[:-1])} and {told[-1]}"


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
    """A shape that a caption speaks of, and where it says what the shape looks like: the numbers of
    the words for its size, its colour and its kind."""

    shape: Shape
    words: tuple[int, ...]


def claims(caption: str) -> tuple[Claim, ...] | None:
    """What a caption says; None where it says something in no known wording."""
    best: tuple[Claim, ...] | None = None
    for pattern in _CLAIMS:
        found = [
            Claim(
                Shape(**match.groupdict()),
                tuple(
                    len(caption[: match.start(part)].split()) for part in ("size", "colour", "kind")
                ),
            )
            for match in pattern.finditer(caption)
        ]
        rest = pattern.sub(" ", caption)
        if found and _BETWEEN.fullmatch(rest):
            best = tuple(found)
    return best


def is_true(caption: str, scene: Scene) -> bool:
    """Whether all that a caption says is so, and it says something of every shape once."""
    said = [str(claim.shape) for claim in claims(caption) or ()]
    return sorted(said) == sorted(map(str, scene.shapes))


def draw(scene: Scene, size: int = 64, seed: int | None = None) -> Image:
    """The scene as a square picture on a ground of grey that varies with the scene."""
    from PIL import Image, ImageDraw

    drawing = random.Random(str(scene) if seed is None else seed)
    ground = drawing.randint(60, 110)
    fine = size * FINER
    picture = Image.new("RGB", (fine, fine), (ground, ground, ground))
    pen = ImageDraw.Draw(picture)
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
    small = picture.resize((size, size), Image.Resampling.LANCZOS)
    noise = np.random.default_rng(drawing.getrandbits(32)).normal(0, 4, (size, size, 3))
    return Image.fromarray(np.clip(np.asarray(small) + noise, 0, 255).astype(np.uint8))


def pixels(scene: Scene, size: int = 64) -> UInt8[np.ndarray, "channel height width"]:
    """The picture as numbers."""
    return np.ascontiguousarray(np.asarray(draw(scene, size)).transpose(2, 0, 1))
