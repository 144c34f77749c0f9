"""Slices of translated sources: length, rare tokens, pieces per word, reordering."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from regard.metrics.slices import (
    MIN_OUTPUTS,
    Feature,
    Slice,
    crossing_links,
    find_slices,
    text_scores,
)
from regard.tasks.evaluation import ScoredOutput
from regard.tasks.translation.model import TranslationModel

MAX_WITH_LINKS = 1000
"""Number of outputs whose attention is computed."""


def worse_slices(
    translator: TranslationModel, outputs: Sequence[ScoredOutput]
) -> tuple[Slice, ...]:
    """Return the slices on which translations are worse than elsewhere: by exact match if this is
    the dev score of the run, otherwise by chrF of each output."""
    if len(outputs) < 2 * MIN_OUTPUTS:
        return ()
    is_exact = translator.experiment.training.metric == "exact_match"
    texts, references = (
        [output.text for output in outputs],
        [output.references for output in outputs],
    )
    scores = text_scores(texts, references, exact=is_exact)
    features = features_of(translator, outputs)
    return find_slices(scores, features, "exact match" if is_exact else "chrF")


def features_of(
    translator: TranslationModel, outputs: Sequence[ScoredOutput]
) -> tuple[Feature, ...]:
    """Return the features of the outputs. Numbers of tokens are those of the source vocabulary, in
    which frequent words and early merges come first; an unknown word comes last. Reordering is
    measured by the attention of at most `MAX_WITH_LINKS` outputs."""
    tokenizer = translator.tokenizers.source
    sources = [output.source for output in outputs]
    tokens = tokenizer.encode_batch(sources)
    last = len(tokenizer)
    rarest = [
        max((last if tokenizer.is_unknown(number) else number for number in ids), default=None)
        for ids in tokens
    ]
    pieces = [
        len(ids) / len(source.split()) if source.strip() else nan
        for ids, source in zip(tokens, sources, strict=True)
    ]
    features = [
        Feature("sources of {} tokens", [len(ids) for ids in tokens]),
        Feature("sources whose rarest token has number {} of the vocabulary", rarest),
    ]
    if tokenizer.settings.kind in ("bpe", "unigram"):
        features.append(Feature("sources of {} pieces per word", pieces))
    if translator.attends:
        features.append(Feature("outputs with {} % crossing links", _crossing(translator, outputs)))
    return tuple(features)


def _crossing(translator: TranslationModel, outputs: Sequence[ScoredOutput]) -> list[float]:
    """Return the percentage of crossing links of each output. A link goes from a piece to the
    source position with the largest weight: the mean over the heads of the last layer."""
    pairs = [(output.source, output.text) for output in outputs[:MAX_WITH_LINKS]]
    percentages = [nan] * len(outputs)
    for number, forced in enumerate(translator.score(pairs)):
        if forced.lazy_trace is not None:
            weights = forced.lazy_trace.full.map().weights[-1].mean(axis=0)
            percentages[number] = crossing_links(weights.argmax(axis=1).tolist())
    return percentages
