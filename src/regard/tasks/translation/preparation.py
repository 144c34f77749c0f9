"""From pairs to numbers: the tokenizers are learned, and the pairs become training batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from regard.config import DataConfig
from regard.data.batching import BatchSettings, PairBatches
from regard.data.files.lines import Places
from regard.data.text.encoded import EncodedPairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.runs.cache import Kept
from regard.runs.progress import Watch
from regard.runs.splits import TrainingPairs
from regard.tasks.translation.encoding import Tokenizers, encode_sources, encode_targets

PAIRS_AT_A_TIME = 8192


def train_tokenizers(
    config: DataConfig, pairs: TrainingPairs, watch: Watch | None = None
) -> Tokenizers:
    """Learn the vocabularies from the training pairs."""
    shared = config.shared_vocabulary or config.vocabulary is not None
    source = _settings(config, target=False)
    target = None if shared else _settings(config, target=True)
    if pairs.shelf is None:
        return _learned(source, target, pairs, watch)
    facts = [pairs.facts(), asdict(source), target and asdict(target)]
    return Tokenizers.from_json(
        pairs.shelf.page(
            "tokenizers", facts, lambda: _learned(source, target, pairs, watch).to_json()
        )
    )


def _learned(
    source: TokenizerSettings,
    target: TokenizerSettings | None,
    pairs: TrainingPairs,
    watch: Watch | None,
) -> Tokenizers:
    """Without settings for the target, one for both sides."""
    sources = (pair.source for pair in pairs.watched("learning the sources' words", watch))
    targets = (pair.target for pair in pairs.watched("learning the targets' words", watch))
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
    watch: Watch | None = None,
) -> EncodedTraining:
    """Turn training pairs to batches, leaving out and naming those that are too long."""
    source = _TrainingSource(config, tokenizers, pairs, watch)
    if pairs.shelf is None:
        kept = Kept(EncodedPairs.joined(source.parts()), source.about())
    else:
        kept = pairs.shelf.pairs(source.facts(), source)
    if not len(kept.pairs):
        raise UserError(
            f"all {len(pairs)} pairs are longer than {config.max_length} tokens: raise "
            "--data.max-length"
        )
    settings = BatchSettings(config.batch_tokens, config.batch_sentences, config.one_source_length)
    too_long = Places(**json.loads(kept.about))
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
        watch: Watch | None,
    ) -> None:
        self._config = config
        self._tokenizers = tokenizers
        self._pairs = pairs
        self._watch = watch
        self._too_long = Places()

    @property
    def vocabulary(self) -> int:
        return max(len(self._tokenizers.source), len(self._tokenizers.target))

    def facts(self) -> object:
        """All that the numbers depend on, but for the data."""
        config = self._config
        ends = config.source_end, config.target_end
        return [self._pairs.facts(), self._tokenizers.to_json(), ends, config.max_length]

    def parts(self) -> Iterator[EncodedPairs]:
        self._too_long = Places()
        config, tokenizers = self._config, self._tokenizers
        pairs = self._pairs.watched("encoding", self._watch)
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
