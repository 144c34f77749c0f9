"""Tokenizers of a translation model, and encoding of sources and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config import DataConfig
from regard.data.batch import END
from regard.data.text.tokenizer import Tokenizer
from regard.runs.folder import RunFolder


@dataclass(frozen=True)
class Tokenizers:
    """Tokenizers of source and target. With a shared vocabulary both are the same tokenizer."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source.vocabulary == self.target.vocabulary

    @classmethod
    def load(cls, folder: RunFolder) -> Tokenizers:
        """Load both tokenizers of a run."""
        source = Tokenizer.load(folder.source_tokenizer)
        return cls(source, Tokenizer.load(folder.target_tokenizer))

    @classmethod
    def from_json(cls, texts: Sequence[str]) -> Tokenizers:
        """Return the tokenizers that `to_json` wrote."""
        source, target = texts
        shared = Tokenizer.from_json(source)
        return cls(shared, shared if target == source else Tokenizer.from_json(target))

    def to_json(self) -> tuple[str, str]:
        """Return both tokenizers as JSON."""
        return self.source.to_json(), self.target.to_json()

    def save(self, folder: RunFolder) -> None:
        """Write both tokenizers into a run folder."""
        self.source.save(folder.source_tokenizer)
        self.target.save(folder.target_tokenizer)


def encode_sources(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Return the token numbers of sources, with END if `data.source_end` is true."""
    end = [END] if config.source_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]


def encode_targets(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Return the token numbers of targets, with END if `data.target_end` is true."""
    end = [END] if config.target_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]
