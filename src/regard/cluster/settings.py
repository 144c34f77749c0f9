"""Settings of a job in chunks: a repeated command continues it only if they are equal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.corpora.cache import cache_folder
from regard.corpora.file_digests import digests_of
from regard.runs.folder import RunFolder
from regard.storage.record import digest_of_file
from regard.version import VERSION

OWN = ("bulk", "run", "ensemble", "file", "pairs", "target_path", "images", "output")
"""Options that are not compared: workers may change, runs and inputs have digests, and the output
names the folder of the chunks."""
Settings = dict[str, Any]
"""Values by the name of the setting, as JSON has them."""


def settings_of(
    command: str, options: Any, runs: Iterable[Path], inputs: Sequence[Any]
) -> Settings:
    """Return the settings of a command: its options, digests of its runs, and facts about its
    inputs, as `contents_of` or `states_of` returns them."""
    return {
        "command": command,
        "version": VERSION,
        "run": [dict(_run_digests(RunFolder(run))) for run in runs],
        "input": list(inputs),
        **_flat(asdict(options)),
    }


def contents_of(names: Sequence[str]) -> list[str | None]:
    """Return the SHA-256 of each file."""
    return digests_of(names, cache_folder())


def states_of(names: Sequence[str]) -> list[str]:
    """Return a digest of the names, sizes and times of all files."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(json.dumps([name, *_state(name)]).encode())
    return [digest.hexdigest()]


def _state(name: str) -> tuple[int, ...]:
    try:
        status = Path(name).stat()
    except (OSError, ValueError):  # a description of a scene
        return ()
    return status.st_size, status.st_mtime_ns


def difference(old: Settings, new: Settings) -> str:
    """Return the names of the settings that differ, such as "input, beam"; empty if none does."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(names)


def _run_digests(run: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield the names and digests of the files of a run that inference reads."""
    files = [run.config, run.model, run.source_tokenizer, run.target_tokenizer, run.targets]
    files += sorted(run.backbone.rglob("*")) if run.backbone.is_dir() else []
    for file in files:
        if file.is_file():
            yield str(file.relative_to(run.path)), digest_of_file(file)


def _flat(options: Mapping[str, Any]) -> Settings:
    """Return options by their names, as JSON has them; those of a section without its name."""
    flat: Settings = {}
    for name, value in options.items():
        if name in OWN:
            continue
        if isinstance(value, dict):
            flat |= _flat(value)
        elif isinstance(value, tuple):
            flat[name] = [str(item) for item in value]
        else:
            flat[name] = str(value) if isinstance(value, Path) else value
    return flat
