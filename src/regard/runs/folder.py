"""Run folder: all files of a model, which can be moved, zipped and mailed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from regard import recipes
from regard.config import Experiment
from regard.data.examples import Pair
from regard.errors import UserError
from regard.recipes.yaml_file import read_recipe_file
from regard.runs.ensemble import check_single
from regard.storage.files import LOG, MODEL, RECORD, STATE, exists, whole
from regard.storage.record import REMEDY, Record, digest_of_file

MAY_CHANGE = (
    "name",
    "about",
    "model.decoder.extra_vectors_shape",
    "data.checks",
    "search.",
    "training.epochs",
    "training.updates",
    "training.patience",
    "training.hours",
    "training.track",
    "training.sharding",
    "training.validate_every",
    "training.log_",
    "training.device",
)
"""Prefixes of the fields that may change when a run is resumed. Paths may change too: the content
of the files is compared."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of the files of a run."""

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
    def targets(self) -> Path:
        return self.path / "targets.json"

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
    def training_state(self) -> Path:
        return self.path / STATE

    @property
    def failed_batch(self) -> Path:
        return self.path / "state" / "failed-batch.safetensors"

    @property
    def record(self) -> Path:
        return self.path / RECORD

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @property
    def curve(self) -> Path:
        return self.path / "curve.png"

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that training and evaluation write, without the training state."""
        return (
            self.config,
            self.model,
            self.source_tokenizer,
            self.target_tokenizer,
            self.targets,
            self.log,
            self.results,
            self.dev,
            self.test,
            self.curve,
            self.record,
            self.environment,
        )

    def experiment(self) -> Experiment:
        """Return the experiment of the run. UserError if the folder is not a run folder."""
        if not self.config.is_file():
            check_single(self.path)
            if not exists(self.path):
                raise UserError(
                    f"{self.path} is not a run: the folder does not exist. Check its name, or "
                    "train a run with `regard train`"
                )
            raise UserError(
                f"{self.path} is not a run: it has no config.yaml. Train one with `regard train`"
            )
        try:
            return recipes.load_run(self.config)
        except RecursionError as error:
            raise UserError(
                f"{self.config} is nested too deeply: put the run's own file back"
            ) from error

    def check_files(self) -> None:
        """Raise a UserError if a tokenizer, the labels, the backbone or the configuration changed
        after training. A folder without a record is not checked."""
        record = Record.read(self.path)
        if record is None:
            return
        record.check_files(self.path)
        if record.config != digest_of(self.config):
            raise UserError(
                f"{self.config}: section data or model was changed after training: {REMEDY}"
            )

    def write_record(self, run: str) -> None:
        """Write the record of a run whose other constant files are in the folder."""
        constant = (self.source_tokenizer, self.target_tokenizer, self.targets)
        backbone = sorted(self.backbone.rglob("*"))
        files = {
            path.relative_to(self.path).as_posix(): digest_of_file(path)
            for path in (*constant, *backbone)
            if path.is_file()
        }
        Record(run, files, digest_of(self.config)).write(self.path)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the run, completely or not at all."""
        with whole(path) as unfinished:
            unfinished.write_text(text, encoding="utf8")


def as_lines(pairs: Iterable[Pair]) -> str:
    """Return pairs as lines of source TAB target, the format of dev.tsv and test.tsv."""
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)


def may_change(name: str) -> bool:
    """Return whether a field of an experiment may change when its run is resumed."""
    return name.startswith(MAY_CHANGE) or name.endswith("path")


def digest_of(config: Path) -> str:
    """Return a digest of the values in the sections `data` and `model` of a configuration file,
    without paths. Both training and the output of a trained model depend on these sections."""
    recipe = read_recipe_file(config).values
    sections = {name: recipe.get(name, {}) for name in ("data", "model")}
    values = {name: value for name, value in recipes.flat(sections) if not may_change(name)}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
