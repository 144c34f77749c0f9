"""Settings of a work in chunks: a repeated command continues it only if they are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from regard.record import digest_of_file
from regard.runs.cache import cache_folder
from regard.runs.file_digests import digests_of
from regard.runs.folder import RunFolder
from regard.version import VERSION

OWN = ("bulk", "run", "ensemble", "file", "pairs", "target_path", "images")
"""Options that are not compared: workers may change, and inputs have digests."""
Settings = dict[str, Any]
"""Values by the name of the setting, as JSON has them."""


def settings_of(
    command: str, options: Any, runs: Iterable[Path], inputs: Sequence[str | Path | None]
) -> Settings:
    """Return the settings of a command: its options, and digests of its runs and of the files that
    it reads."""
    names = [str(name) for name in inputs if name is not None]
    digests = digests_of(names, cache_folder())
    return {
        "command": command,
        "version": VERSION,
        "run": [dict(_run_digests(RunFolder(run))) for run in runs],
        "input": [[size_of(name), digest] for name, digest in zip(names, digests, strict=True)],
        **_flat(asdict(options) if is_dataclass(options) else {}),  # type: ignore[arg-type]
    }


def size_of(name: str) -> int | None:
    """Return the number of bytes of a file, or None if there is no such file."""
    try:
        return Path(name).stat().st_size
    except (OSError, ValueError):
        return None


def difference(old: Settings, new: Settings) -> str:
    """Return the names of the settings that differ, such as "input, beam"; empty if none does."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(names)


def _run_digests(run: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield the names and digests of the files of a run that inference reads."""
    files = [run.config, run.model, run.source_tokenizer, run.target_tokenizer, run.answers]
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
