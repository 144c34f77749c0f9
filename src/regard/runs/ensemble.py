"""Folder of an ensemble: its runs, and `ensemble.json` with their names."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import UserError
from regard.runs.sweep_record import SweepRecord
from regard.storage.files import whole

log = logging.getLogger(__name__)

ENSEMBLE, CONFIG = "ensemble.json", "config.yaml"
"""Names of the file with the members, and of the file that every run has."""
ENVIRONMENT, TEST = "environment.json", "test.tsv"
"""Names of the files of a run's sessions and of its test split."""


def save_ensemble(folder: Path, names: Sequence[str]) -> None:
    """Write the names of the members, which are run folders in this folder."""
    with whole(folder / ENSEMBLE) as unfinished:
        unfinished.write_text(json.dumps({"members": list(names)}, indent=1), encoding="utf-8")


def members_of(path: str | Path) -> tuple[Path, ...]:
    """Return the run folders of an ensemble, or the path itself if it is no ensemble. UserError
    for a damaged `ensemble.json`, and for a member that is not there."""
    folder = Path(path)
    names = _member_names(folder)
    if names is None:
        return (folder,)
    for name in names:
        if not (folder / name / CONFIG).is_file():
            raise UserError(
                f"{folder / ENSEMBLE} names the run {name}, whose {CONFIG} is not there: restore "
                "it, or delete the folder of this run and repeat the command `regard ensemble`"
            )
    return tuple(folder / name for name in names)


def _member_names(folder: Path) -> list[str] | None:
    """Return the names in `ensemble.json`, or None if there is no such file. UserError for a
    damaged file."""
    file = folder / ENSEMBLE
    try:
        names = json.loads(file.read_text(encoding="utf-8"))["members"]
        if not isinstance(names, list) or not names:
            raise ValueError
        if not all(isinstance(name, str) and name for name in names):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(
            f'{file} is damaged: expected {{"members": [names of run folders]}}; repeat the '
            "command `regard ensemble` that made it, which trains nothing again"
        ) from error
    return names


def folder_of(runs: Sequence[Path]) -> Path | None:
    """Return the folder of the ensemble that has these members in this order. None if there is no
    such folder, and for one run."""
    folder = runs[0].parent
    names = _member_names(folder) if len(runs) > 1 else None
    return folder if names and [folder / name for name in names] == [*runs] else None


def runs_in(folder: Path) -> list[Path]:
    """Return the run folders in a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if (path / CONFIG).is_file())


def is_ensemble(folder: Path) -> bool:
    """Return whether a folder is the folder of an ensemble."""
    return (folder / ENSEMBLE).is_file()


def check_single(folder: Path) -> None:
    """Raise a UserError if a folder is that of an ensemble or a sweep instead of a run."""
    if is_ensemble(folder):
        raise UserError(f"{folder} is an ensemble: expected a run, such as {members_of(folder)[0]}")
    record = SweepRecord.read(folder)
    if record is None:
        return
    if record.command == "ensemble":
        raise UserError(
            f"{folder} is an ensemble whose training is not finished: repeat the command `regard "
            "ensemble` that began it, which continues the training"
        )
    runs = runs_in(folder)
    example = f", such as {runs[0]}" if runs else "; it has none, so repeat its `regard sweep`"
    raise UserError(f"{folder} is a sweep: expected one of its runs{example}")


def all_members(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """Return the runs of several runs or ensembles, in their order."""
    return tuple(member for path in paths for member in members_of(path))


def warn_of_other_data(paths: Sequence[Path]) -> None:
    """Warn of runs that were trained on other files than the first one, and of runs that held out
    other pairs, which the first one may have been trained on. Runs without a record are left
    out."""
    first, *rest = paths
    files, held_out = _data_digests(first), _held_out(first)
    for folder in rest:
        if files and _data_digests(folder) and _data_digests(folder) != files:
            log.warning("%s was trained on other files than %s", folder, first)
        elif held_out and _held_out(folder) and _held_out(folder) != held_out:
            log.warning(
                "%s held out other pairs than %s: each of them was trained on pairs of the other's "
                "test split",
                *(folder, first),
            )


def _data_digests(folder: Path) -> set[str]:
    """Return the digests of the data files of the last session; empty if they are not known."""
    try:
        *_, last = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8"))
        return {*last["data"].values()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return set()


def _held_out(folder: Path) -> bytes:
    return (folder / TEST).read_bytes() if (folder / TEST).exists() else b""
