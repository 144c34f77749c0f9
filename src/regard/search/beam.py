"""The few best hypotheses of every sentence, extended together.

At each step every living hypothesis is extended by every token. Of all these candidates of a
sentence those are complete that wrote the end and are among the `size` most probable; the `size`
most probable of the others live on, so that the beam stays as wide as it was. Candidates of one
step are equally long: this pruning goes by the plain sum of log probabilities. Complete hypotheses
differ in length: the penalties decide among them, and only there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import torch

from regard.models.contracts import AttentionBlock, Decoder, Memory
from regard.search.attention import Blocks
from regard.search.backpointers import NOBODY, End, History, ImpossibleError, Step
from regard.search.candidates import Candidates, best
from regard.search.hypothesis import Hypothesis, Lattice
from regard.search.limits import Limits, Rules, count_going, going_on
from regard.search.penalties import Average, Coverage, LengthPenalty
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class BeamSettings:
    """How wide to search and what to rank by.

    `coverage_penalty` is Wu et al.'s beta. A sentence is done when no living hypothesis can still
    be among the `num_best`; with `early_stopping` also when `size` are complete and none that lives
    has, at its present length, a better score than the worst of the `size` best of them."""

    size: int = 5
    num_best: int = 1
    length_penalty: LengthPenalty = field(default_factory=Average)
    coverage_penalty: float = 0.0
    early_stopping: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size is {self.size}: expected at least 1 hypothesis")
        if not 1 <= self.num_best <= self.size:
            raise ValueError(
                f"num_best is {self.num_best}: expected 1 to the beam's size, {self.size}"
            )
        if not 0 <= self.coverage_penalty < math.inf:
            raise ValueError(f"coverage_penalty is {self.coverage_penalty}: expected 0 or more")


class BeamResult(Sequence[list[Hypothesis]]):
    """Of each sentence its hypotheses, best first: `num_best`, or fewer where the limits allow no
    more. What was cut off at the maximum competes with what ended."""

    def __init__(self, hypotheses: list[list[Hypothesis]], history: History) -> None:
        self._hypotheses = hypotheses
        self._history = history

    @overload
    def __getitem__(self, index: int) -> list[Hypothesis]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Hypothesis]]: ...
    def __getitem__(self, index: int | slice) -> list[Hypothesis] | list[list[Hypothesis]]:
        return self._hypotheses[index]

    def __len__(self) -> int:
        return len(self._hypotheses)

    def lattice(self, sentence: int) -> Lattice:
        """All that this sentence's beam held, built when it is asked for."""
        return self._history.lattice(range(len(self))[sentence])


@torch.inference_mode()
def beam(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    settings: BeamSettings,
    *,
    need_weights: bool = False,
) -> BeamResult:
    """Search for the best-ranked texts. Sentences leave the batch as they are done.

    A coverage penalty asks the decoder for weights; they are returned only with `need_weights`.
    Equal candidates keep their order: the lower hypothesis, then the lower token; of equally
    ranked complete hypotheses the one that was complete first. ImpossibleError where no token is
    possible or its probability is no number; ValueError for a coverage penalty where nothing looks
    at the source."""
    rules = Rules.of(limits, memories)
    steps: list[Step] = []
    looked: list[Blocks] = []
    judged: list[_Living] = []
    living, state = _Living.start(rules, memories, settings), decoder.start(memories)
    judge = _Judge(rules, settings)
    look = need_weights or living.coverage is not None
    num_going = living.sentences.size(0)
    for position in range(rules.longest):
        output, state = decoder.step(living.tokens, state, need_weights=look)
        logits = decoder.project(output.features)
        candidates = best(logits, living.totals, rules.closed(position), 2 * settings.size)
        found = _in_places(candidates, rules.end, settings.size)
        steps.append(Step(living.sentences, found.tokens, found.parents, found.log_probabilities))
        if need_weights:
            looked.append(output.attention)
        living, is_going = judge(living, found, output.attention, position)
        parents = found.parents[:, : settings.size]
        now_going = count_going(is_going, position)
        if now_going is None or now_going < num_going:
            judged.append(living)
            living = living.end(~is_going)
        if now_going == 0:
            break
        if now_going is not None:
            num_going, rows = now_going, going_on(is_going, now_going)
            if rows is not None:
                living, state, parents = living.keep(rows), state.keep(rows), parents[rows]
        state = state.select(parents)
    history = History(steps, rules.end)
    return BeamResult(_read(judged, history, settings, looked), history)


