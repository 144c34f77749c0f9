"""Memory of decoding, estimated before it begins.

    maps of an encoder          layers x heads x source x source          Transformers
    maps of a decoder's step    layers x heads x (source + target)        each hypothesis
    maps of a search            beam x steps, and again nbest x target    weights and scores
    states                      (source + beam x target) x layers x size
    choice of the next token    beam x vocabulary

The largest of measured searches and scores took 0.4 to 1.0 times its estimate (tests/tasks/
test_memory.py). All sums count float32 numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.building.ram import free_ram
from regard.config import ModelConfig, SearchConfig
from regard.errors import UserError

MIB = 1 << 20
BYTES = 4
"""Bytes of a number."""
SCORED = 2
"""Numbers of a map for each pair of positions: its weight and its score."""
STEP_BYTES = 600
"""Bytes of the record of one token of one hypothesis, in the search and in the lattice."""
DIGITS = 16
"""Characters of a number in JSON."""
SMALL = 64 * MIB
"""Memory that is allowed by default, however little is free."""
BATCH_BYTES = 512 * MIB
"""Estimated memory of a batch of several texts."""

Item = TypeVar("Item")


class MemoryLimitError(UserError, ValueError):
    """A text, or the results of all texts of a call, would take too much memory. `place` is the
    number of the text; None for all."""

    def __init__(self, needed: int, limit: int, name: str = "", place: int | None = None) -> None:
        """`name` is that of the argument with the text."""
        what = "the attention of all results" if place is None else "decoding"
        self.place = place
        self.reason = (
            f"{what} may take {needed / MIB:,.0f} MiB of memory: expected at most "
            f"{limit / MIB:,.0f} MiB; leave attention out, choose fewer or shorter texts, a "
            "smaller beam or a smaller maximum length, or raise search.max_memory (--max-memory)"
        )
        super().__init__(self.reason if place is None else f"{name}[{place}]: {self.reason}")


def memory_limit(search: SearchConfig, needed: int) -> int:
    """Return the largest number of bytes that decoding one text may take, to compare it with this
    number. Finding out the free memory takes as long as decoding a short text, so a small number is
    always allowed by default."""
    if search.max_memory is not None:
        return search.max_memory * MIB
    return SMALL if needed <= SMALL else max(free_ram() // 2, SMALL)


@dataclass(frozen=True)
class Part:
    """Numbers that one side of a model takes for each position, and its attention."""

    maps: int
    """Layers times heads of the attention to the source."""
    own_maps: int
    """Layers times heads of the attention to the side's own positions."""
    other_maps: int
    """Experts and vectors that a position attends to, over all layers."""
    state: int

    @classmethod
    def of(cls, config: Any) -> Part:
        """Return the numbers of a part of a configuration."""
        channels = getattr(config, "channels", None) or ()
        dilations = getattr(config, "sets", 0) * len(getattr(config, "dilations", ()))
        layers = max(getattr(config, "layers", 1), len(channels), dilations)
        heads = getattr(config, "heads", 1)
        sizes = [getattr(config, name, None) for name in ("size", "embedding", "feed_forward")]
        size = max(filter(None, (*sizes, *channels, 1)))
        has_own = config.kind == "transformer" or getattr(config, "intra_attention", False)
        experts = getattr(getattr(config, "experts", None), "number", 0)
        extra = getattr(config, "extra_vectors_shape", None) or (0, 0)
        vectors = getattr(config, "memory_vectors", 0) + extra[0]
        return cls(
            maps=layers * heads,
            own_maps=layers * heads if has_own else 0,
            other_maps=layers * experts + vectors,
            state=4 * layers * (sizes[0] or size) + 4 * size,
        )


