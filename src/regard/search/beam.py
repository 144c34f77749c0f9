"""Beam search: the most probable hypotheses of every sentence, extended together.

At each step every live hypothesis is extended by every token. Among these candidates of a sentence,
those that end with the end token and are among the `size` most probable are finished. The `size`
most probable of the others stay live, so the beam keeps its width. Candidates of one step have
equal lengths, so pruning compares plain sums of log probabilities. Finished hypotheses differ in
length, so only their ranking uses the penalties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import torch

from regard.models.contracts import AttentionBlock, Decoder, Memory
from regard.runtime.wanted import check_wanted
from regard.search.attention import Blocks
from regard.search.backpointers import (
    DONE,
    BackPointers,
    HypothesisEnd,
    ImpossibleError,
    SearchStep,
)
from regard.search.candidates import Candidates, TopCandidates, top_candidates
from regard.search.hypothesis import Hypothesis, Lattice
from regard.search.limits import Limits, Rules, count_active, rows_to_keep
from regard.search.penalties import Average, LengthPenalty, SourceCoverage
from regard.search.restrictions import TokenHistory
from regard.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class BeamSettings:
    """Beam size, ranking and stopping rule.

    `coverage_penalty` is the beta of Wu et al. (2016). A sentence is done when no live hypothesis
    can still rank among the `num_best`. With `early_stopping` it is also done when `size`
    hypotheses are finished and no live one, at its present length, has a better score than the
    worst of the best `size` of them. ValueError for values out of range."""

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
    """Hypotheses of each sentence, best first: `num_best`, or fewer if the limits allow no more.
    Hypotheses cut off at the maximum compete with those that ended."""

    def __init__(self, hypotheses: list[list[Hypothesis]], pointers: BackPointers) -> None:
        self._hypotheses = hypotheses
        self._pointers = pointers

    @overload
    def __getitem__(self, index: int) -> list[Hypothesis]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Hypothesis]]: ...
    def __getitem__(self, index: int | slice) -> list[Hypothesis] | list[list[Hypothesis]]:
        return self._hypotheses[index]

    def __len__(self) -> int:
        return len(self._hypotheses)

    def lattice(self, sentence: int) -> Lattice:
        """Return every hypothesis that was in the beam of a sentence."""
        return self._pointers.lattice(range(len(self))[sentence])


@torch.inference_mode()
def beam(
    decoder: Decoder,
    memories: tuple[Memory, ...],
    limits: Limits,
    settings: BeamSettings,
    *,
    need_weights: bool = False,
    find: TopCandidates = top_candidates,
) -> BeamResult:
    """Return the best hypotheses of each sentence. Sentences leave the batch when they are done.

    A coverage penalty makes the decoder return weights; the result contains them only with
    `need_weights`. Among equal candidates the lower hypothesis comes first, then the lower token;
    among finished hypotheses of equal rank, the one that finished first. `find` returns the
    candidates of a step.

    ImpossibleError if no token is possible or its probability is not a number. ValueError for a
    coverage penalty and a decoder without attention to the source."""
    rules = Rules.of(limits, memories)
    steps: list[SearchStep] = []
    attention: list[Blocks] = []
    last_live: list[_Live] = []  # of each sentence, the last entry has its finished hypotheses
    live, state = _Live.start(rules, memories, settings), decoder.start(memories)
    update = _Update(rules, settings)
    with_weights = need_weights or live.coverage is not None
    num_active = live.sentences.size(0)
    for position in range(rules.longest):
        check_wanted()
        output, state = decoder.step(live.tokens, state, need_weights=with_weights)
        logits = decoder.project(output.features)
        candidates = find(
            logits, live.totals, rules.forbidden(position), 2 * settings.size, live.history
        )
        candidates = _live_and_finished(candidates, rules.end, settings.size)
        steps.append(
            SearchStep(
                live.sentences, candidates.tokens, candidates.parents, candidates.log_probabilities
            )
        )
        if need_weights:
            attention.append(output.attention)
        live, is_active = update(live, candidates, output.attention, position)
        parents = candidates.parents[:, : settings.size]
        still_active = count_active(is_active, position)
        if still_active is None or still_active < num_active:
            last_live.append(live)
            live = live.end(~is_active)
        if still_active == 0:
            break
        if still_active is not None:
            num_active, rows = still_active, rows_to_keep(is_active, still_active)
            if rows is not None:
                live, state, parents = live.keep(rows), state.keep(rows), parents[rows]
        state = state.select(parents)
    pointers = BackPointers(steps, rules.end)
    return BeamResult(_hypotheses(last_live, pointers, settings, attention), pointers)


def _live_and_finished(candidates: Candidates, end: int, size: int) -> Candidates:
    """Return live candidates in the first `size` places and, if any finished, the finished ones in
    `size` more places. Unused places are pruned candidates."""
    candidates = candidates.filled_up(size)
    is_end = candidates.tokens[:, :size] == end
    if is_end.is_cpu and not is_end.any():  # the CPU would wait for a GPU
        return candidates[:, :size]
    ended = (candidates.tokens == end) & (candidates.totals > -torch.inf)
    is_finished = ended[:, :size]
    order = ended.sort(dim=1, stable=True).indices[:, :size]
    live, finished = candidates.at(order), candidates[:, :size]
    return live.only(~ended.gather(1, order)).beside(finished.only(is_finished))


@dataclass(frozen=True)
class _Finished:
    """The `size` best finished hypotheses of each sentence, best first. The score of an unused
    place is -inf. A place is encoded as step * 2 size + slot."""

    scores: Float[Tensor, "batch best"]
    places: Int[Tensor, "batch best"]

    @classmethod
    def none(cls, like: Int[Tensor, "batch"], size: int) -> _Finished:
        places = torch.zeros_like(like)[:, None].repeat(1, size)
        return cls(torch.full_like(places, -torch.inf, dtype=torch.float), places)

    def add(
        self, scores: Float[Tensor, "batch hypothesis"], places: Int[Tensor, "hypothesis"]
    ) -> _Finished:
        scores, order = torch.cat([self.scores, scores], dim=1).sort(
            dim=1, descending=True, stable=True
        )
        size = self.places.size(1)
        joined = torch.cat([self.places, places.expand(scores.size(0), -1)], dim=1)
        return _Finished(scores[:, :size], joined.gather(1, order[:, :size]))

    def keep(self, sentences: Int[Tensor, "kept"]) -> _Finished:
        return _Finished(self.scores[sentences], self.places[sentences])


@dataclass(frozen=True)
class _Live:
    """Live hypotheses of each row. Rows of sentences that are done have number DONE. The total of a
    pruned hypothesis is -inf. `finished` is None before a hypothesis may be finished."""

    sentences: Int[Tensor, "batch"]
    maximum: Int[Tensor, "batch"]
    tokens: Int[Tensor, "batch hypothesis"]
    totals: Float[Tensor, "batch hypothesis"]
    finished: _Finished | None
    coverage: SourceCoverage | None
    history: TokenHistory | None

    @classmethod
    def start(cls, rules: Rules, memories: tuple[Memory, ...], settings: BeamSettings) -> _Live:
        tokens = rules.first()
        return cls(
            torch.arange(tokens.size(0), device=tokens.device),
            rules.maximum,
            tokens,
            torch.zeros_like(tokens, dtype=torch.float),
            None,
            SourceCoverage.none(memories[0]) if settings.coverage_penalty else None,
            rules.history,
        )

    def end(self, is_done: Bool[Tensor, "batch"]) -> _Live:
        """Mark sentences as done and prune their hypotheses."""
        return replace(
            self,
            sentences=self.sentences.masked_fill(is_done, DONE),
            totals=self.totals.masked_fill(is_done[:, None], -torch.inf),
        )

    def keep(self, sentences: Int[Tensor, "kept"]) -> _Live:
        return _Live(
            self.sentences[sentences],
            self.maximum[sentences],
            self.tokens[sentences],
            self.totals[sentences],
            self.finished.keep(sentences) if self.finished else None,
            self.coverage.keep(sentences) if self.coverage else None,
            self.history.keep(sentences) if self.history else None,
        )


class _Update:
    """Divides the candidates of a step into live and finished ones; decides which sentences are
    done."""

    def __init__(self, rules: Rules, settings: BeamSettings) -> None:
        lengths = torch.arange(1, rules.longest + 1, device=rules.maximum.device)
        self.end, self.shortest = rules.end, rules.shortest
        self.settings = settings
        self.divisors = settings.length_penalty(lengths)

    def __call__(
        self,
        live: _Live,
        candidates: Candidates,
        attention: tuple[AttentionBlock, ...],
        position: int,
    ) -> tuple[_Live, Bool[Tensor, "batch"]]:
        """Return the beams after this step, and which sentences are active.

        A log probability can only fall, but its divisor may grow. The highest score that a live
        hypothesis can reach is therefore that of tokens with probability 1 up to the maximum. The
        exact stopping rule compares this bound; early stopping compares the present score. Both
        ignore the coverage penalty, which can only lower a score."""
        totals, finished, coverage = candidates.totals, live.finished, live.coverage
        size = self.settings.size
        if coverage is not None:
            coverage = coverage.extend(attention, candidates.parents)
        is_finished = self._is_finished(candidates, live.maximum, position)
        if is_finished is not None:
            # Wu et al. 2016, eq. 14 if length_penalty: s(Y, X) = log P(Y | X) / lp(Y) + cp(X; Y)
            scores = totals / self.divisors[position]
            if coverage is not None:
                scores = scores + self.settings.coverage_penalty * coverage.score()
            places = torch.arange(totals.size(1), device=totals.device) + position * 2 * size
            finished = finished or _Finished.none(live.sentences, size)
            scores = scores.masked_fill(~is_finished, -torch.inf)
            # of equal scores, hypotheses that ended come before those cut off at the maximum
            finished = finished.add(scores.roll(-size, dims=1), places.roll(-size))
            totals = totals.masked_fill(is_finished, -torch.inf)
        totals, tokens = totals[:, :size], candidates.tokens[:, :size]
        is_active = self._can_improve(totals.amax(dim=1), finished, live.maximum, position)
        extended = _Live(
            live.sentences,
            live.maximum,
            tokens,
            totals,
            finished,
            coverage.first(size) if coverage else None,
            live.history.extend(candidates.parents[:, :size], tokens) if live.history else None,
        )
        return extended, is_active

    def _is_finished(
        self, candidates: Candidates, maximum: Int[Tensor, "batch"], position: int
    ) -> Bool[Tensor, "batch candidate"] | Bool[Tensor, "batch 1"] | None:
        """Return which candidates are finished. None if none is, as far as the CPU knows without
        waiting for a GPU."""
        has_ended = candidates.totals.size(1) > self.settings.size
        if not has_ended and position + 1 < self.shortest:
            return None
        is_finished = (maximum == position + 1)[:, None]
        if has_ended:
            is_end = (candidates.tokens == self.end) & (candidates.totals > -torch.inf)
            is_finished = is_finished | is_end
        return is_finished if not is_finished.is_cpu or is_finished.any() else None

    def _can_improve(
        self,
        best_totals: Float[Tensor, "batch"],
        finished: _Finished | None,
        maximum: Int[Tensor, "batch"],
        position: int,
    ) -> Bool[Tensor, "batch"]:
        """Return whether a live hypothesis can still rank among the best. False also for NaN."""
        if finished is None:
            return best_totals > -torch.inf
        worst = finished.scores[:, self.settings.num_best - 1]
        can_improve = best_totals / self.divisors[maximum - 1] > worst
        if self.settings.early_stopping:  # the last score is -inf until `size` are finished
            can_improve &= best_totals / self.divisors[position] > finished.scores[:, -1]
        return can_improve


def _hypotheses(
    last_live: list[_Live],
    pointers: BackPointers,
    settings: BeamSettings,
    attention: list[Blocks],
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each sentence, best first, from the last entry of each sentence."""
    if not last_live:
        return []
    sentences = torch.cat([live.sentences for live in last_live]).tolist()
    finished = [
        live.finished or _Finished.none(live.sentences, settings.size) for live in last_live
    ]
    scores = torch.cat([entry.scores for entry in finished]).tolist()
    places = torch.cat([entry.places for entry in finished]).tolist()
    last = dict(zip(sentences, zip(scores, places, strict=True), strict=True))
    last.pop(DONE, None)
    ends: list[HypothesisEnd] = []
    for sentence in range(len(last)):
        ranked = list(zip(*last[sentence], strict=True))[: settings.num_best]
        possible = [
            HypothesisEnd(
                sentence, place // (2 * settings.size), place % (2 * settings.size), score
            )
            for score, place in ranked
            if math.isfinite(score)
        ]
        if not possible:
            raise ImpossibleError(f"sentence {sentence}", "no hypothesis has one")
        ends += possible
    hypotheses: list[list[Hypothesis]] = [[] for _ in last]
    for end, hypothesis in zip(ends, pointers.hypotheses(ends, attention), strict=True):
        hypotheses[end.sentence].append(hypothesis)
    return hypotheses
