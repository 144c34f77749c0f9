"""Dev and test pairs that are held out of files. Only pairs that may be held out are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from regard.corpora.held_out import HoldOut, SplitResult, none_left
from regard.data.examples import Pair
from regard.data.files.lines import LeftOut
from regard.data.invisible import InvisibleCharacters
from regard.data.source_sample import SourceSample
from regard.data.splits import DEV, MAX_HELD_OUT, TEST, source_hashes
from regard.data.text.pairs.streamed import PairFiles
from regard.data.text.parallel import no_pairs
from regard.runtime.progress import FIRST_RUN, OnProgress, with_progress

AT_A_TIME = 8192
"""Number of pairs whose sources are hashed together."""
SPARE = 64
"""Number of sampled sources beside twice the number of held-out pairs."""


def split_files(rule: HoldOut, files: PairFiles, on_progress: OnProgress | None) -> SplitResult:
    """Split pairs of files in one pass, with later passes if there is a limit, or if many pairs
    have the same source. UserError if there are no pairs to train on, or if a size that was set
    cannot be met."""
    limit = rule.config.limit
    most = rule.sizes(20 * MAX_HELD_OUT, 20 * MAX_HELD_OUT)
    size = 2 * sum(most) + SPARE  # of the sample, and number of pairs after the limit that it is of

    def new_sample() -> SourceSample:
        return SourceSample(size, max(most), rule.config.seed)

    sample, counter = new_sample(), _Counter(rule)
    for place, pairs, hashes in _parts(
        files, f"reading{FIRST_RUN}", on_progress, counter.left_out, total=files.estimated_lines()
    ):
        counter.add(place, pairs, hashes)
        _add(sample, place, pairs, hashes, limit, size)
    if not counter.num_pairs:
        raise no_pairs((files.files[0].path, files.files[0].target_path), counter.left_out)
    if limit is not None and limit >= counter.num_pairs:
        limit = None
        sample = _add_all(new_sample(), files, limit, size, on_progress)
    first = counter.num_pairs if limit is None else limit
    num_free = counter.num_pairs - (limit or 0)
    sizes = rule.sizes(counter.num_pairs, num_free)
    while True:
        if limit is not None:
            for _, _, hashes in _parts(files, "reading again", on_progress, end=limit):
                sample.remove(hashes)
        held_out = sample.hold_out(sizes)
        is_all = sample.is_complete if limit is None else size >= num_free
        if is_all or _suffices(rule, held_out, sizes):
            break
        size *= 4
        sample = _add_all(new_sample(), files, limit, size, on_progress)
    dev, test = _of(DEV, held_out), _of(TEST, held_out)
    rule.check_filled((len(dev), len(test)), num_free)
    places = tuple(sorted(place for place in held_out if place < first))
    if len(places) == first:
        raise none_left(counter.num_pairs)
    held_out_hashes = source_hashes((*dev, *test))
    shared = [counter.num_shared(side, held_out_hashes) for side in (0, 1)]
    return SplitResult(
        num_pairs=counter.num_pairs,
        num_train=first - len(places),
        first=first,
        held_out=places,
        dev=dev,
        test=test,
        left_out=counter.left_out,
        num_shared=shared[0],
        num_test_shared=shared[1],
        invisible=counter.invisible,
    )


class _Counter:
    """Counts of a pass over all pairs."""

    def __init__(self, rule: HoldOut) -> None:
        self.left_out = LeftOut()
        self.invisible = InvisibleCharacters()
        self.num_pairs = 0
        self._limit = rule.config.limit
        self._own = rule.hashes_of_files()
        self._are_found = [np.zeros(len(own), bool) for own in self._own]

    def add(self, place: int, pairs: list[Pair], hashes: np.ndarray) -> None:
        """Count pairs, the first of which is at this place."""
        self.invisible.add(pairs)
        self.num_pairs += len(hashes)
        training = hashes if self._limit is None else hashes[: max(0, self._limit - place)]
        for own, are_found in zip(self._own, self._are_found, strict=True):
            are_found |= np.isin(own, training)

    def num_shared(self, side: int, held_out: np.ndarray) -> int:
        """Return the number of sources of the dev file (0) or of the test file (1) that are trained
        on, without these held-out ones."""
        return int((self._are_found[side] & ~np.isin(self._own[side], held_out)).sum())


def _add(
    sample: SourceSample,
    place: int,
    pairs: list[Pair],
    hashes: np.ndarray,
    limit: int | None,
    size: int,
) -> None:
    """Add pairs to the sample; with a limit, only the `size` pairs after it: in a file that is
    sorted by length they resemble the training pairs most."""
    if limit is not None:
        begin, end = (min(max(0, edge - place), len(pairs)) for edge in (limit, limit + size))
        place, pairs, hashes = place + begin, pairs[begin:end], hashes[begin:end]
    sample.add(place, pairs, hashes)


def _add_all(
    sample: SourceSample,
    files: PairFiles,
    limit: int | None,
    size: int,
    on_progress: OnProgress | None,
) -> SourceSample:
    """Add all pairs to the sample, as `_add` does, and return it."""
    for place, pairs, hashes in _parts(files, "holding out", on_progress):
        _add(sample, place, pairs, hashes, limit, size)
    return sample


def _suffices(rule: HoldOut, held_out: dict[int, tuple[int, Pair]], sizes: tuple[int, int]) -> bool:
    """Return whether sizes that were set are filled, and at least half of default sizes."""
    counts = len(_of(DEV, held_out)), len(_of(TEST, held_out))
    are_set = (size is not None for size in rule.set_sizes().values())
    return all(
        count >= (size if is_set else size / 2)
        for count, size, is_set in zip(counts, sizes, are_set, strict=True)
    )


def _of(split: int, held_out: dict[int, tuple[int, Pair]]) -> tuple[Pair, ...]:
    """Return the pairs of a split in the order of their places."""
    return tuple(pair for _, (own, pair) in sorted(held_out.items()) if own == split)


def _parts(
    files: PairFiles,
    label: str,
    on_progress: OnProgress | None,
    left_out: LeftOut | None = None,
    end: int | None = None,
    total: int | None = None,
) -> Iterator[tuple[int, list[Pair], np.ndarray]]:
    """Yield pairs of the files in parts, up to the place `end`: the place of the first pair, the
    pairs, and the hashes of their sources. Progress without an `end` has this `total`."""
    pairs = islice(pairs_of(files, left_out), end)
    shown, place = with_progress(pairs, label, end or total, on_progress), 0
    while part := list(islice(shown, AT_A_TIME)):
        yield place, part, source_hashes(part)
        place += len(part)


def pairs_of(files: PairFiles, left_out: LeftOut | None = None) -> Iterator[Pair]:
    """Yield all pairs of the files, and add all other lines to `left_out`."""
    for item in files.each_line():
        if isinstance(item, Pair):
            yield item
        elif left_out is not None:
            left_out.add(item)
