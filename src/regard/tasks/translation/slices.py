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
from regard.runtime.progress import OnProgress
from regard.tasks.evaluation import ScoredOutput, parts_of
from regard.tasks.translation.model import TranslationModel
from regard.trace import of_kind

MAX_WITH_LINKS = 1000
"""Number of outputs whose attention is computed."""
SCORED_AT_A_TIME, LINKED_AT_A_TIME = 512, 256
"""Number of outputs between reports of progress: of their scores, and of their attention."""


def worse_slices(
    translator: TranslationModel,
    outputs: Sequence[ScoredOutput],
    *,
    on_progress: OnProgress | None = None,
) -> tuple[Slice, ...]:
    """Return the slices on which translations are worse than elsewhere: by exact match if this is
    the dev score of the run, otherwise by chrF of each output."""
    if len(outputs) < 2 * MIN_OUTPUTS:
        return ()
    is_exact = translator.experiment.training.metric == "exact_match"
    scores: list[float] = []
    for part in parts_of(outputs, SCORED_AT_A_TIME, "scoring outputs", on_progress):
        texts = [output.text for output in part]
        references = [output.references for output in part]
        scores.extend(text_scores(texts, references, exact=is_exact))
    features = features_of(translator, outputs, on_progress=on_progress)
    metric = "exact match" if is_exact else "chrF"
    return find_slices(scores, features, metric, on_progress=on_progress)


def features_of(
    translator: TranslationModel,
    outputs: Sequence[ScoredOutput],
    *,
    on_progress: OnProgress | None = None,
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
        crossing = _crossing(translator, outputs, on_progress)
        features.append(Feature("outputs with {} % crossing links", crossing))
    return tuple(features)


def _crossing(
    translator: TranslationModel, outputs: Sequence[ScoredOutput], on_progress: OnProgress | None
) -> list[float]:
    """Return the percentage of crossing links of each output. A link goes from a piece to the
    source piece with the largest weight: the mean over the heads of the last layer. END has no
    links. NaN if there are fewer than two pieces, or no source pieces."""
    pairs = [(output.source, output.text) for output in outputs[:MAX_WITH_LINKS]]
    data = translator.data
    rows = slice(-1 if data.target_end else None)
    columns = slice(-1 if data.source_end else None)
    percentages: list[float] = []
    for part in parts_of(pairs, LINKED_AT_A_TIME, "computing attention", on_progress):
        for forced in translator.score(part):
            places: list[int] = []
            if forced.maps:
                weights = of_kind(forced.maps, "cross")[0].weights[-1].mean(axis=0)[rows, columns]
                places = weights.argmax(axis=1).tolist() if weights.size else []
            percentages.append(crossing_links(places))
    return percentages + [nan] * (len(outputs) - len(pairs))
