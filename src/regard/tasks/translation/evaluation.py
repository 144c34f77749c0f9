"""Scores of a translation model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict

from regard.data.examples import Pair
from regard.data.text.subword_marks import all_joined, marks_of
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.text import score_texts
from regard.runtime.progress import OnProgress
from regard.tasks.evaluation import (
    Evaluation,
    EvaluationOptions,
    parts_of,
    references_by_source,
    scored_outputs,
)
from regard.tasks.translation.model import TranslationModel
from regard.tasks.translation.slices import worse_slices

log = logging.getLogger(__name__)

SOURCES_AT_A_TIME = 512


def evaluate(
    translator: TranslationModel,
    pairs: Sequence[Pair],
    options: EvaluationOptions,
    *,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Translate each distinct source once; all its targets are references. Targets that were split
    into subwords are joined to words before scores, and so are the outputs.

    Scores respect case, and BLEU tokenizes with sacrebleu's 13a. `lowercase` and `tokenized` add
    scores of lower-cased or tokenized text: tokens between spaces if the model was trained on
    tokenized text (`tokenizer: spaces`), otherwise again 13a. `error_rates` adds word and
    character error rates.

    References are normalised as the model's targets are (white space, Unicode form, and case if
    the recipe lower-cases), because the model can generate no other text."""
    target = translator.tokenizers.target
    references = references_by_source(pairs, target)
    texts: list[str] = []
    num_refused = 0
    for part in parts_of(list(references), SOURCES_AT_A_TIME, "translating", on_progress):
        translations = translator.translate(part, search=options.search, attention=False)
        texts.extend(translation.text for translation in translations)
        num_refused += sum(translation.is_refused for translation in translations)
    if num_refused:
        limit = translator.source_limit(options.search)
        log.warning(
            "%d of %d sources have more than %d tokens (%s): their output counts as empty",
            num_refused,
            len(references),
            limit.tokens,
            limit.field,
        )
    marks = marks_of([text for each in references.values() for text in each])
    words = all_joined(texts, marks)
    targets = [all_joined(each, marks) for each in references.values()]
    scores = score_texts(words, targets)
    if options.lowercase or options.tokenized:
        at_spaces = options.tokenized and target.settings.kind == "spaces"
        others = score_texts(words, targets, lowercase=options.lowercase, tokenized=at_spaces)
        scores += tuple(score for score in others if score not in scores)
    if options.error_rates:
        scores += tuple(
            rate.compute(words, targets, lowercase=ignores_case)
            for ignores_case in ((False, True) if options.lowercase else (False,))
            for rate in ERROR_RATES
        )
    settings = {
        "search": asdict(options.search),
        "lowercase": options.lowercase,
        "tokenized": options.tokenized,
        "ensemble": options.ensemble,
    }
    outputs = scored_outputs(dict(zip(references, targets, strict=True)), words)
    slices = worse_slices(translator, outputs, on_progress=on_progress)
    messages: tuple[str, ...] = ()
    if marks is not None:
        messages = (
            f"the targets are split into subwords ({marks}): pieces of outputs and references are "
            "joined to words before scores",
        )
    return Evaluation(len(pairs), scores, outputs, settings, messages, slices)
