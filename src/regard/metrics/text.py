"""Metrics of texts against references, in per cent. Each score has the signature that makes it
comparable. BLEU, chrF and TER are computed by sacrebleu (Post 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from regard.metrics.metric import Metric, MetricScore

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

References = Sequence[Sequence[str]]
"""One or more reference texts for each hypothesis."""
LONGEST = 4
"""Number of words in the longest n-grams."""
Grams = Counter[tuple[str, ...]]
"""Number of occurrences of each n-gram."""


class TextFunction(Protocol):
    """Function from hypotheses and their references to a score over the whole corpus."""

    def __call__(
        self, hypotheses: Sequence[str], references: References, *, lowercase: bool = False
    ) -> MetricScore: ...


def bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
) -> MetricScore:
    """Return corpus BLEU (Papineni et al. 2002). `tokenized` texts are split at spaces, other texts
    by sacrebleu's 13a.

    ValueError unless there are hypotheses, each with one or more references."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize="none" if tokenized else "13a", force=True)
    return _score("BLEU", metric, hypotheses, references)


def chrf(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return chrF (Popović 2015). It compares characters, so it needs no tokenizer and suits every
    language.

    ValueError unless there are hypotheses, each with one or more references."""
    from sacrebleu.metrics.chrf import CHRF

    return _score("chrF", CHRF(lowercase=lowercase), hypotheses, references)


def ter(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return the translation edit rate (Snover et al. 2006) over words between spaces. Lower is
    better.

    Case counts unless `lowercase` is set; the command `sacrebleu` ignores case by default.

    ValueError unless there are hypotheses, each with one or more references."""
    from sacrebleu.metrics.ter import TER

    return _score("TER", TER(case_sensitive=not lowercase), hypotheses, references)


def sentence_gleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Return GLEU (Wu et al. 2016, section 5), from 0 to 1: the smaller of precision and recall of
    all n-grams together, n from 1 to 4. Two empty texts have the score 1."""
    output, target = (count_grams(words) for words in (hypothesis, reference))
    longest = max(output.total(), target.total())
    return (output & target).total() / longest if longest else 1.0


def gleu_words(text: str) -> list[str]:
    """Return the words of a text for GLEU, by sacrebleu's 13a."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words: list[str] = Tokenizer13a()(text).split()
    return words


def count_grams(words: Sequence[str]) -> Grams:
    """Return the counts of all n-grams of a text, n from 1 to `LONGEST`."""
    return Counter(
        tuple(words[first : first + size])
        for size in range(1, LONGEST + 1)
        for first in range(len(words) - size + 1)
    )


def exact_match(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Return the percentage of hypotheses that equal one of their references. Differences in white
    space are ignored.

    ValueError unless there are hypotheses, each with one or more references."""
    check(hypotheses, references)

    def normalised(text: str) -> str:
        return " ".join(text.lower().split() if lowercase else text.split())

    num_matches = sum(
        normalised(hypothesis) in map(normalised, alternatives)
        for hypothesis, alternatives in zip(hypotheses, references, strict=True)
    )
    signature = f"{num_references(references)}|{case(lowercase)}|space:one"
    return MetricScore("exact match", 100 * num_matches / len(hypotheses), signature)


TEXT_METRICS: tuple[Metric[TextFunction], ...] = (
    Metric("bleu", bleu),
    Metric("chrf", chrf),
    Metric("ter", ter, higher_is_better=False),
    Metric("exact_match", exact_match),
)


def score_texts(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
) -> tuple[MetricScore, ...]:
    """Return the score of every metric in `TEXT_METRICS`, in that order.

    ValueError unless there are hypotheses, each with one or more references."""
    functions: dict[str, TextFunction] = {metric.name: metric.compute for metric in TEXT_METRICS}
    functions["bleu"] = partial(bleu, tokenized=tokenized)
    return tuple(
        function(hypotheses, references, lowercase=lowercase) for function in functions.values()
    )


def _score(
    name: str, metric: SacrebleuMetric, hypotheses: Sequence[str], references: References
) -> MetricScore:
    value = corpus_score(metric, hypotheses, references)
    return MetricScore(name, value, str(metric.get_signature()))


def corpus_score(
    metric: SacrebleuMetric, hypotheses: Sequence[str], references: References
) -> float:
    """Return the corpus score of a sacrebleu metric.

    ValueError unless there are hypotheses, each with one or more references."""
    check(hypotheses, references)
    # sacrebleu takes the first references of all hypotheses, then all second ones, and so on.
    streams: list[list[Any]] = [list(stream) for stream in zip_longest(*references)]
    return metric.corpus_score(list(hypotheses), streams).score


def num_references(references: References) -> str:
    """Return the number of references for each hypothesis in the form of a sacrebleu signature."""
    numbers = {len(alternatives) for alternatives in references}
    return f"nrefs:{numbers.pop() if len(numbers) == 1 else 'var'}"


def case(lowercase: bool) -> str:
    """Return how case was treated, in the form of a sacrebleu signature."""
    return f"case:{'lc' if lowercase else 'mixed'}"


def check(hypotheses: Sequence[str], references: References) -> None:
    """Raise a ValueError unless there are hypotheses, each with one or more references."""
    if not hypotheses:
        raise ValueError("hypotheses: expected at least one text, got none")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"references: expected a list for each of the {len(hypotheses)} hypotheses, got "
            f"{len(references)}"
        )
    for number, alternatives in enumerate(references):
        if isinstance(alternatives, str) or not alternatives:
            raise ValueError(
                f"references[{number}]: expected a list of one or more texts, got {alternatives!r}"
            )
