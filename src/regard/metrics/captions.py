"""Scores of captions that papers on captioning report, from 0 to 100; CIDEr-D may exceed it.

    BLEU-1 .. BLEU-4    Papineni et al. 2002, of lower-cased words without punctuation
    ROUGE-L             Lin 2004, section 2: the longest common subsequence, recall weighing more
    CIDEr-D             Vedantam et al. 2015, section 4: n-grams by how telling they are

The formulas are those of COCO's scorer, the words are not (see `words`). METEOR is not among them:
it needs Java, or a download of word lists.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from regard.metrics.text import MetricScore, References, check, corpus_score, num_references

BETA = 1.2
"""How much more recall weighs in ROUGE-L."""
LONGEST = 4
WIDTH = 6.0
"""Of the Gaussian over differences in length in CIDEr-D."""
Grams = Counter[tuple[str, ...]]


def score_captions(hypotheses: Sequence[str], references: References) -> tuple[MetricScore, ...]:
    """All of them. ValueError where there is nothing to compare."""
    check(hypotheses, references)
    return (
        *(bleu(hypotheses, references, order) for order in range(1, LONGEST + 1)),
        rouge_l(hypotheses, references),
        cider_d(hypotheses, references),
    )


def words(text: str) -> list[str]:
    """Lower-cased words and numbers, without punctuation.

    A word is a run of letters, digits and underscores, also with apostrophes inside: t-shirt is two
    words and man's is one. The PTB tokenizer of COCO's scorer cuts both the other way."""
    return re.findall(r"\w+(?:['’]\w+)*", text.lower())


def bleu(hypotheses: Sequence[str], references: References, order: int = 4) -> MetricScore:
    """BLEU up to n-grams of this order, over the whole corpus, by sacrebleu, unsmoothed."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", max_ngram_order=order, smooth_method="none", force=True)
    told = [[" ".join(words(each)) for each in several] for several in references]
    found = [" ".join(words(each)) for each in hypotheses]
    value = corpus_score(metric, found, told)
    return MetricScore(f"BLEU-{order}", value, _signature(references))


def rouge_l(hypotheses: Sequence[str], references: References) -> MetricScore:
    """The mean over pictures: of the best precision and the best recall of any reference."""
    check(hypotheses, references)
    total = 0.0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        ours, theirs = words(hypothesis), [words(each) for each in several]
        common = [_longest_common(ours, each) for each in theirs]
        precision = max(count / max(len(ours), 1) for count in common)
        recall = max(count / max(len(each), 1) for count, each in zip(common, theirs, strict=True))
        if precision and recall:
            total += (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
    return MetricScore("ROUGE-L", 100 * total / len(hypotheses), _signature(references))


def cider_d(hypotheses: Sequence[str], references: References) -> MetricScore:
    """Ten times the mean cosine of tf-idf vectors of n-grams, n from 1 to 4, with counts clipped to
    the reference's and a Gaussian over the difference in length; in per cent. How telling an n-gram
    is comes from the references of these pictures, so that the score of a few says little."""
    check(hypotheses, references)
    told = [[_grams(words(each)) for each in several] for several in references]
    in_how_many: Counter[tuple[str, ...]] = Counter()
    for several in told:
        in_how_many.update({gram for grams in several for gram in grams})
    log_pictures = math.log(max(len(references), 1))

    def weigh(grams: Grams) -> list[dict[tuple[str, ...], float]]:
        vectors: list[dict[tuple[str, ...], float]] = [{} for _ in range(LONGEST)]
        for gram, count in grams.items():
            telling = log_pictures - math.log(max(in_how_many[gram], 1))
            vectors[len(gram) - 1][gram] = count * telling
        return vectors

    total = 0.0
    for hypothesis, several in zip(hypotheses, told, strict=True):
        ours = _grams(words(hypothesis))
        found = [
            _alike(weigh(ours), weigh(each), _length(ours) - _length(each)) for each in several
        ]
        total += sum(found) / len(found)
    return MetricScore("CIDEr-D", 1000 * total / len(hypotheses), _signature(references))


def _alike(
    ours: list[dict[tuple[str, ...], float]],
    theirs: list[dict[tuple[str, ...], float]],
    longer: int,
) -> float:
    """The mean over n of the clipped cosine."""
    total = 0.0
    for one, other in zip(ours, theirs, strict=True):
        dot = sum(
            min(weight, other[gram]) * other[gram] for gram, weight in one.items() if gram in other
        )
        norms = math.hypot(*one.values()) * math.hypot(*other.values())
        if norms:
            total += dot / norms * math.exp(-(longer**2) / (2 * WIDTH**2))
    return total / LONGEST


def _grams(found: Sequence[str]) -> Grams:
    return Counter(
        tuple(found[first : first + size])
        for size in range(1, LONGEST + 1)
        for first in range(len(found) - size + 1)
    )


def _length(grams: Grams) -> int:
    return sum(count for gram, count in grams.items() if len(gram) == 1)


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    before = [0] * (len(other) + 1)
    for left in one:
        now = [0]
        for column, right in enumerate(other):
            now.append(before[column] + 1 if left == right else max(before[column + 1], now[-1]))
        before = now
    return before[-1]


def _signature(references: References) -> str:
    return f"{num_references(references)}|words:lc,nopunct"