def _in_places(candidates: Candidates, end: int, size: int) -> Candidates:
    """What is kept: in the first `size` places the best that live on, which the next step extends,
    and, where any ended, in as many more those that did. Places that nobody takes are dead."""
    candidates = candidates.filled_up(size)
    ended = (candidates.tokens == end) & (candidates.totals > -torch.inf)
    over = ended[:, :size]
    if over.is_cpu and not over.any():  # a GPU would have to be waited for
        return candidates[:, :size]
    order = ended.sort(dim=1, stable=True).indices[:, :size]
    living, complete = candidates.at(order), candidates[:, :size]
    return living.only(~ended.gather(1, order)).beside(complete.only(over))


@dataclass(frozen=True)
class _Complete:
    """The `size` best complete hypotheses of each sentence, best first; the score is -inf where
    there are not so many yet. A place says where one ended: step * 2 size + slot."""

    scores: Float[Tensor, "batch best"]
    places: Int[Tensor, "batch best"]

    @classmethod
    def none(cls, like: Int[Tensor, "batch"], size: int) -> _Complete:
        places = torch.zeros_like(like)[:, None].repeat(1, size)
        return cls(torch.full_like(places, -torch.inf, dtype=torch.float), places)

    def add(
        self, scores: Float[Tensor, "batch hypothesis"], places: Int[Tensor, "hypothesis"]
    ) -> _Complete:
        scores, order = torch.cat([self.scores, scores], dim=1).sort(
            dim=1, descending=True, stable=True
        )
        size = self.places.size(1)
        joined = torch.cat([self.places, places.expand(scores.size(0), -1)], dim=1)
        return _Complete(scores[:, :size], joined.gather(1, order[:, :size]))

    def keep(self, sentences: Int[Tensor, "kept"]) -> _Complete:
        return _Complete(self.scores[sentences], self.places[sentences])


