"""Scores of a run on pairs, by free decoding."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.config import SearchConfig
from regard.data.examples import Pair
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.files import locked
from regard.metrics.captions import score_captions
from regard.metrics.classification import LABEL_METRICS, NUMBER_METRICS, Confusion
from regard.metrics.error_rates import ERROR_RATES
from regard.metrics.metric import MetricScore
from regard.metrics.text import bleu, chrf, score_texts
from regard.runs.folder import RunFolder
from regard.runs.progress import OnProgress
from regard.tasks.captioning.captioner import PICTURES_AT_A_TIME, Captioner, check_search
from regard.tasks.captioning.scene_scores import SceneScores
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.inputs import placed
from regard.tasks.translation.translator import Translator

log = logging.getLogger(__name__)

Item = TypeVar("Item")

SOURCES_AT_A_TIME = 512


@dataclass(frozen=True)
class Output:
    """A source, what the model wrote for it, and every target that the data has for it."""

    source: str
    text: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class HowTranslated:
    """By what search, what is scored beside the usual, and the other runs that wrote together with
    this one."""

    search: SearchConfig
    lowercase: bool = False
    tokenized: bool = False
    ensemble: tuple[str, ...] = ()


@dataclass(frozen=True)
class HowCaptioned:
    """By what search, and what is said of pictures that could not be read."""

    search: SearchConfig
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Scores, with how they came about, where there is a choice, and all that was written."""

    num_pairs: int
    scores: tuple[MetricScore, ...]
    outputs: tuple[Output, ...]
    how: HowTranslated | HowCaptioned | None = None

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is said of pictures that could not be read."""
        return self.how.left_out if isinstance(self.how, HowCaptioned) else ()

    def confusion(self, labels: Sequence[str]) -> Confusion:
        """How often each of these labels was given each."""
        texts = [each.text for each in self.outputs]
        return Confusion.of(texts, [each.references[0] for each in self.outputs], labels)


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    how: HowTranslated,
    *,
    error_rates: bool = False,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Translate every different source once; each of its targets is a reference.

    Case counts, and BLEU cuts words as sacrebleu's 13a does. With `lowercase` or `tokenized` there
    are also the scores of lower-cased text, or of text that is cut: at its spaces where the model
    was given cut text (`tokenizer: spaces`), else by 13a again. With `error_rates` there are those
    of words and characters.

    References are normalised as the model's own targets are (white space, Unicode form, and case
    where the recipe lower-cases), since that is all it can write."""
    target = translator.tokenizers.target
    references = _by_source(pairs, target)
    texts: list[str] = []
    num_refused = 0
    for part in _parts(list(references), SOURCES_AT_A_TIME, "translating", on_progress):
        found = translator.translate(part, search=how.search, attention=False)
        texts.extend(each.text for each in found)
        num_refused += sum(each.is_refused for each in found)
    if num_refused:
        log.warning(
            "%d of %d sources have more than %d tokens (search.max_source): they are scored as if "
            "their output were empty",
            num_refused,
            len(references),
            translator.max_source(how.search),
        )
    right = list(references.values())
    scores = score_texts(texts, right)
    if how.lowercase or how.tokenized:
        at_spaces = how.tokenized and target.settings.kind == "spaces"
        others = score_texts(texts, right, lowercase=how.lowercase, tokenized=at_spaces)
        scores += tuple(score for score in others if score not in scores)
    if error_rates:
        scores += tuple(
            rate.compute(texts, right, lowercase=ignores_case)
            for ignores_case in ((False, True) if how.lowercase else (False,))
            for rate in ERROR_RATES
        )
    return Evaluation(len(pairs), scores, _outputs(references, texts), how)


