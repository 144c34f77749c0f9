"""Metrics of image captions, from 0 to 100; CIDEr-D may exceed 100.

    BLEU-1 .. BLEU-4    Papineni et al. 2002, on lower-cased words without punctuation
    ROUGE-L             Lin 2004, section 2: longest common subsequence, recall weighted more
    CIDEr-D             Vedantam et al. 2015, section 4: n-grams weighted by tf-idf; section 6:
                        clipped counts, Gaussian over the difference in length, factor of ten

The formulas equal those of COCO's scorer; the words differ (see `words`). METEOR is missing because
it needs Java or a download of word lists.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from regard.metrics.metric import Metric, MetricScore
from regard.metrics.text import (
    LONGEST,
    TEXT_METRICS,
    Grams,
    References,
    TextFunction,
    check,
    corpus_score,
    count_grams,
    num_references,
)

BETA = 1.2
"""Weight of recall against precision in ROUGE-L."""
WIDTH = 6.0
"""Standard deviation of the Gaussian over differences in length in CIDEr-D."""
NUM_CACHED = 1024
"""Number of captions whose vectors CIDEr-D caches: in training, the captions of an image are
references of all its samples."""
MARK = "\u0300"
"""Combining mark that replaces all combining marks in a search for words."""
WORD = re.compile(rf"\w[\w{MARK}]*(?:['’]\w[\w{MARK}]*|[\u200c\u200d]+[\w{MARK}]+)*")
"""Word of a text whose combining marks are replaced. U+200C and U+200D are the zero-width
non-joiner and the zero-width joiner."""
EMOJI_SELECTORS = "\ufe0e\ufe0f"
"""Characters of the category Mn that select the shape of an emoji or a symbol."""


def score_captions(hypotheses: Sequence[str], references: References) -> tuple[MetricScore, ...]:
    """Return BLEU-1 to BLEU-4, ROUGE-L and CIDEr-D.

    ValueError unless there are hypotheses, each with one or more references."""
    check(hypotheses, references)
    return (
        *(bleu(hypotheses, references, order) for order in range(1, LONGEST + 1)),
        rouge_l(hypotheses, references),
        cider_d(hypotheses, references),
    )


def words(text: str) -> list[str]:
    """Return the lower-cased words and numbers of a text, without punctuation.

    A word is a run of letters, digits and underscores, which may contain apostrophes: "t-shirt" is
    two words and "man's" is one. The PTB tokenizer of COCO's scorer splits both differently. A word
    contains the combining marks of its letters, such as the vowel signs of Hindi, and the
    zero-width joiners and non-joiners between its letters. Thai has no spaces between words, so a
    run of Thai letters is one word."""
    text = text.lower()
    letters = text if text.isascii() else "".join(map(_replace_mark, text))
    return [text[word.start() : word.end()] for word in WORD.finditer(letters)]


def _replace_mark(letter: str) -> str:
    """Return MARK for a combining mark that is a part of words, and any other character itself."""
    is_mark = unicodedata.category(letter) in ("Mn", "Mc") and letter not in EMOJI_SELECTORS
    return MARK if is_mark else letter


def bleu(
    hypotheses: Sequence[str],
    references: References,
    order: int = 4,
    *,
    lowercase: bool = False,
) -> MetricScore:
    """Return corpus BLEU with n-grams up to this order, by sacrebleu, without smoothing. Captions
    are compared in lower case, so `lowercase` changes nothing.

    ValueError unless there are hypotheses, each with one or more references."""
    del lowercase
    from sacrebleu.metrics.bleu import BLEU

    check(hypotheses, references)
    metric = BLEU(tokenize="none", max_ngram_order=order, smooth_method="none", force=True)
    targets = [[" ".join(words(text)) for text in alternatives] for alternatives in references]
    outputs = [" ".join(words(text)) for text in hypotheses]
    value = corpus_score(metric, outputs, targets)
    return MetricScore(f"BLEU-{order}", value, _signature(references))


def rouge_l(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Return the mean of ROUGE-L over images. An image takes the best precision and the best recall
    of any of its references.

    ValueError unless there are hypotheses, each with one or more references."""
    check(hypotheses, references)
    total = 0.0
    for hypothesis, alternatives in zip(hypotheses, references, strict=True):
        output, targets = words(hypothesis), [words(text) for text in alternatives]
        common = [_longest_common(output, target) for target in targets]
        precision = max(count / max(len(output), 1) for count in common)
        recall = max(
            count / max(len(target), 1) for count, target in zip(common, targets, strict=True)
        )
        if precision and recall:
            total += (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
    return MetricScore("ROUGE-L", 100 * total / len(hypotheses), _signature(references))


def cider_d(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return CIDEr-D in per cent: ten times the mean cosine of tf-idf vectors of n-grams, n from 1
    to 4, with counts clipped to those of the reference and a Gaussian over the difference in
    length. The document frequencies come from the references of these images, so the score of a
    few images says little. Captions are compared in lower case, so `lowercase` changes nothing.

    ValueError unless there are hypotheses, each with one or more references."""
    del lowercase
    check(hypotheses, references)
    scorer = CiderD(references)
    total = sum(map(scorer.score, hypotheses, references))
    return MetricScore("CIDEr-D", 100 * total / len(hypotheses), _signature(references))


class CiderD:
    """CIDEr-D with the document frequencies of a set of captions, such as those of training."""

    def __init__(self, references: References) -> None:
        """`references` are the captions of each image."""
        self._num_images: Counter[tuple[str, ...]] = Counter()
        for alternatives in references:
            self._num_images.update(
                {gram for text in alternatives for gram in count_grams(words(text))}
            )
        self._log_images = math.log(max(len(references), 1))
        self._vector = lru_cache(NUM_CACHED)(self._vector_of)

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Return the score of one caption, 10 for a caption that equals its only reference.
        ValueError unless there is a list of one or more references."""
        if isinstance(references, str) or not references:
            raise ValueError(
                f"references: expected a list of one or more texts, got {references!r}"
            )
        output, num_words = self._vector(hypothesis)
        targets = map(self._vector, references)
        similarities = [
            _similarity(output, target, num_words - length) for target, length in targets
        ]
        return 10 * sum(similarities) / len(similarities)

    def _vector_of(self, text: str) -> tuple[list[dict[tuple[str, ...], float]], int]:
        """Return the weighted n-grams of a caption, for each n, and its number of words."""
        grams = count_grams(words(text))
        return self._weigh(grams), _length(grams)

    def _weigh(self, grams: Grams) -> list[dict[tuple[str, ...], float]]:
        vectors: list[dict[tuple[str, ...], float]] = [{} for _ in range(LONGEST)]
        for gram, count in grams.items():
            inverse_frequency = self._log_images - math.log(max(self._num_images[gram], 1))
            vectors[len(gram) - 1][gram] = count * inverse_frequency
        return vectors


CAPTION_METRICS: tuple[Metric[TextFunction], ...] = (
    Metric("bleu", bleu),
    *(metric for metric in TEXT_METRICS if metric.name != "bleu"),
    Metric("cider", cider_d),
)


def _similarity(
    outputs: list[dict[tuple[str, ...], float]],
    targets: list[dict[tuple[str, ...], float]],
    length_difference: int,
) -> float:
    """Return the mean over n of the clipped cosine."""
    total = 0.0
    for output, target in zip(outputs, targets, strict=True):
        dot = sum(
            min(weight, target[gram]) * target[gram]
            for gram, weight in output.items()
            if gram in target
        )
        norms = math.hypot(*output.values()) * math.hypot(*target.values())
        if norms:
            total += dot / norms * math.exp(-(length_difference**2) / (2 * WIDTH**2))
    return total / LONGEST


def _length(grams: Grams) -> int:
    return sum(count for gram, count in grams.items() if len(gram) == 1)


def _longest_common(output: Sequence[str], target: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    previous = [0] * (len(target) + 1)
    for word in output:
        row = [0]
        for column, target_word in enumerate(target):
            row.append(
                previous[column] + 1 if word == target_word else max(previous[column + 1], row[-1])
            )
        previous = row
    return previous[-1]


def _signature(references: References) -> str:
    return f"{num_references(references)}|words:lc,nopunct"
