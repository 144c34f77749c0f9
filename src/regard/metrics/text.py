"""Scores of texts against references, in per cent, each with the signature that makes it
comparable. BLEU, chrF and TER are sacrebleu's (Post 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

References = Sequence[Sequence[str]]
"""For every hypothesis one or more texts that it may agree with."""


@dataclass(frozen=True)
class MetricScore:
    """A number, and how it was computed. Most are per cents, from 0 to 100; error rates and CIDEr-D
    may exceed 100, R2 may be below 0, and errors of numbers are in the numbers' own units."""

    name: str
    value: float
    signature: str


def bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
) -> MetricScore:
    """BLEU (Papineni et al. 2002) over the whole corpus. `tokenized` texts are split at their
    spaces, others by sacrebleu's 13a."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize="none" if tokenized else "13a", force=True)
    return _score("BLEU", metric, hypotheses, references)


def chrf(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """chrF (Popović 2015): characters, so it needs no tokens and suits all languages."""
    from sacrebleu.metrics.chrf import CHRF

    return _score("chrF", CHRF(lowercase=lowercase), hypotheses, references)


def ter(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """Translation edit rate (Snover et al. 2006): less is better. Words are split at spaces.

    Capitals count unless `lowercase` is asked for; sacrebleu's own command ignores them."""
    from sacrebleu.metrics.ter import TER

    return _score("TER", TER(case_sensitive=not lowercase), hypotheses, references)


def exact_match(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False
) -> MetricScore:
    """The percentage of hypotheses that are one of their references. How words are spaced is
    overlooked."""
    check(hypotheses, references)

    def normal(text: str) -> str:
        return " ".join(text.lower().split() if lowercase else text.split())

    right = sum(
        normal(hypothesis) in map(normal, several)
        for hypothesis, several in zip(hypotheses, references, strict=True)
    )
    signature = f"{num_references(references)}|{case(lowercase)}|space:one"
    return MetricScore("exact match", 100 * right / len(hypotheses), signature)


def score_texts(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    tokenized: bool = False,
) -> tuple[MetricScore, ...]:
    """BLEU, chrF, TER and exact match. ValueError where there is nothing to compare."""
    return (
        bleu(hypotheses, references, lowercase=lowercase, tokenized=tokenized),
        chrf(hypotheses, references, lowercase=lowercase),
        ter(hypotheses, references, lowercase=lowercase),
        exact_match(hypotheses, references, lowercase=lowercase),
    )


def _score(
    name: str, metric: Metric, hypotheses: Sequence[str], references: References
) -> MetricScore:
    value = corpus_score(metric, hypotheses, references)
    return MetricScore(name, value, str(metric.get_signature()))


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: References) -> float:
    """By a metric of sacrebleu's. ValueError where there is nothing to compare."""
    check(hypotheses, references)
    # sacrebleu wants the first reference of every hypothesis, then every second one, and so on.
    streams: list[list[Any]] = [list(stream) for stream in zip_longest(*references)]
    return metric.corpus_score(list(hypotheses), streams).score


def num_references(references: References) -> str:
    """How many there are for each hypothesis, as sacrebleu's signatures say it."""
    numbers = {len(several) for several in references}
    return f"nrefs:{numbers.pop() if len(numbers) == 1 else 'var'}"


def case(lowercase: bool) -> str:
    """Whether capitals counted, as sacrebleu's signatures say it."""
    return f"case:{'lc' if lowercase else 'mixed'}"


def check(hypotheses: Sequence[str], references: References) -> None:
    """ValueError unless there are hypotheses, and one or more references for each."""
    if not hypotheses:
        raise ValueError("hypotheses must hold at least one text, got none")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"references must be given for every hypothesis: {len(references)} came for "
            f"{len(hypotheses)} hypotheses"
        )
    for number, several in enumerate(references):
        if isinstance(several, str) or not several:
            raise ValueError(
                f"references must hold a list of one or more texts for every hypothesis, got "
                f"{several!r} for number {number}"
            )
