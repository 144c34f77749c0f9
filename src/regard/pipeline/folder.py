"""The run folder: everything that a model needs, in files that can be moved, zipped and mailed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard import recipes
from regard.config import Experiment
from regard.data.text import Pair
from regard.errors import UserError
from regard.files import LOG, MODEL, whole


@dataclass(frozen=True)
class RunFolder:
    """Where each thing of a run lies."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        return self.path / MODEL

    @property
    def source_tokenizer(self) -> Path:
        return self.path / "source.tokenizer.json"

    @property
    def target_tokenizer(self) -> Path:
        return self.path / "target.tokenizer.json"

    @property
    def log(self) -> Path:
        return self.path / LOG

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def answers(self) -> Path:
        return self.path / "answers.json"

    @property
    def backbone(self) -> Path:
        return self.path / "backbone"

    @property
    def dev(self) -> Path:
        return self.path / "dev.tsv"

    @property
    def test(self) -> Path:
        return self.path / "test.tsv"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def curve(self) -> Path:
        return self.path / "curve.png"

    @property
    def files(self) -> tuple[Path, ...]:
        """All that training and evaluating write, but for the state."""
        return (
            self.config,
            self.model,
            self.source_tokenizer,
            self.target_tokenizer,
            self.answers,
            self.log,
            self.results,
            self.dev,
            self.test,
            self.curve,
        )

    def experiment(self) -> Experiment:
        """The whole experiment as it was run; UserError where this is no run folder."""
        if not self.config.is_file():
            raise UserError(
                f"{self.path} is not a run: it has no config.yaml. Train one with `regard train`"
            )
        return recipes.read_run(self.config)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the run whole or not at all."""
        with whole(path) as unfinished:
            unfinished.write_text(text, encoding="utf8")


def as_lines(pairs: Iterable[Pair]) -> str:
    """As the files of a run's pairs have them."""
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
