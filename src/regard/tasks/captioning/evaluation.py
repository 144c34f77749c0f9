"""Scores of a captioner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from regard.data.examples import Pair
from regard.metrics.captions import score_captions
from regard.metrics.text import bleu, chrf
from regard.runtime.progress import OnProgress
from regard.tasks.captioning.model import IMAGES_AT_A_TIME, CaptionModel, check_search
from regard.tasks.captioning.scene_scores import SceneScores
from regard.tasks.evaluation import (
    Evaluation,
    EvaluationOptions,
    parts_of,
    references_by_source,
    scored_outputs,
)


def evaluate(
    captioner: CaptionModel,
    pairs: Sequence[Pair],
    options: EvaluationOptions,
    *,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Caption each distinct image once; all its captions are references. Held-out pairs of
    generated scenes are also scored by their scenes. UserError if no image can be read."""
    search = options.search
    check_search(search)
    scenes = SceneScores() if options.held_out and captioner.data.synthetic else None
    references = references_by_source(pairs, captioner.tokenizer)
    image_set, left_out = captioner.sources.image_set(references, on_progress)
    read = {name: references[name] for name in image_set.names}
    texts: list[str] = []
    for part in parts_of(image_set.names, IMAGES_AT_A_TIME, "captioning", on_progress):
        images = image_set.images(part)
        captions = captioner.generate(images, search=search, attention=scenes is not None)
        texts.extend(caption.text for caption in captions)
        if scenes is not None:
            scenes.add_generated(zip(part, captions, strict=True))
    targets = list(read.values())
    scores = (*score_captions(texts, targets), bleu(texts, targets), chrf(texts, targets))
    if scenes is not None:
        scores += scenes.scores()
    settings = {"search": asdict(search), "left_out": left_out}
    named = {captioner.sources.name_of(name): captions for name, captions in read.items()}
    slices = scenes.slices() if scenes is not None else ()
    outputs = scored_outputs(named, texts)
    return Evaluation(len(pairs), scores, outputs, settings, left_out, slices)
