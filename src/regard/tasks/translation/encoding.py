"""Tokenizers of a translation model, and encoding of sources and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from regard.config import DataConfig, TranslationModelConfig
from regard.data.batch import END
from regard.data.text.copying import CopyEncoder, CopySource
from regard.data.text.features import FeatureTokenizer, load_source, source_from_json
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.runs.ensemble import check_single, members_of
from regard.runs.folder import RunFolder
from regard.storage.files import exists

EncodedSource = list[int] | CopySource
"""Token numbers of a source, for a model that copies with the numbers to copy."""


@dataclass(frozen=True)
class Tokenizers:
    """Tokenizers of source and target. With a shared vocabulary both are the same tokenizer, except
    for the features of a source."""

    source: Tokenizer | FeatureTokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source.vocabulary == self.target.vocabulary

    @classmethod
    def load(cls, folder: RunFolder) -> Tokenizers:
        """Load both tokenizers of a run."""
        source = load_source(folder.source_tokenizer)
        return cls(source, Tokenizer.load(folder.target_tokenizer))

    @classmethod
    def of_run(cls, path: Path) -> Tokenizers:
        """Load the tokenizers of a run, or of an ensemble, whose members share them. UserError for
        a file, and for a folder without tokenizers."""
        run, *_ = members_of(path)
        try:
            check_single(run)
            if exists(path) and not exists(RunFolder(run).source_tokenizer):
                raise UserError(
                    f"{path} has no tokenizers of Regard: expected the folder of a run; "
                    "SentencePiece models and BPE codes are not supported: learn subwords with "
                    "--data.tokenizer unigram or bpe, or split the texts before and set "
                    "--data.tokenizer spaces"
                )
            return cls.load(RunFolder(run))
        except UserError as error:
            raise UserError(f"data.tokenizers_path: {error}") from error

    @classmethod
    def from_json(cls, texts: Sequence[str]) -> Tokenizers:
        """Return the tokenizers that `to_json` wrote."""
        source, target = texts
        first = source_from_json(source)
        if isinstance(first, Tokenizer) and target == source:
            return cls(first, first)
        return cls(first, Tokenizer.from_json(target))

    def to_json(self) -> tuple[str, str]:
        """Return both tokenizers as JSON."""
        return self.source.to_json(), self.target.to_json()

    def save(self, folder: RunFolder) -> None:
        """Write both tokenizers into a run folder."""
        self.source.save(folder.source_tokenizer)
        self.target.save(folder.target_tokenizer)


class PairEncoder:
    """Encodes sources and targets of a run. If the model copies, sources also have the numbers and
    texts of their words to copy."""

    def __init__(
        self, data: DataConfig, model: TranslationModelConfig, tokenizers: Tokenizers
    ) -> None:
        """UserError if the model copies and the tokenizers do not fit each other."""
        self._data = data
        self._tokenizers = tokenizers
        self.has_copies = model.copy == "pointer_generator"
        self._copying = None
        if self.has_copies:
            self._copying = CopyEncoder(tokenizers.source, tokenizers.target)

    @property
    def vocabulary(self) -> int:
        """Number above all token numbers of pairs of at most `data.max_length` tokens."""
        size = max(len(self._tokenizers.source), len(self._tokenizers.target))
        return size + self._data.max_length if self.has_copies else size

    def sources(self, texts: Sequence[str]) -> Sequence[EncodedSource]:
        """Return encoded sources, with END if `data.source_end` is true."""
        end = [END] if self._data.source_end else []
        sources = [ids + end for ids in self._tokenizers.source.encode_batch(texts)]
        if self._copying is None:
            return sources
        return self._copying.sources(texts, sources, has_end=self._data.target_end)

    def targets(
        self, texts: Sequence[str], sources: Sequence[EncodedSource]
    ) -> Sequence[list[int]]:
        """Return the token numbers of targets, with END if `data.target_end` is true. Words that
        can be copied from their sources have the numbers of these, if they are unknown."""
        end = [END] if self._data.target_end else []
        targets = [ids + end for ids in self._tokenizers.target.encode_batch(texts)]
        if self._copying is None:
            return targets
        return self._copying.targets(texts, targets, cast(Sequence[CopySource], sources))

    def pairs(self, sources: Sequence[EncodedSource], targets: Sequence[list[int]]) -> EncodedPairs:
        """Return encoded pairs in memory."""
        if self._copying is None:
            return EncodedPairs.of(cast(Sequence[list[int]], sources), targets)
        copied = cast(Sequence[CopySource], sources)
        ids, copies = ([getattr(each, name) for each in copied] for name in ("ids", "copies"))
        return EncodedPairs.of(ids, targets, copies)
