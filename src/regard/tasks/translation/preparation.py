"""Preparation of training pairs: tokenizers are trained, and pairs are encoded as batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from regard.config import DataConfig, TranslationModelConfig
from regard.config.data import check_merges
from regard.data.batching import BatchSettings, PairBatches
from regard.data.files.lines import LineNumbers
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.encoded import EncodedPairs
from regard.data.text.features import FeatureTokenizer, split_source
from regard.data.text.resampled import ResampledBatches
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.runs.cache import CachedPairs
from regard.runs.progress import OnProgress
from regard.runs.splits import TrainingPairs
from regard.tasks.translation.encoding import PairEncoder, Tokenizers

PAIRS_AT_A_TIME = 8192


def train_tokenizers(
    config: DataConfig, pairs: TrainingPairs, on_progress: OnProgress | None = None
) -> Tokenizers:
    """Train the tokenizers on the training pairs."""
    shared = config.shared_vocabulary or config.vocabulary is not None
    source = _settings(config, target=False)
    target = None if shared else _settings(config, target=True)
    has_features = bool(config.feature_columns)
    if pairs.cache is None:
        return _trained(source, target, pairs, on_progress, has_features=has_features)
    facts = [pairs.facts(), asdict(source), target and asdict(target)]
    facts += ["features"] if has_features else []
    return Tokenizers.from_json(
        pairs.cache.recall_or_compute(
            "tokenizers",
            facts,
            lambda: _trained(
                source, target, pairs, on_progress, has_features=has_features
            ).to_json(),
        )
    )


def _trained(
    source: TokenizerSettings,
    target: TokenizerSettings | None,
    pairs: TrainingPairs,
    on_progress: OnProgress | None,
    *,
    has_features: bool,
) -> Tokenizers:
    """Train a tokenizer for each side; without settings for the target, one for both sides. With
    features, the values of the sources are numbered too."""
    values: set[str] = set()
    sources = (
        _text(pair.source, values) if has_features else pair.source
        for pair in pairs.with_progress("learning the source vocabulary", on_progress)
    )
    targets = (
        pair.target for pair in pairs.with_progress("learning the target vocabulary", on_progress)
    )
    if target is None:
        both = Tokenizer.train(chain(sources, targets), source)
        return Tokenizers(FeatureTokenizer(both, sorted(values)) if has_features else both, both)
    text = Tokenizer.train(sources, source)
    first = FeatureTokenizer(text, sorted(values)) if has_features else text
    return Tokenizers(first, Tokenizer.train(targets, target))


def _text(source: str, values: set[str]) -> str:
    """Return the text of a source, and add its values to the set."""
    text, own = split_source(source)
    values.update(own)
    return text


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
    """Training batches, and a message about pairs that were too long, if any."""

    pairs: EncodedPairs
    batches: PairBatches
    left_out: tuple[str, ...]
    cache_file: Path | None
    """Cache file of the encoded pairs, if one was written."""


def encode(
    config: DataConfig,
    tokenizers: Tokenizers,
    pairs: TrainingPairs,
    seed: int,
    on_progress: OnProgress | None = None,
    *,
    model: TranslationModelConfig,
) -> EncodedTraining:
    """Encode training pairs as batches. Pairs that are too long are left out and reported."""
    encoder = PairEncoder(config, model, tokenizers)
    source = _TrainingSource(config, tokenizers, encoder, pairs, on_progress)
    if pairs.cache is None:
        encoded = CachedPairs(EncodedPairs.joined(source.parts()), source.about())
    else:
        encoded = pairs.cache.pairs(source.facts(), source)
    if not len(encoded.pairs):
        raise UserError(
            f"all {len(pairs)} pairs are longer than {config.max_length} tokens: raise "
            "--data.max-length"
        )
    settings = BatchSettings(config.batch_tokens, config.batch_sentences, config.equal_lengths)
    too_long = LineNumbers(**json.loads(encoded.about))
    left_out = (
        f"left out {too_long.count} pairs longer than {config.max_length} tokens ({too_long})"
    )
    return EncodedTraining(
        encoded.pairs,
        PairBatches(encoded.pairs, settings, seed),
        (left_out,) if too_long.count else (),
        encoded.made,
    )


class _TrainingSource:
    """Encoded training pairs, in parts."""

    def __init__(
        self,
        config: DataConfig,
        tokenizers: Tokenizers,
        encoder: PairEncoder,
        pairs: TrainingPairs,
        on_progress: OnProgress | None,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._tokenizers = tokenizers
        self._pairs = pairs
        self._on_progress = on_progress
        self._too_long = LineNumbers()

    @property
    def vocabulary(self) -> int:
        return self._encoder.vocabulary

    @property
    def has_copies(self) -> bool:
        return self._encoder.has_copies

    def facts(self) -> object:
        """Return all settings that the encoded pairs depend on."""
        config = self._config
        ends = config.source_end, config.target_end
        facts = [self._pairs.facts(), self._tokenizers.to_json(), ends, config.max_length]
        return [*facts, "copies"] if self.has_copies else facts

    def parts(self) -> Iterator[EncodedPairs]:
        """Encode the pairs part by part."""
        self._too_long = LineNumbers()
        max_length, encoder = self._config.max_length, self._encoder
        pairs = self._pairs.with_progress("encoding", self._on_progress)
        while part := list(islice(pairs, PAIRS_AT_A_TIME)):
            sources = encoder.sources([pair.source for pair in part])
            targets = encoder.targets([pair.target for pair in part], sources)
            short = []
            for pair, source, target in zip(part, sources, targets, strict=True):
                if max(len(source), len(target)) <= max_length:
                    short.append((source, target))
                else:
                    self._too_long.add(pair.line)
            yield encoder.pairs([ids[0] for ids in short], [ids[1] for ids in short])

    def about(self) -> str:
        """Return the number of pairs that were too long and the first of their lines, as JSON."""
        return json.dumps(asdict(self._too_long))


def resampled(
    config: DataConfig, tokenizers: Tokenizers, encoded: EncodedTraining, seed: int
) -> PairBatches | ResampledBatches:
    """Return the training batches, with BPE-dropout of the sides with merges if
    `data.bpe_dropout` is set. UserError if no side has merges."""
    if not config.bpe_dropout:
        return encoded.batches
    sides = tokenizers.source, tokenizers.target
    check_merges(config.bpe_dropout, tuple(side.settings.kind for side in sides))
    source, target = (
        BpeDropout(side, config.bpe_dropout) if side.settings.kind == "bpe" else None
        for side in sides
    )
    return ResampledBatches(
        encoded.batches, encoded.pairs, (source, target), config.max_length, seed
    )
