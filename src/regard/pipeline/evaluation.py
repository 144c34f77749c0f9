"""Scores of a run on pairs, by free decoding."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import SearchConfig
from regard.data.answers import Labels
from regard.data.generated.scenes import Scene
from regard.data.text import Pair
from regard.errors import UserError
from regard.files import locked
from regard.metrics import answers
from regard.metrics.answers import Confusion
from regard.metrics.captions import score_captions
from regard.metrics.edits import character_error_rate, word_error_rate
from regard.metrics.text import Score, bleu, chrf, score_texts
from regard.pipeline.captioner import PICTURES_AT_A_TIME, Captioner
from regard.pipeline.classifier import Classifier
from regard.pipeline.folder import RunFolder
from regard.pipeline.reading import placed
from regard.pipeline.scene_scores import SceneScores
from regard.pipeline.translator import Translator
from regard.trace import of_kind

SOURCES_AT_A_TIME = 512
NUMBER_SCORES = (answers.r2, answers.mean_error, answers.root_mean_square_error)


@dataclass(frozen=True)
class Output:
    """A source, what the model wrote for it, and every target that the data has for it."""

    source: str
    text: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Scores, with how they came about and all that was written."""

    num_pairs: int
    search: SearchConfig
    lowercase: bool
    tokenized: bool
    scores: tuple[Score, ...]
    outputs: tuple[Output, ...]
    ensemble: tuple[str, ...] = ()
    """Other runs that wrote together with this one."""


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    search: SearchConfig,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
    error_rates: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Translate every different source once; each of its targets is a reference.

    Case counts, and BLEU cuts words as sacrebleu's 13a does. With `lowercase` or `tokenized` there
    are also the scores of lower-cased text, or of text that is cut: at its spaces where the model
    was given cut text (`tokenizer: spaces`), else by 13a again. With `error_rates` there are those
    of words and characters.

    References are normalised as the model's own targets are (white space, Unicode form, and case
    where the recipe lower-cases), since that is all it can write."""
    references: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(translator.tokenizers.target.normalise(pair.target))
    sources = list(references)
    texts: list[str] = []
    for first in range(0, len(sources), SOURCES_AT_A_TIME):
        part = sources[first : first + SOURCES_AT_A_TIME]
        found = translator.translate(part, search=search, attention=False)
        texts.extend(each.text for each in found)
        if progress:
            progress(len(texts), len(sources))
    right = [references[source] for source in sources]
    scores = score_texts(texts, right)
    if lowercase or tokenized:
        at_spaces = tokenized and translator.tokenizers.target.settings.kind == "spaces"
        others = score_texts(texts, right, lowercase=lowercase, tokenized=at_spaces)
        scores += tuple(score for score in others if score not in scores)
    if error_rates:
        scores += tuple(
            rate(texts, right, lowercase=ignores_case)
            for ignores_case in ((False, True) if lowercase else (False,))
            for rate in (word_error_rate, character_error_rate)
        )
    outputs = tuple(
        Output(source, text, tuple(references[source]))
        for source, text in zip(sources, texts, strict=True)
    )
    return Evaluation(len(pairs), search, lowercase, tokenized, scores, outputs)


@dataclass(frozen=True)
class AnswerEvaluation:
    """Scores of labels or numbers, and all that was answered."""

    num_pairs: int
    scores: tuple[Score, ...]
    outputs: tuple[Output, ...]

    def confusion(self, labels: Sequence[str]) -> Confusion:
        """How often each of these labels was given each."""
        texts = [each.text for each in self.outputs]
        return Confusion.of(texts, [each.references[0] for each in self.outputs], labels)


def evaluate_answers(
    classifier: Classifier,
    pairs: Sequence[Pair],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> AnswerEvaluation:
    """Answer every source and compare: accuracy and macro F1 of labels; R2, the mean error and its
    root mean square of numbers. UserError for a target that the run cannot give."""
    classifier.reading.answers.encode(pairs)  # which says what is no answer of this run
    texts: list[str] = []
    for first in range(0, len(pairs), SOURCES_AT_A_TIME):
        part = pairs[first : first + SOURCES_AT_A_TIME]
        with placed(part):
            found = classifier.classify([pair.source for pair in part], attention=False)
        texts.extend(each.text for each in found)
        if progress:
            progress(len(texts), len(pairs))
    wanted = [pair.target for pair in pairs]
    is_labels = isinstance(classifier.reading.answers, Labels)
    measures = (answers.accuracy, answers.macro_f1) if is_labels else NUMBER_SCORES
    return AnswerEvaluation(
        len(pairs),
        tuple(measure(texts, wanted) for measure in measures),
        tuple(
            Output(pair.source, text, (pair.target,))
            for pair, text in zip(pairs, texts, strict=True)
        ),
    )


@dataclass(frozen=True)
class CaptionEvaluation:
    """Scores of captions, and all that was written."""

    num_pairs: int
    search: SearchConfig
    scores: tuple[Score, ...]
    outputs: tuple[Output, ...]
    left_out: tuple[str, ...] = ()
    """What is said of pictures that could not be read."""


def evaluate_captions(
    captioner: Captioner,
    pairs: Sequence[Pair],
    search: SearchConfig,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CaptionEvaluation:
    """Caption every different picture once; all of its captions are references. For scenes that
    were drawn also whether captions are true of them, and whether they looked there. UserError
    where no picture can be read."""
    references: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(captioner.tokenizer.normalise(pair.target))
    gallery, left_out = captioner.sources.gallery(references)
    names = list(gallery.names)
    texts: list[str] = []
    fits = SceneScores()
    for first in range(0, len(names), PICTURES_AT_A_TIME):
        part = names[first : first + PICTURES_AT_A_TIME]
        seen = gallery.pictures(part)
        drawn = captioner.sources.scenes
        found = captioner.write(seen, search=search, attention=drawn)
        texts.extend(each.text for each in found)
        for name, each in zip(part, found, strict=True):
            if drawn and each.looked is not None:
                (block,) = of_kind(each.maps, "image")
                weights = block.weights.mean(axis=(0, 1))
                fits.add(Scene.of(name), each.text, weights, each.looked.target.words)
        if progress:
            progress(len(texts), len(names))
    right = [references[name] for name in names]
    scores = (*score_captions(texts, right), bleu(texts, right), chrf(texts, right))
    if captioner.sources.scenes:
        scores += fits.scores()
    outputs = tuple(
        Output(name, text, tuple(references[name])) for name, text in zip(names, texts, strict=True)
    )
    return CaptionEvaluation(len(pairs), search, scores, outputs, left_out)


def kept(folder: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """What a run's results.json holds: for each file of pairs what was found on it. UserError where
    it is no such file."""
    if not folder.results.exists():
        return {}
    try:
        page = json.loads(folder.results.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {folder.results}: {error}. Move it away") from error
    if not (isinstance(page, dict) and all(isinstance(each, list) for each in page.values())):
        raise UserError(f"{folder.results} holds something other than results. Move it away")
    return page


def save(
    folder: RunFolder, evaluation: Evaluation | AnswerEvaluation | CaptionEvaluation, data: Path
) -> None:
    """Keep an evaluation in the run's results.json, the raw output beside its scores. Others stay
    there, but for an earlier one of as many pairs of this file with the same search and flags.

    A file of the run goes by its name, so that the folder can be moved, any other by its path."""
    path, home = data.resolve(), folder.path.resolve()
    name = str(path.relative_to(home) if path.is_relative_to(home) else path)
    new = json.loads(json.dumps(asdict(evaluation), default=str))
    with locked(folder.path):
        page = kept(folder)
        others = [each for each in page.get(name, []) if _how(each) != _how(new)]
        page[name] = [*others, new]
        folder.write(folder.results, json.dumps(page, ensure_ascii=False, indent=1))


def _how(entry: dict[str, Any]) -> dict[str, Any]:
    """All that an entry says of how it was found."""
    return {name: value for name, value in entry.items() if name not in ("scores", "outputs")}
