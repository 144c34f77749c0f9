"""From pairs to numbers: the tokenizers are learned, and the pairs become training batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from regard.config import DataConfig
from regard.data.batching import BatchSettings, PairBatches
from regard.data.files.lines import LineNumbers
from regard.data.text.encoded import EncodedPairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.runs.cache import CachedPairs
from regard.runs.progress import OnProgress
from regard.runs.splits import TrainingPairs
from regard.tasks.translation.encoding import Tokenizers, encode_sources, encode_targets

PAIRS_AT_A_TIME = 8192


def train_tokenizers(
    config: DataConfig, pairs: TrainingPairs, on_progress: OnProgress | None = None
) -> Tokenizers:
    """Learn the vocabularies from the training pairs."""
    shared = config.shared_vocabulary or config.vocabulary is not None
    source = _settings(config, target=False)
    target = None if shared else _settings(config, target=True)
    if pairs.cache is None:
        return _learned(source, target, pairs, on_progress)
    facts = [pairs.facts(), asdict(source), target and asdict(target)]
    return Tokenizers.from_json(
        pairs.cache.page(
            "tokenizers", facts, lambda: _learned(source, target, pairs, on_progress).to_json()
        )
    )


def _learned(
    source: TokenizerSettings,
    target: TokenizerSettings | None,
    pairs: TrainingPairs,
    on_progress: OnProgress | None,
) -> Tokenizers:
    """Without settings for the target, one for both sides."""
    sources = (
        pair.source for pair in pairs.with_progress("learning the sources' words", on_progress)
    )
    targets = (
        pair.target for pair in pairs.with_progress("learning the targets' words", on_progress)
    )
    if target is None:
        both = Tokenizer.train(chain(sources, targets), source)
        return Tokenizers(both, both)
    return Tokenizers(Tokenizer.train(sources, source), Tokenizer.train(targets, target))


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


@dataclass(frozen=True)
class EncodedTraining:
    """Training batches, and a sentence about pairs that were too long, if there were any."""

    batches: PairBatches
    left_out: tuple[str, ...]
    made: Path | None
    """The file in the cache, where one was written now."""


def encode(
    config: DataConfig,
    tokenizers: Tokenizers,
    pairs: TrainingPairs,
    seed: int,
    on_progress: OnProgress | None = None,
) -> EncodedTraining:
    """Turn training pairs to batches, leaving out and naming those that are too long."""
    source = _TrainingSource(config, tokenizers, pairs, on_progress)
    if pairs.cache is None:
        kept = CachedPairs(EncodedPairs.joined(source.parts()), source.about())
    else:
        kept = pairs.cache.pairs(source.facts(), source)
    if not len(kept.pairs):
        raise UserError(
            f"all {len(pairs)} pairs are longer than {config.max_length} tokens: raise "
            "--data.max-length"
        )
    settings = BatchSettings(config.batch_tokens, config.batch_sentences, config.one_source_length)
    too_long = LineNumbers(**json.loads(kept.about))
    left_out = (
        f"left out {too_long.count} pairs longer than {config.max_length} tokens ({too_long})"
    )
    return EncodedTraining(
        PairBatches(kept.pairs, settings, seed), (left_out,) if too_long.count else (), kept.made
    )


class _TrainingSource:
    """Training pairs as numbers, some at a time."""

    def __init__(
        self,
        config: DataConfig,
        tokenizers: Tokenizers,
        pairs: TrainingPairs,
        on_progress: OnProgress | None,
    ) -> None:
        self._config = config
        self._tokenizers = tokenizers
        self._pairs = pairs
        self._watch = on_progress
        self._too_long = LineNumbers()

    @property
    def vocabulary(self) -> int:
        return max(len(self._tokenizers.source), len(self._tokenizers.target))

    def facts(self) -> object:
        """All that the numbers depend on, but for the data."""
        config = self._config
        ends = config.source_end, config.target_end
        return [self._pairs.facts(), self._tokenizers.to_json(), ends, config.max_length]

    def parts(self) -> Iterator[EncodedPairs]:
        self._too_long = LineNumbers()
        config, tokenizers = self._config, self._tokenizers
        pairs = self._pairs.with_progress("encoding", self._watch)
        while some := list(islice(pairs, PAIRS_AT_A_TIME)):
            sources = encode_sources(config, tokenizers.source, [pair.source for pair in some])
            targets = encode_targets(config, tokenizers.target, [pair.target for pair in some])
            kept = []
            for pair, source, target in zip(some, sources, targets, strict=True):
                if max(len(source), len(target)) <= config.max_length:
                    kept.append((source, target))
                else:
                    self._too_long.add(pair.line)
            yield EncodedPairs.of([each[0] for each in kept], [each[1] for each in kept])

    def about(self) -> str:
        """How many pairs were too long, and the first lines of them."""
        return json.dumps(asdict(self._too_long))