class DecodingMemory:
    """Estimates for a model, or for the members of an ensemble. All are bytes."""

    def __init__(self, members: Iterable[ModelConfig], vocabulary: int) -> None:
        parts = [[Part.of(part) for part in member.parts.values()] for member in members]
        self._encoders = [encoder for encoder, _ in parts]
        self._decoders = [decoder for _, decoder in parts]
        self._vocabulary = vocabulary

    def of_search(
        self, source: int, target: int, beam: int, num_best: int, *, attention: bool
    ) -> int:
        """Estimate a search for one source, with at most `target` tokens of an output."""
        states = self._states(source, beam * target) + beam * (self._vocabulary + source) * 2
        maps = 0
        if attention:
            steps = self._decoder_maps(source, target // 2 + 1, beam * target)
            maps = 2 * self._encoder_maps(source) + steps
            maps += self._decoder_maps(source, target, num_best * target)
            maps += self._steps_maps(beam, target)
        return BYTES * (states + maps) + STEP_BYTES * beam * target

    def of_forced(self, source: int, target: int, *, attention: bool) -> int:
        """Estimate the score of one given target, or a prediction for a source, whose target is one
        token."""
        numbers = self._states(source, target) + min(target, 16) * self._vocabulary
        if attention:
            numbers += 2 * (self._encoder_maps(source) + self._decoder_maps(source, target, target))
        return BYTES * numbers + STEP_BYTES * target

    def of_maps(self, source: int, target: int, num_best: int = 1) -> int:
        """Estimate the maps of the outputs for one source, which a result keeps."""
        return BYTES * self._num_maps(source, target, num_best)

    def of_json(self, source: int, target: int, beam: int, *, attention: bool) -> int:
        """Estimate the size of a result as JSON."""
        if not attention:
            return 8 * beam * target + 1000
        return DIGITS * self._num_maps(source, target, 1) + 100 * (5 + beam) * target + 1000

    def _num_maps(self, source: int, target: int, num_best: int) -> int:
        decoders = self._decoder_maps(source, target, num_best * target)
        return self._encoder_maps(source) + decoders

    def _states(self, source: int, targets: int) -> int:
        encoders = sum(part.state for part in self._encoders)
        decoders = sum(part.state for part in self._decoders)
        return source * (encoders + decoders) + targets * decoders

    def _encoder_maps(self, source: int) -> int:
        return SCORED * sum(
            source * (part.own_maps * source + part.other_maps) for part in self._encoders
        )

    def _decoder_maps(self, source: int, target: int, rows: int) -> int:
        """Return the numbers of this many steps, of which each attends to `target` positions."""
        columns = sum(
            part.maps * source + part.own_maps * target + part.other_maps for part in self._decoders
        )
        return SCORED * rows * columns

    def _steps_maps(self, beam: int, target: int) -> int:
        """Return the numbers of one step before the tokens of other hypotheses are left out."""
        return 2 * SCORED * beam * beam * target * sum(part.own_maps for part in self._decoders)


def batches_within(
    items: Iterable[Item],
    bytes_of: Callable[[Item], int],
    max_items: int,
) -> Iterator[list[Item]]:
    """Yield batches of consecutive items, padded to their largest one: at most this number of
    items, and at most `BATCH_BYTES`, unless one item alone has more."""
    batch: list[Item] = []
    largest = 0
    for item in items:
        num_bytes = bytes_of(item)
        is_full = (
            len(batch) == max_items or max(largest, num_bytes) * (len(batch) + 1) > BATCH_BYTES
        )
        if batch and is_full:
            yield batch
            batch, largest = [], 0
        batch.append(item)
        largest = max(largest, num_bytes)
    if batch:
        yield batch


def parts_within(items: Iterable[Item], bytes_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield lists of consecutive items with at most `BATCH_BYTES` together, unless one item alone
    has more."""
    part: list[Item] = []
    total = 0
    for item in items:
        num_bytes = bytes_of(item)
        if part and total + num_bytes > BATCH_BYTES:
            yield part
            part, total = [], 0
        part.append(item)
        total += num_bytes
    if part:
        yield part


class ResultMemory:
    """Memory of the attention of all results of a call, counted while they are made."""

    def __init__(self, search: SearchConfig) -> None:
        self._search = search
        self._total = 0

    def add(self, num_bytes: int) -> None:
        """Count a result. MemoryLimitError if all results together take too much."""
        self._total += num_bytes
        limit = memory_limit(self._search, self._total)
        if self._total > limit:
            raise MemoryLimitError(self._total, limit)


def check_each(needs: Iterable[tuple[int, int]], search: SearchConfig, name: str = "text") -> None:
    """Raise a MemoryLimitError for the first text, given as its number and its estimate, that takes
    more than the limit."""
    needs = list(needs)
    limit = memory_limit(search, max((needed for _, needed in needs), default=0))
    for place, needed in needs:
        if needed > limit:
            raise MemoryLimitError(needed, limit, name, place)
