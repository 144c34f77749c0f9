"""From sources and targets to traces: one reading of both with the attention asked for.

A search could keep the attention of its steps; reading what it found once more gives the same
numbers (whole sequences and steps agree), and the distribution at every step with them. So a text
that was searched for and a text that was given come to their traces by the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard import trace
from regard.config import DataConfig
from regard.data.batch import pair_batch
from regard.data.tokenizer import Tokenizer
from regard.models.contracts import AttentionBlock, AttentionKind
from regard.models.ensemble import Ensemble
from regard.models.seq2seq import Seq2Seq
from regard.pipeline.prepare import Tokenizers
from regard.search import Forced, Lattice, forced
from regard.trace import AttentionMap, BeamLattice, Step, Trace

TOP = 5
"""Alternatives kept for every token."""


@dataclass(frozen=True)
class Written:
    """A source as text and numbers, and a target to look at, with what it was ranked by (None: its
    log probability) and the beam it came from."""

    text: str
    source: list[int]
    target: list[int]
    score: float | None = None
    lattice: Lattice | None = None


@dataclass(frozen=True)
class _Block:
    """A whole batch's block of attention, on the host."""

    kind: AttentionKind
    weights: np.ndarray
    scores: np.ndarray | None

    @classmethod
    def of(cls, block: AttentionBlock) -> _Block:
        scores = None if block.scores is None else block.scores.float().cpu().numpy()
        return cls(block.kind, block.weights.float().cpu().numpy(), scores)

    def map(self, row: int, written: Written) -> AttentionMap:
        """One sentence's part, without its padding."""
        target, source = len(written.target), len(written.source)
        down = source if self.kind == "encoder" else target
        across = {"cross": source, "encoder": source, "decoder": target, "image": None}[self.kind]
        part = np.s_[row, :, :, :down, :across]
        scores = None if self.scores is None else self.scores[part]
        return AttentionMap(self.kind, self.weights[part], scores)


class Tracer:
    """Reads targets with their sources and writes down what each token looked at."""

    def __init__(self, data: DataConfig, tokenizers: Tokenizers, model: Seq2Seq | Ensemble) -> None:
        self._data = data
        self._tokenizers = tokenizers
        self._model = model

    @torch.inference_mode()
    def read(self, written: Sequence[Written], *, attention: bool = True) -> list[Trace]:
        """A trace for each, all in one batch. `attention` False leaves its maps out."""
        batch = pair_batch([each.source for each in written], [each.target for each in written])
        batch = batch.to(next(self._model.parameters()).device)
        memories, attended = self._model.read(batch.source, need_weights=attention)
        read = forced(
            self._model.decoder,
            memories,
            batch.inputs,
            batch.outputs,
            batch.mask,
            num_top=TOP,
            need_weights=attention,
        )
        blocks = [_Block.of(block) for block in attended + read.attention]
        return [self._trace(each, read, blocks, row) for row, each in enumerate(written)]

    def _trace(self, written: Written, read: Forced, blocks: list[_Block], row: int) -> Trace:
        source, target = self._tokenizers.source, self._tokenizers.target
        score = float(read.scores[row]) if written.score is None else written.score
        return Trace(
            source=_sequence(source, written.text, written.source, self._data.source_language),
            target=_sequence(
                target, target.decode(written.target), written.target, self._data.target_language
            ),
            attention=tuple(block.map(row, written) for block in blocks),
            steps=tuple(self._steps(read, row, written.target)),
            score=score,
            lattice=None if written.lattice is None else _lattice(written.lattice, target),
        )

    def _steps(self, read: Forced, row: int, target: list[int]) -> list[Step]:
        pieces = self._tokenizers.target.pieces(target)
        log_probabilities = read.log_probabilities[row].tolist()
        entropies = read.entropy[row].tolist()
        tops = read.top_log_probabilities[row].tolist()
        steps = []
        for place, piece in enumerate(pieces):
            likely = self._tokenizers.target.pieces(read.top_tokens[row, place].tolist())
            top = tuple(zip(likely, tops[place], strict=True))
            steps.append(Step(piece, log_probabilities[place], top, entropies[place]))
        return steps


def _sequence(tokenizer: Tokenizer, text: str, ids: list[int], language: str) -> trace.Sequence:
    return trace.Sequence(text, tokenizer.pieces(ids), tokenizer.words(ids), language)


def _lattice(lattice: Lattice, tokenizer: Tokenizer) -> BeamLattice:
    """The beam in pieces; slots that held nothing are left out."""
    tokens, parents, scores = [], [], []
    for step in range(lattice.tokens.size(0)):
        alive = lattice.tokens[step] >= 0
        tokens.append(tokenizer.pieces(lattice.tokens[step][alive].tolist()))
        parents.append(tuple(lattice.parents[step][alive].tolist()))
        scores.append(tuple(lattice.scores[step][alive].tolist()))
    return BeamLattice(tuple(tokens), tuple(parents), tuple(scores))
