"""Inputs of models: padded numbers with a mask that is True at real positions."""

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
    """Token numbers padded to one length; the mask is True at real tokens.

    `lengths` are set when a batch moves to another device, because reading them from the mask there
    would wait for that device."""

    ids: Int[Tensor, "batch position"]
    mask: Bool[Tensor, "batch position"]
    lengths: tuple[int, ...] | None = None
    copies: Int[Tensor, "batch position"] | None = None
    """Number of each source piece in the target vocabulary, for models that copy; a piece that the
    vocabulary lacks has the size of the vocabulary plus its first position in the sentence."""

    @property
    def inputs(self) -> Int[Tensor, "batch position"]:
        """Input of the first layer of an encoder."""
        return self.ids

    def to(self, device: torch.device | str) -> Tokens:
        lengths = self.lengths if self.lengths is not None else _lengths(self.mask, device)
        copies = None if self.copies is None else _moved(self.copies, device)
        return Tokens(_moved(self.ids, device), _moved(self.mask, device), lengths, copies)

    def select(self, rows: Int[Tensor, "row"]) -> Tokens:
        """Return the sentences with these numbers."""
        lengths = self.lengths and tuple(self.lengths[row] for row in rows.tolist())
        copies = None if self.copies is None else self.copies[rows]
        return Tokens(self.ids[rows], self.mask[rows], lengths, copies)


@dataclass(frozen=True)
class Numbers:
    """Series of numbers with one or more features at each position; padding is zero."""

    values: Float[Tensor, "batch position feature"]
    mask: Bool[Tensor, "batch position"]
    lengths: tuple[int, ...] | None = None
    """Lengths of the series, as in `Tokens`."""

    @property
    def inputs(self) -> Float[Tensor, "batch position feature"]:
        """Input of the first layer of an encoder."""
        return self.values

    def to(self, device: torch.device | str) -> Numbers:
        lengths = self.lengths if self.lengths is not None else _lengths(self.mask, device)
        return Numbers(_moved(self.values, device), _moved(self.mask, device), lengths)

    def select(self, rows: Int[Tensor, "row"]) -> Numbers:
        """Return the series with these numbers."""
        lengths = self.lengths and tuple(self.lengths[row] for row in rows.tolist())
        return Numbers(self.values[rows], self.mask[rows], lengths)


@dataclass(frozen=True)
class Items:
    """Items with numbers, such as products with prices."""

    names: Tokens
    values: Float[Tensor, "batch position feature"]

    @property
    def mask(self) -> Bool[Tensor, "batch position"]:
        return self.names.mask

    def to(self, device: torch.device | str) -> Items:
        return Items(self.names.to(device), _moved(self.values, device))

    def select(self, rows: Int[Tensor, "row"]) -> Items:
        """Return the examples with these numbers."""
        return Items(self.names.select(rows), self.values[rows])


@dataclass(frozen=True)
class Images:
    """Images of one size: red, green and blue from 0 to 255. If several captions of a batch share
    an image, the image is stored once and `rows` has the number of the image of each caption."""

    values: UInt8[Tensor, "image channel height width"]
    rows: Int[Tensor, "batch"] | None = None

    def to(self, device: torch.device | str) -> Images:
        rows = None if self.rows is None else _moved(self.rows, device)
        return Images(_moved(self.values, device), rows)

    def select(self, rows: Int[Tensor, "row"]) -> Images:
        """Return the images of the captions with these numbers."""
        return Images(*_values_of(self, rows))


@dataclass(frozen=True)
class GridFeatures:
    """Features of the grid cells of images, computed by a pretrained backbone; `rows` as in
    `Images`."""

    values: Float[Tensor, "image cell feature"]
    rows: Int[Tensor, "batch"] | None = None

    def to(self, device: torch.device | str) -> GridFeatures:
        rows = None if self.rows is None else _moved(self.rows, device)
        return GridFeatures(_moved(self.values, device), rows)

    def select(self, rows: Int[Tensor, "row"]) -> GridFeatures:
        """Return the features of the images of the captions with these numbers."""
        return GridFeatures(*_values_of(self, rows))


@dataclass(frozen=True)
class ClassificationBatch:
    """Sources with one target each: the number of a label, or one or more numbers."""

    source: Tokens | Numbers | Items
    targets: Int[Tensor, "batch"] | Float[Tensor, "batch output"]

    def to(self, device: torch.device | str) -> ClassificationBatch:
        return ClassificationBatch(self.source.to(device), _moved(self.targets, device))

    def select(self, rows: Int[Tensor, "row"]) -> ClassificationBatch:
        """Return the examples with these numbers."""
        return ClassificationBatch(self.source.select(rows), self.targets[rows])

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class PairBatch:
    """Sources with target sequences.

    `inputs` are the inputs of the decoder, which begin with START. `outputs` are the tokens to
    predict: the inputs shifted by one, which end with END. `mask` is the mask of both.
    """

    source: Tokens | Images | GridFeatures
    inputs: Int[Tensor, "batch target"]
    outputs: Int[Tensor, "batch target"]
    mask: Bool[Tensor, "batch target"]
    places: Int[Tensor, "_"] | None = None
    """Positions of True in the flattened mask. They are set when a batch moves to another device,
    because finding them there would wait for that device."""
    rows: Int[Tensor, "batch"] | None = None
    """Number of the source of each target, if several targets share a source. None: targets and
    sources are in the same order."""

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
            None if self.rows is None else _moved(self.rows, device),
        )

    def select(self, rows: Int[Tensor, "row"]) -> PairBatch:
        """Return the targets with these numbers and their sources. The batch must be on the CPU."""
        if self.rows is None:
            source, of_targets = self.source.select(rows), None
        else:
            sources, of_targets = self.rows[rows].unique(return_inverse=True)
            source = self.source.select(sources)
        targets = self.inputs[rows], self.outputs[rows], self.mask[rows]
        return PairBatch(source, *targets, rows=of_targets)

    def __len__(self) -> int:
        """Return the number of targets."""
        return self.inputs.size(0)

    def real(self, values: Shaped[Tensor, "batch target *rest"]) -> Shaped[Tensor, "word *rest"]:
        """Return the values at the real target positions, sentence by sentence."""
        if self.places is None:
            return values[self.mask]
        return values.flatten(0, 1).index_select(0, self.places)


def _values_of(
    images: Images | GridFeatures, rows: Int[Tensor, "row"]
) -> tuple[Tensor, Tensor | None]:
    """Return the values of the images of these captions, each image once, and the number of the
    image of each caption."""
    if images.rows is None:
        return images.values[rows], None
    places, of_captions = images.rows[rows].unique(return_inverse=True)
    return images.values[places], of_captions


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
    """Return a batch of encoded pairs. Targets end with END."""
    return with_targets(pad(sources), targets)


def with_targets(
    source: Tokens | Images | GridFeatures, targets: Sequence[Sequence[int]]
) -> PairBatch:
    """Return a batch of padded sources and encoded targets, which end with END."""
    outputs = pad(targets)
    inputs = torch.cat([torch.full_like(outputs.ids[:, :1], START), outputs.ids[:, :-1]], dim=1)
    return PairBatch(source, inputs, outputs.ids, outputs.mask)
