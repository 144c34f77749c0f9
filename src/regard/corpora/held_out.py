"""Dev and test pairs that are held out of the training data. No held-out source is trained on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from regard.config import Data
from regard.corpora.sources import DataSources
from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LeftOut
from regard.data.invisible import InvisibleCharacters
from regard.data.splits import DEV, MAX_HELD_OUT, TEST, TRAIN, assign_splits, source_hashes
from regard.errors import UserError
from regard.runtime.progress import OnProgress, with_progress

UNUSED = 3
"""Number of the split of pairs after the limit that are not used."""


@dataclass(frozen=True)
class SplitResult:
    """Pairs that are held out, and what a pass over all pairs has counted."""

    num_pairs: int
    num_train: int
    first: int
    """Number of leading pairs that contain the training pairs."""
    held_out: tuple[int, ...]
    """Places among these that are not training pairs."""
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: LeftOut
    num_shared: int
    """Number of pairs of a dev file whose source is trained on."""
    num_test_shared: int
    """Number of pairs of a test file whose source is trained on."""
    invisible: InvisibleCharacters
    """Invisible characters of the pairs that are trained on or held out."""


@dataclass(frozen=True)
class HoldOut:
    """Rule by which pairs are held out."""

    config: Data
    sources: DataSources

    def facts(self) -> object:
        """Return the values, apart from the pairs, that determine the split."""
        config = self.config
        digests = [
            part and hashlib.sha256(source_hashes(part.pairs).tobytes()).hexdigest()
            for part in (self.sources.dev, self.sources.test)
        ]
        return ["split 4", config.limit, config.dev_size, config.test_size, config.seed, *digests]

    def sizes(self, num_pairs: int, num_free: int) -> tuple[int, int]:
        """Return the largest numbers of dev and test pairs, of which `num_free` pairs can be held
        out. If dev pairs have a file, test pairs usually have one too, so by default no test pairs
        are held out."""
        config = self.config
        usual = min(num_pairs // 20, num_free // 2, MAX_HELD_OUT)
        has_dev, has_test = self.sources.dev is not None, self.sources.test is not None
        dev = 0 if has_dev else usual if config.dev_size is None else config.dev_size
        if has_test:
            return dev, 0
        return dev, (0 if has_dev else usual) if config.test_size is None else config.test_size

    def set_sizes(self) -> dict[str, int | None]:
        """Return the sizes that the configuration sets for pairs that are held out."""
        config, sources = self.config, self.sources
        return {
            "dev": config.dev_size if sources.dev is None else None,
            "test": config.test_size if sources.test is None else None,
        }

    def check_filled(self, counts: tuple[int, int], num_pairs: int) -> None:
        """Raise a UserError if fewer pairs are held out than a size that was set. The default size
        is an upper bound only."""
        for (name, size), count in zip(self.set_sizes().items(), counts, strict=True):
            if size is not None and count < size:
                raise UserError(
                    f"--data.{name}-size is {size}, but only {count} of {num_pairs} pairs can be "
                    "held out for it, since pairs with one source stay together: lower "
                    "--data.dev-size or --data.test-size"
                )

    def hashes_of_files(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of the sources of a dev file and of a test file."""
        dev, test = self.sources.dev, self.sources.test
        return source_hashes(dev.pairs if dev else ()), source_hashes(test.pairs if test else ())


def split_corpus(rule: HoldOut, corpus: Corpus, on_progress: OnProgress | None) -> SplitResult:
    """Split pairs in memory. UserError if there are no pairs to train on, or if a size that was set
    cannot be met."""
    pairs = corpus.pairs
    hashes = source_hashes(with_progress(pairs, "reading", None, on_progress))
    split_of, first = _parts(rule, hashes)
    trained = split_of == TRAIN
    if not trained.any():
        raise none_left(len(pairs))
    shared = [int(np.isin(own, hashes[trained]).sum()) for own in rule.hashes_of_files()]
    return SplitResult(
        num_pairs=len(pairs),
        num_train=int(trained.sum()),
        first=first,
        held_out=tuple(np.flatnonzero(~trained[:first]).tolist()),
        dev=tuple(pairs[place] for place in np.flatnonzero(split_of == DEV).tolist()),
        test=tuple(pairs[place] for place in np.flatnonzero(split_of == TEST).tolist()),
        left_out=corpus.left_out,
        num_shared=shared[0],
        num_test_shared=shared[1],
        invisible=InvisibleCharacters.of(pairs),
    )


def none_left(num_pairs: int) -> UserError:
    """Return the error for data without a training pair."""
    return UserError(
        f"all {num_pairs} pairs are held out, which leaves none to train on: lower "
        "--data.dev-size or --data.test-size"
    )


def _parts(rule: HoldOut, hashes: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the split of each pair, and the number of pairs up to the limit."""
    limit = rule.config.limit
    limited = limit is not None and limit < len(hashes)
    first = limit if limit is not None and limited else len(hashes)
    split_of = np.full(len(hashes), UNUSED, np.uint8)
    free = np.arange(len(hashes))
    if limited:
        split_of[:first] = TRAIN
        free = free[first:][~np.isin(hashes[first:], hashes[:first])]
    sizes = rule.sizes(len(hashes), len(free))
    near = 2 * sum(sizes) if limited else len(free)
    parts = _hold_out(hashes[free], sizes, near, rule.config.seed)
    rule.check_filled(_counts(parts), len(free))
    split_of[free[: len(parts)]] = np.where(parts == TRAIN, UNUSED, parts) if limited else parts
    return split_of, first


def _hold_out(hashes: np.ndarray, sizes: tuple[int, int], near: int, seed: int) -> np.ndarray:
    """Hold out pairs among the first `near` if they suffice: in a file that is sorted by length
    they resemble the training pairs most."""
    while True:
        parts = assign_splits(hashes[:near], sizes, seed)
        if near >= len(hashes) or _counts(parts) == sizes:
            return parts
        near *= 2


def _counts(parts: np.ndarray) -> tuple[int, int]:
    return int((parts == DEV).sum()), int((parts == TEST).sum())
