"""What travels from the data to a model: padded numbers with a mask that says which are real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.special_tokens import END, PAD, START, UNKNOWN
from regard.shapes import Bool, Float, Int, Shaped, Tensor, UInt8

__all__ = [
    "END",
    "PAD",
    "START",
    "UNKNOWN",
    "ClassificationBatch",
    "GridFeatures",
    "Images",
    "Items",
    "Numbers",
    "PairBatch",
    "Tokens",
    "pad",
    "pair_batch",
    "with_targets",
]


@dataclass(frozen=True)
class Tokens:
    """Token numbers padded to one length; mask is True where a token is real.

    `lengths` are set for a batch that moves to another device, where reading them from the mask
    would wait for it."""

    ids: Int[Tensor, "batch position"]
    mask: Bool[Tensor, "batch position"]
    lengths: tuple[int, ...] | None = None

    @property
    def inputs(self) -> Int[Tensor, "batch position"]:
        """What an encoder's first layer takes."""
        return self.ids

    def to(self, device: torch.device | str) -> Tokens:
        lengths = self.lengths if self.lengths is not None else _lengths(self.mask, device)
        return Tokens(_moved(self.ids, device), _moved(self.mask, device), lengths)


@dataclass(frozen=True)
class Numbers:
    """Series of numbers, some for each position, zero where they are padded."""

    values: Float[Tensor, "batch position feature"]
    mask: Bool[Tensor, "batch position"]
    lengths: tuple[int, ...] | None = None
    """Lengths of the series, as in `Tokens`."""

    @property
    def inputs(self) -> Float[Tensor, "batch position feature"]:
        """What an encoder's first layer takes."""
        return self.values

    def to(self, device: torch.device | str) -> Numbers:
        lengths = self.lengths if self.lengths is not None else _lengths(self.mask, device)
        return Numbers(_moved(self.values, device), _moved(self.mask, device), lengths)


@dataclass(frozen=True)
class Items:
    """Names with numbers of their own, such as products with prices."""

    names: Tokens
    values: Float[Tensor, "batch position feature"]

    @property
    def mask(self) -> Bool[Tensor, "batch position"]:
        return self.names.mask

    def to(self, device: torch.device | str) -> Items:
        return Items(self.names.to(device), _moved(self.values, device))


@dataclass(frozen=True)
class Images:
    """Pictures of one size, red, green and blue from 0 to 255. Where several rows of a batch are
    about one picture, `rows` says which one each is about, and the picture is there once."""

    values: UInt8[Tensor, "picture channel height width"]
    rows: Int[Tensor, "batch"] | None = None

    def to(self, device: torch.device | str) -> Images:
        rows = None if self.rows is None else _moved(self.rows, device)
        return Images(_moved(self.values, device), rows)


@dataclass(frozen=True)
class GridFeatures:
    """Cells of pictures that a pretrained network made beforehand; `rows` as in `Images`."""

    values: Float[Tensor, "picture cell feature"]
    rows: Int[Tensor, "batch"] | None = None

    def to(self, device: torch.device | str) -> GridFeatures:
        rows = None if self.rows is None else _moved(self.rows, device)
        return GridFeatures(_moved(self.values, device), rows)


@dataclass(frozen=True)
class ClassificationBatch:
    """Sources with one answer each: the number of a class, or numbers to come near to."""

    source: Tokens | Numbers | Items
    answers: Int[Tensor, "batch"] | Float[Tensor, "batch output"]

    def to(self, device: torch.device | str) -> ClassificationBatch:
        return ClassificationBatch(self.source.to(device), _moved(self.answers, device))


@dataclass(frozen=True)
class PairBatch:
    """Sources with their targets.

    `inputs` are what the decoder reads (they begin with START) and `outputs` what it should write:
    the same words one step later. Both have the target's mask.
    """

    source: Tokens | Images | GridFeatures
    inputs: Int[Tensor, "batch target"]
    outputs: Int[Tensor, "batch target"]
    mask: Bool[Tensor, "batch target"]
    places: Int[Tensor, "_"] | None = None
    """Positions of the flat mask that are True, for a batch that moved to another device, where
    finding them would wait for it."""

    def to(self, device: torch.device | str) -> PairBatch:
        places = self.places
        if places is None and _leaves(self.mask, device):
            places = self.mask.flatten().nonzero()[:, 0]
        return PairBatch(
            self.source.to(device),
            _moved(self.inputs, device),
            _moved(self.outputs, device),
            _moved(self.mask, device),
            None if places is None else _moved(places, device),
        )

    def real(self, values: Shaped[Tensor, "batch target *rest"]) -> Shaped[Tensor, "word *rest"]:
        """Return the values at the real target positions, sentence by sentence."""
        if self.places is None:
            return values[self.mask]
        return values.flatten(0, 1).index_select(0, self.places)


def _leaves(values: Tensor, device: torch.device | str) -> bool:
    return values.is_cpu and torch.device(device).type != "cpu"


def _moved(values: Shaped[Tensor, "*any"], device: torch.device | str) -> Shaped[Tensor, "*any"]:
    """Move a tensor; to a CUDA device from pinned memory, so that the CPU does not wait."""
    if values.is_cpu and torch.device(device).type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


def _lengths(
    mask: Bool[Tensor, "batch position"], device: torch.device | str
) -> tuple[int, ...] | None:
    """Return the lengths of a mask that leaves the CPU, if all of its padding is at the end."""
    if not _leaves(mask, device):
        return None
    lengths = mask.sum(dim=1)
    is_prefix = torch.equal(mask, torch.arange(mask.size(1)) < lengths[:, None])
    return tuple(lengths.tolist()) if is_prefix and bool((lengths > 0).all()) else None


def pad(sequences: Sequence[Sequence[int]]) -> Tokens:
    """Stack token numbers of different lengths (each at least one) to one padded block."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(sequence, dtype=torch.long) for sequence in sequences],
        batch_first=True,
        padding_value=PAD,
    )
    return Tokens(ids, torch.arange(ids.size(1)) < lengths[:, None])


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Make a batch of encoded pairs; the targets hold what is to be written, END included."""
    return with_targets(pad(sources), targets)


def with_targets(
    source: Tokens | Images | GridFeatures, targets: Sequence[Sequence[int]]
) -> PairBatch:
    """A batch of sources that are padded already, with their targets."""
    outputs = pad(targets)
    inputs = torch.cat([torch.full_like(outputs.ids[:, :1], START), outputs.ids[:, :-1]], dim=1)
    return PairBatch(source, inputs, outputs.ids, outputs.mask)
