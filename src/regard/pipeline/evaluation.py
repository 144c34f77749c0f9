"""Scores of a run on pairs, by free decoding."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import SearchConfig
from regard.data.text import Pair
from regard.errors import UserError
from regard.files import locked
from regard.metrics.text import Score, score_texts
from regard.pipeline.folder import RunFolder
from regard.pipeline.translator import Translator

SOURCES_AT_A_TIME = 512


@dataclass(frozen=True)
class Output:
    """A source, what the model wrote for it, and every target that the data has for it."""

    source: str
    text: str
    references: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """Scores, with all that was written."""

    scores: tuple[Score, ...]
    outputs: tuple[Output, ...]
    num_pairs: int


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    search: SearchConfig,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Translate every different source once; each of its targets is a reference.

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
    scores = score_texts(
        texts,
        [references[source] for source in sources],
        lowercase=lowercase,
        tokenized=tokenized,
    )
    outputs = tuple(
        Output(source, text, tuple(references[source]))
        for source, text in zip(sources, texts, strict=True)
    )
    return Evaluation(scores, outputs, len(pairs))


def kept(folder: RunFolder) -> dict[str, Any]:
    """What a run's results.json holds, by the data; UserError where it is no such file."""
    if not folder.results.exists():
        return {}
    try:
        page = json.loads(folder.results.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {folder.results}: {error}. Move it away") from error
    if not isinstance(page, dict):
        raise UserError(f"{folder.results} holds no results: expected an object. Move it away")
    return page


def save(folder: RunFolder, evaluation: Evaluation, data: Path) -> None:
    """Keep the scores in the run's results.json, the raw output beside them; what was found on
    other data before stays there."""
    with locked(folder.path):
        page = kept(folder)
        page[str(data)] = {
            "scores": [asdict(score) for score in evaluation.scores],
            "outputs": [asdict(output) for output in evaluation.outputs],
        }
        folder.write(folder.results, json.dumps(page, ensure_ascii=False, indent=1))
