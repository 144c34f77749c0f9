"""Encoded training pairs, in parts that are made one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice

from regard.config import DataConfig
from regard.corpora.splits import TrainingPairs
from regard.data.examples import Pair
from regard.data.files.lines import LineNumbers
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.parts import Part, PartFacts
from regard.runtime.progress import FIRST_RUN, OnProgress
from regard.tasks.translation.encoding import PairEncoder, Tokenizers

AT_A_TIME = 8192
"""Number of pairs that are encoded together."""
TOKENS_OF_A_PART = 1 << 23
"""Number of token numbers after which a part ends. A part is held in memory while it is made."""


@dataclass(frozen=True)
class TrainingParts:
    """Parts of the training pairs."""

    config: DataConfig
    tokenizers: Tokenizers
    encoder: PairEncoder
    pairs: TrainingPairs
    on_progress: OnProgress | None

    def facts(self) -> object:
        """Return all settings that the encoded pairs depend on."""
        config = self.config
        ends = config.source_end, config.target_end
        facts = [self.pairs.facts(), self.tokenizers.to_json(), ends, config.max_length]
        return [*facts, "copies"] if self.encoder.has_copies else facts

    def parts(self, first: int) -> Iterator[Part]:
        """Encode the pairs part by part, from the part that begins with this pair."""
        for pairs, facts in self.blocks(first):
            yield Part.of(pairs, facts, self.encoder.vocabulary)

    def blocks(self, first: int = 0) -> Iterator[tuple[EncodedPairs, PartFacts]]:
        """Yield the pairs of each part, in their order, and the facts about them, from the part
        that begins with this pair. A part ends with its corpus or at a number of tokens."""
        label = "encoding" if self.pairs.cache is None else f"encoding{FIRST_RUN}"
        pairs = islice(self.pairs.with_progress(label, self.on_progress), first, None)
        for corpus, of_corpus in groupby(pairs, self.pairs.corpus_of):
            for block in _blocks(self._encoded(of_corpus)):
                too_long = {number: asdict(lines) for number, lines in block.too_long.items()}
                yield (
                    block.pairs,
                    PartFacts(
                        corpus,
                        first,
                        block.num_read,
                        is_last=first + block.num_read == len(self.pairs),
                        has_copies=self.encoder.has_copies,
                        about=json.dumps(too_long),
                    ),
                )
                first += block.num_read

    def _encoded(self, pairs: Iterator[Pair]) -> Iterator[_Block]:
        """Encode some pairs at a time, without those that are too long."""
        max_length, encoder = self.config.max_length, self.encoder
        while some := list(islice(pairs, AT_A_TIME)):
            sources = encoder.sources([pair.source for pair in some])
            targets = encoder.targets([pair.target for pair in some], sources)
            short, too_long = [], dict[int, LineNumbers]()
            for pair, source, target in zip(some, sources, targets, strict=True):
                if max(len(source), len(target)) <= max_length:
                    short.append((source, target))
                else:
                    too_long.setdefault(self.pairs.file_of(pair), LineNumbers()).add(pair.line)
            encoded = encoder.pairs([ids[0] for ids in short], [ids[1] for ids in short])
            yield _Block(encoded, len(some), too_long)


@dataclass(frozen=True)
class _Block:
    """Successive pairs of one corpus."""

    pairs: EncodedPairs
    num_read: int
    """Number of pairs, with those that are too long."""
    too_long: dict[int, LineNumbers]
    """Lines of pairs that are too long, by the number of their file."""

    @classmethod
    def joined(cls, blocks: Sequence[_Block]) -> _Block:
        """Concatenate blocks."""
        return cls(
            EncodedPairs.joined(block.pairs for block in blocks),
            sum(block.num_read for block in blocks),
            merged(block.too_long for block in blocks),
        )


def _blocks(small: Iterable[_Block]) -> Iterator[_Block]:
    """Join small blocks to blocks of the size of a part; the last one may be smaller."""
    blocks: list[_Block] = []
    for block in small:
        blocks.append(block)
        if sum(block.pairs.num_tokens for block in blocks) >= TOKENS_OF_A_PART:
            yield _Block.joined(blocks)
            blocks = []
    if blocks:
        yield _Block.joined(blocks)


def merged(parts: Iterable[dict[int, LineNumbers]]) -> dict[int, LineNumbers]:
    """Join the lines of successive pairs, by the number of their file."""
    files: dict[int, LineNumbers] = {}
    for part in parts:
        for number, lines in part.items():
            files.setdefault(number, LineNumbers()).extend(lines)
    return files
