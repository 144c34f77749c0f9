"""The data stage: from a recipe's data to tokenizers, training batches and held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config import DataConfig
from regard.data.batch import END
from regard.data.batching import BatchSettings, PairBatches
from regard.data.generated import generate
from regard.data.text import Corpus, Pair, numbers_of, read_pairs, same_text, split_held_out
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
    if config.dev_path is not None:
        dev = read_pairs(config.dev_path, target_path=config.dev_target_path)
        return Split(pairs[: config.limit], dev.pairs, (), left_out + dev.summary())
    usual = min(len(pairs) // 20, MOST_HELD_OUT)
    sizes = (
        usual if config.dev_size is None else config.dev_size,
        usual if config.test_size is None else config.test_size,
    )
    if config.limit is not None and config.limit < len(pairs):
        return _from_later_pairs(pairs, config.limit, sizes, seed, left_out)
    if sum(sizes) >= len(pairs):
        raise UserError(
            f"{len(pairs)} pairs are too few to hold out {sizes[0]} for the dev score and "
            f"{sizes[1]} for the test: lower --data.dev-size and --data.test-size"
        )
    return Split(*split_held_out(pairs, sizes, seed), left_out)


def _from_later_pairs(
    pairs: tuple[Pair, ...],
    limit: int,
    sizes: tuple[int, int],
    seed: int,
    left_out: tuple[str, ...],
) -> Split:
    """Train on the first pairs; hold out of the next ones whose source is not among them."""
    train = pairs[:limit]
    seen = {same_text(pair.source) for pair in train}
    unseen = [pair for pair in pairs[limit:] if same_text(pair.source) not in seen]
    held_out = split_held_out(unseen[: 2 * sum(sizes)], sizes, seed)
    return Split(train, held_out.dev, held_out.test, left_out)


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