@dataclass(frozen=True)
class _Living:
    """The beams of the sentences that are not done, and of some that are and have no number any
    more. The total of a dead hypothesis is -inf. `complete` is None where it is known that nothing
    is."""

    sentences: Int[Tensor, "batch"]
    maximum: Int[Tensor, "batch"]
    tokens: Int[Tensor, "batch hypothesis"]
    totals: Float[Tensor, "batch hypothesis"]
    complete: _Complete | None
    coverage: Coverage | None

    @classmethod
    def start(cls, rules: Rules, memories: tuple[Memory, ...], settings: BeamSettings) -> _Living:
        tokens = rules.first()
        return cls(
            torch.arange(tokens.size(0), device=tokens.device),
            rules.maximum,
            tokens,
            torch.zeros_like(tokens, dtype=torch.float),
            None,
            Coverage.none(memories[0]) if settings.coverage_penalty else None,
        )

    def end(self, is_done: Bool[Tensor, "batch"]) -> _Living:
        """None of these sentences gets another hypothesis."""
        return replace(
            self,
            sentences=self.sentences.masked_fill(is_done, NOBODY),
            totals=self.totals.masked_fill(is_done[:, None], -torch.inf),
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> _Living:
        return _Living(
            self.sentences[sentences],
            self.maximum[sentences],
            self.tokens[sentences],
            self.totals[sentences],
            self.complete.keep(sentences) if self.complete else None,
            self.coverage.keep(sentences) if self.coverage else None,
        )


class _Judge:
    """Tells the complete hypotheses from the living ones, and when a sentence is done."""

    def __init__(self, rules: Rules, settings: BeamSettings) -> None:
        lengths = torch.arange(1, rules.longest + 1, device=rules.maximum.device)
        self.end = rules.end
        self.settings = settings
        self.divisors = settings.length_penalty(lengths)

    def __call__(
        self,
        living: _Living,
        found: Candidates,
        attention: tuple[AttentionBlock, ...],
        position: int,
    ) -> tuple[_Living, Bool[Tensor, "batch"]]:
        """The beams after this step, and which sentences go on.

        A log probability only falls, but the divisor may grow: the most that a living hypothesis
        can reach is the score of writing nothing but certainties up to the maximum. That is what
        the exact rule asks; early stopping asks for its score as it stands. (A coverage penalty can
        only subtract, so that it is left out of both.)"""
        totals, complete, coverage = found.totals, living.complete, living.coverage
        size = self.settings.size
        if coverage is not None:
            coverage = coverage.extend(attention, found.parents)
        ended = (found.tokens == self.end) & (totals > -torch.inf)
        is_complete = ended | (living.maximum == position + 1)[:, None]
        if not is_complete.is_cpu or is_complete.any():  # a GPU would have to be waited for
            scores = totals / self.divisors[position]
            if coverage is not None:
                scores = scores + self.settings.coverage_penalty * coverage.score()
            places = torch.arange(totals.size(1), device=totals.device) + position * 2 * size
            complete = complete or _Complete.none(living.sentences, size)
            scores = scores.masked_fill(~is_complete, -torch.inf)
            # What ended comes before what is cut off, for those that are equally good.
            complete = complete.add(scores.roll(-size, dims=1), places.roll(-size))
            totals = totals.masked_fill(is_complete, -torch.inf)
        totals = totals[:, :size]
        is_going = self._can_rise(totals.amax(dim=1), complete, living.maximum, position)
        extended = replace(
            living,
            tokens=found.tokens[:, :size],
            totals=totals,
            complete=complete,
            coverage=coverage.first(size) if coverage else None,
        )
        return extended, is_going

    def _can_rise(
        self,
        likeliest: Float[Tensor, "batch"],
        complete: _Complete | None,
        maximum: Int[Tensor, "batch"],
        position: int,
    ) -> Bool[Tensor, "batch"]:
        """Where a living hypothesis may still come among the best. A comparison is False for what
        is not a number, too."""
        if complete is None:
            return likeliest > -torch.inf
        worst = complete.scores[:, self.settings.num_best - 1]
        can_rise = likeliest / self.divisors[maximum - 1] > worst
        if self.settings.early_stopping:  # the worst of `size` is -inf until so many are complete
            can_rise &= likeliest / self.divisors[position] > complete.scores[:, -1]
        return can_rise


def _read(
    judged: list[_Living], history: History, settings: BeamSettings, looked: list[Blocks]
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, as it was judged last."""
    if not judged:
        return []
    sentences = torch.cat([living.sentences for living in judged]).tolist()
    complete = [
        living.complete or _Complete.none(living.sentences, settings.size) for living in judged
    ]
    scores = torch.cat([each.scores for each in complete]).tolist()
    places = torch.cat([each.places for each in complete]).tolist()
    last = dict(zip(sentences, zip(scores, places, strict=True), strict=True))
    last.pop(NOBODY, None)
    ends: list[End] = []
    for sentence in range(len(last)):
        every = list(zip(*last[sentence], strict=True))[: settings.num_best]
        ranked = [
            End(sentence, place // (2 * settings.size), place % (2 * settings.size), score)
            for score, place in every
            if math.isfinite(score)
        ]
        if not ranked:
            raise ImpossibleError(f"sentence {sentence}", "there is no text with a log probability")
        ends += ranked
    found: list[list[Hypothesis]] = [[] for _ in last]
    for end, hypothesis in zip(ends, history.hypotheses(ends, looked), strict=True):
        found[end.sentence].append(hypothesis)
    return found