def evaluate_answers(
    classifier: Classifier, pairs: Sequence[Pair], *, on_progress: OnProgress | None = None
) -> Evaluation:
    """Answer every source and compare: accuracy and macro F1 of labels; R2, the mean error and its
    root mean square of numbers. UserError for a target that the run cannot give."""
    classifier.reading.answers.encode(pairs)  # which says what is no answer of this run
    texts: list[str] = []
    for part in _parts(pairs, SOURCES_AT_A_TIME, "answering", on_progress):
        with placed(part):
            found = classifier.classify([pair.source for pair in part], attention=False)
        texts.extend(each.text for each in found)
    wanted = [pair.target for pair in pairs]
    metrics = LABEL_METRICS if classifier.labels else NUMBER_METRICS
    scores = tuple(metric.compute(texts, wanted) for metric in metrics)
    outputs = (
        Output(pair.source, text, (pair.target,)) for pair, text in zip(pairs, texts, strict=True)
    )
    return Evaluation(len(pairs), scores, tuple(outputs))


def evaluate_captions(
    captioner: Captioner,
    pairs: Sequence[Pair],
    search: SearchConfig,
    *,
    scenes: SceneScores | None = None,
    on_progress: OnProgress | None = None,
) -> Evaluation:
    """Caption every different picture once; all of its captions are references. With `scenes` also
    how captions fit the scenes that the sources are. UserError where no picture can be read."""
    check_search(search)
    references = _by_source(pairs, captioner.tokenizer)
    image_set, left_out = captioner.sources.image_set(references, on_progress)
    read = {name: references[name] for name in image_set.names}
    texts: list[str] = []
    for part in _parts(image_set.names, PICTURES_AT_A_TIME, "captioning", on_progress):
        seen = image_set.images(part)
        found = captioner.write(seen, search=search, attention=scenes is not None)
        texts.extend(each.text for each in found)
        if scenes is not None:
            scenes.add_written(zip(part, found, strict=True))
    right = list(read.values())
    scores = (*score_captions(texts, right), bleu(texts, right), chrf(texts, right))
    if scenes is not None:
        scores += scenes.scores()
    return Evaluation(len(pairs), scores, _outputs(read, texts), HowCaptioned(search, left_out))


def _by_source(pairs: Sequence[Pair], tokenizer: Tokenizer) -> dict[str, list[str]]:
    """The targets of every different source, as far as a model with this tokenizer can write
    them."""
    references: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        references[pair.source].append(tokenizer.normalise(pair.target))
    return references


def _parts(
    items: Sequence[Item], size: int, label: str, on_progress: OnProgress | None
) -> Iterator[Sequence[Item]]:
    """So many at a time; `on_progress` is told how many there were before each part."""
    for first in range(0, len(items), size):
        if on_progress:
            on_progress(label, first, len(items))
        yield items[first : first + size]


def _outputs(references: Mapping[str, Sequence[str]], texts: Sequence[str]) -> tuple[Output, ...]:
    both = zip(references.items(), texts, strict=True)
    return tuple(Output(source, text, tuple(right)) for (source, right), text in both)


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


def save(folder: RunFolder, evaluation: Evaluation, data: Path) -> None:
    """Keep an evaluation in the run's results.json, the raw output beside its scores. Others stay
    there, but for an earlier one of as many pairs of this file with the same search and flags.

    A file of the run goes by its name, so that the folder can be moved, any other by its path."""
    path, home = data.resolve(), folder.path.resolve()
    name = str(path.relative_to(home) if path.is_relative_to(home) else path)
    told = asdict(evaluation)
    new = json.loads(json.dumps({**(told.pop("how") or {}), **told}, default=str))
    with locked(folder.path):
        page = kept(folder)
        others = [each for each in page.get(name, []) if _how(each) != _how(new)]
        page[name] = [*others, new]
        folder.write(folder.results, json.dumps(page, ensure_ascii=False, indent=1))


def _how(entry: dict[str, Any]) -> dict[str, Any]:
    """All that an entry says of how it was found."""
    return {name: value for name, value in entry.items() if name not in ("scores", "outputs")}
