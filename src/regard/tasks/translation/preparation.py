"""Preparation of training pairs: tokenizers are trained, and pairs are encoded as batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from regard.config import DataConfig, TranslationModelConfig
from regard.config.data import check_merges
from regard.corpora.cache import DataCache
from regard.corpora.splits import TrainingPairs
from regard.data.batching import BatchSettings, PairBatches
from regard.data.files.lines import LineNumbers
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.features import FeatureTokenizer, split_source
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.parts import PartFacts
from regard.data.text.pairs.resampled import ResampledBatches
from regard.data.text.pairs.stored import StoredPairs
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.runtime.progress import OnProgress
from regard.tasks.translation.encoding import PairEncoder, Tokenizers
from regard.tasks.translation.training_parts import TrainingParts, merged

FILES_SHOWN = 3
"""Number of files that are named in a sentence about long pairs."""


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
    """Training batches, and messages about pairs that were too long, if any."""

    pairs: EncodedPairs | StoredPairs
    batches: PairBatches
    left_out: tuple[str, ...]
    cache_files: tuple[Path, ...]
    """Files of encoded pairs that were added to the cache."""


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
    source = TrainingParts(config, tokenizers, encoder, pairs, on_progress)
    encoded, facts, made = _encoded(source, pairs.cache, config)
    if not len(encoded):
        raise UserError(
            f"all {len(pairs)} pairs are longer than {config.max_length} tokens: raise "
            "--data.max-length"
        )
    settings = BatchSettings(config.batch_tokens, config.batch_sentences, config.equal_lengths)
    batches = PairBatches(encoded, settings, seed)
    messages = _left_out(facts, pairs.names, config.max_length)
    if config.mix is not None and isinstance(encoded, StoredPairs):
        _check_corpora(config.mix, encoded)
        if not batches.num_batches(1):
            raise UserError("the first epoch has no pair: raise a weight of data.mix")
        messages += _sizes(config.mix, encoded)
    return EncodedTraining(encoded, batches, messages, made)


def _encoded(
    source: TrainingParts, cache: DataCache | None, config: DataConfig
) -> tuple[EncodedPairs | StoredPairs, list[PartFacts], tuple[Path, ...]]:
    """Return the encoded pairs, the facts about their parts, and the files that were added to the
    cache. Pairs without a cache are held in memory, in their order."""
    if cache is None:
        blocks = list(source.blocks())
        encoded = EncodedPairs.joined(pairs for pairs, _ in blocks)
        return encoded, [facts for _, facts in blocks], ()
    cached = cache.parts(source.facts(), source)
    stored = StoredPairs(cached.parts, [corpus.weight for corpus in config.corpora])
    return stored, [part.facts for part in cached.parts], cached.made


def _check_corpora(mix: Sequence[str], pairs: StoredPairs) -> None:
    """Raise a UserError if a corpus has no pairs."""
    for entry, size in zip(mix, pairs.corpus_sizes(), strict=True):
        if not size:
            raise UserError(
                f"data.mix has {entry!r}, which gives no training pair: check the file, "
                "--data.max-length and --data.limit, or leave the corpus out"
            )


def _sizes(mix: Sequence[str], pairs: StoredPairs) -> tuple[str, ...]:
    """Return a sentence about the number of pairs of each corpus."""
    sizes = [f"{entry} {size:,}" for entry, size in zip(mix, pairs.corpus_sizes(), strict=True)]
    return (f"training pairs of data.mix: {', '.join(sizes)}; {pairs.num_drawn:,} an epoch",)


def _left_out(facts: Sequence[PartFacts], names: Sequence[str], max_length: int) -> tuple[str, ...]:
    """Return a sentence about the pairs that were too long, if any."""
    files = merged(
        {int(number): LineNumbers(**lines) for number, lines in json.loads(part.about).items()}
        for part in facts
    )
    if not files:
        return ()
    total = sum(lines.count for lines in files.values())
    shown = [
        f"{names[number]}: {lines}" if len(names) > 1 else str(lines)
        for number, lines in islice(files.items(), FILES_SHOWN)
    ]
    if len(files) > FILES_SHOWN:
        shown.append(f"{len(files) - FILES_SHOWN} more files")
    return (f"left out {total} pairs longer than {max_length} tokens ({'; '.join(shown)})",)


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
