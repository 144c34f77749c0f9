"""The data stage: from a recipe's data to tokenizers, training batches and held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config import DataConfig
from regard.data.batch import END
from regard.data.batching import BatchSettings, PairBatches
from regard.data.checking import Overlap
from regard.data.generated import generate
from regard.data.text import (
    Corpus,
    HeldOut,
    Pair,
    hold_out,
    numbers_of,
    read_pairs,
    same_text,
)
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.pipeline.folder import RunFolder

MOST_HELD_OUT = 500


@dataclass(frozen=True)
class Split:
    """Pairs to train on, pairs for the dev score, pairs for the test, and what was left out."""

    train: tuple[Pair, ...]
    dev: tuple[Pair, ...]
    test: tuple[Pair, ...]
    left_out: tuple[str, ...]


def read(config: DataConfig, seed: int) -> Split:
    """Read or make the pairs and hold some out. No held-out source is trained on."""
    corpus = _corpus(config, seed)
    pairs, left_out = corpus.pairs, corpus.summary()
    limited = config.limit is not None and config.limit < len(pairs)
    free = _unseen(pairs, config.limit) if limited else pairs
    sizes = _sizes(config, len(pairs), len(free))
    held_out = _hold_out(free, sizes, seed, near=2 * sum(sizes) if limited else len(free))
    _check_filled(config, held_out, len(free))
    train = pairs[: config.limit] if limited else held_out.train
    if not train:
        raise UserError(
            f"all {len(pairs)} pairs are held out, which leaves none to train on: lower "
            "--data.dev-size or --data.test-size"
        )
    if config.dev_path is None:
        return Split(train, held_out.dev, held_out.test, left_out)
    dev = read_pairs(config.dev_path, target_path=config.dev_target_path)
    warnings = Overlap.of("dev", dev.pairs, train).warnings()
    return Split(train, dev.pairs, held_out.test, left_out + dev.summary() + warnings)


def _sizes(config: DataConfig, num_pairs: int, num_free: int) -> tuple[int, int]:
    """The most pairs to hold out for dev and test. Where the dev pairs have a file of their own,
    those of the test usually have too, so that none are held out unasked."""
    usual = min(num_pairs // 20, num_free // 2, MOST_HELD_OUT)
    test = config.test_size
    if config.dev_path is not None:
        return 0, test or 0
    return usual if config.dev_size is None else config.dev_size, usual if test is None else test


def _unseen(pairs: tuple[Pair, ...], limit: int | None) -> tuple[Pair, ...]:
    """The pairs after the first ones, without those whose source is among the first."""
    seen = {same_text(pair.source) for pair in pairs[:limit]}
    return tuple(pair for pair in pairs[limit:] if same_text(pair.source) not in seen)


def _hold_out(pairs: tuple[Pair, ...], sizes: tuple[int, int], seed: int, near: int) -> HeldOut:
    """Out of the first pairs if these suffice: in a file that is sorted by length they are most
    like those that are trained on."""
    while True:
        held_out = hold_out(pairs[:near], sizes, seed)
        if near >= len(pairs) or (len(held_out.dev), len(held_out.test)) == sizes:
            return held_out
        near *= 2


def _check_filled(config: DataConfig, held_out: HeldOut, num_pairs: int) -> None:
    """UserError where fewer are held out than was asked for; the usual number is only a most."""
    dev_size = config.dev_size if config.dev_path is None else None
    asked = {"dev": (dev_size, held_out.dev), "test": (config.test_size, held_out.test)}
    for name, (size, part) in asked.items():
        if size is not None and len(part) < size:
            raise UserError(
                f"--data.{name}-size is {size}, but only {len(part)} of {num_pairs} pairs can be "
                "held out for it, since pairs with one source stay together: lower "
                "--data.dev-size or --data.test-size"
            )


def _corpus(config: DataConfig, seed: int) -> Corpus:
    if config.generated is not None:
        return Corpus(generate(config.generated, config.generated_size, seed))
    if config.path is None:
        raise UserError(
            "this recipe needs data: give --data.path FILE (source, tab, target on each line), "
            "or --data.path SOURCES --data.target-path TARGETS"
        )
    return read_pairs(config.path, target_path=config.target_path)


@dataclass(frozen=True)
class Tokenizers:
    """One for each side; a shared vocabulary is the same tokenizer twice."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether a piece has one number on both sides."""
        return self.source.vocabulary == self.target.vocabulary

    @classmethod
    def load(cls, folder: RunFolder) -> Tokenizers:
        """Read both from a run."""
        source = Tokenizer.load(folder.source_tokenizer)
        return cls(source, Tokenizer.load(folder.target_tokenizer))

    def save(self, folder: RunFolder) -> None:
        """Write both into a run."""
        self.source.save(folder.source_tokenizer)
        self.target.save(folder.target_tokenizer)


def train_tokenizers(config: DataConfig, pairs: Sequence[Pair]) -> Tokenizers:
    """Learn the vocabularies from the training pairs."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if config.shared_vocabulary or config.vocabulary is not None:
        both = Tokenizer.train([*sources, *targets], _settings(config, target=False))
        return Tokenizers(both, both)
    return Tokenizers(
        Tokenizer.train(sources, _settings(config, target=False)),
        Tokenizer.train(targets, _settings(config, target=True)),
    )


def _settings(config: DataConfig, *, target: bool) -> TokenizerSettings:
    kind = config.target_tokenizer if target and config.target_tokenizer else config.tokenizer
    return TokenizerSettings(
        kind=kind,
        language=config.target_language if target else config.source_language,
        lowercase=config.lowercase,
        min_count=config.min_count,
        size=config.vocabulary_size,
        vocabulary=config.vocabulary,
        unknown=config.vocabulary is None,
    )


def encode_sources(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Token numbers of sources, with END where the recipe has it."""
    end = [END] if config.source_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]


def encode_targets(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Token numbers of targets, with END where the recipe has it."""
    end = [END] if config.target_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]


@dataclass(frozen=True)
class Encoded:
    """Training batches, and a sentence about pairs that were too long, if there were any."""

    batches: PairBatches
    left_out: tuple[str, ...]


def encode(config: DataConfig, tokenizers: Tokenizers, pairs: Sequence[Pair], seed: int) -> Encoded:
    """Turn training pairs to batches, leaving out and naming those that are too long."""
    sources = encode_sources(config, tokenizers.source, [pair.source for pair in pairs])
    targets = encode_targets(config, tokenizers.target, [pair.target for pair in pairs])
    kept, too_long = [], []
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if max(len(source), len(target)) <= config.max_length:
            kept.append((source, target))
        else:
            too_long.append(pair.line)
    if not kept:
        raise UserError(
            f"all {len(pairs)} pairs are longer than {config.max_length} tokens: raise "
            "--data.max-length"
        )
    settings = BatchSettings(tokens=config.batch_tokens, sentences=config.batch_sentences)
    batches = PairBatches([each[0] for each in kept], [each[1] for each in kept], settings, seed)
    left_out = (
        f"left out {len(too_long)} pairs longer than {config.max_length} tokens "
        f"({numbers_of(too_long)})"
    )
    return Encoded(batches, (left_out,) if too_long else ())
