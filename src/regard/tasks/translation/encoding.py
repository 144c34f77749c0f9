"""The tokenizers of a translation model, and token numbers of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.config import DataConfig
from regard.data.batch import END
from regard.data.text.tokenizer import Tokenizer
from regard.runs.folder import RunFolder


@dataclass(frozen=True)
class Tokenizers:
    """One for each side; a shared vocabulary is the same tokenizer twice."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_shared(self) -> bool:
        """Whether a piece has one number on both sides."""
        return self.source.vocabulary == self.target.vocabulary

    @classmethod
    def load(cls, folder: RunFolder) -> Tokenizers:
        """Read both from a run."""
        source = Tokenizer.load(folder.source_tokenizer)
        return cls(source, Tokenizer.load(folder.target_tokenizer))

    @classmethod
    def from_json(cls, texts: Sequence[str]) -> Tokenizers:
        """Those that `to_json` told of."""
        source, target = texts
        shared = Tokenizer.from_json(source)
        return cls(shared, shared if target == source else Tokenizer.from_json(target))

    def to_json(self) -> tuple[str, str]:
        """Both as texts."""
        return self.source.to_json(), self.target.to_json()

    def save(self, folder: RunFolder) -> None:
        """Write both into a run."""
        self.source.save(folder.source_tokenizer)
        self.target.save(folder.target_tokenizer)


def encode_sources(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Token numbers of sources, with END where the recipe has it."""
    end = [END] if config.source_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]


def encode_targets(
    config: DataConfig, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[list[int]]:
    """Token numbers of targets, with END where the recipe has it."""
    end = [END] if config.target_end else []
    return [ids + end for ids in tokenizer.encode_batch(texts)]
