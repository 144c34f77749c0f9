"""Record of a run, which identifies the files of its folder.

    FOLDER/run.json    identity of the run, digests of the files that training never changes, and a
                       digest of the configuration's sections `data` and `model`

Weights and training state carry the identity and a digest of their own content in their metadata. A
folder without a record is loaded without these checks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from regard.errors import UserError
from regard.storage.files import RECORD, check_input, read_bytes, whole

REMEDY = f"put the run's own file back, or remove {RECORD} to load the folder without this check"


@dataclass(frozen=True)
class Record:
    """Identity of a run, and digests of files that belong to it."""

    run: str
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file, by its name in the folder."""
    config: str = ""
    """Digest of the configuration."""

    @classmethod
    def read(cls, folder: Path) -> Record | None:
        """Return the record of a run folder, or None if the folder has no record. UserError if
        the record is damaged."""
        path = folder / RECORD
        if not path.exists():
            return None
        content = read_bytes(path)
        try:
            record = cls(**json.loads(content.decode("utf8")))
            texts = [record.run, record.config, *record.files, *record.files.values()]
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(_damaged(path, " ".join(str(error).split())[:200])) from error
        if not all(isinstance(text, str) for text in texts):
            raise UserError(_damaged(path, "expected texts"))
        return record

    def write(self, folder: Path) -> None:
        """Write the record, completely or not at all."""
        with whole(folder / RECORD) as unfinished:
            unfinished.write_text(json.dumps(asdict(self), indent=1), encoding="utf8")

    def check_files(self, folder: Path) -> None:
        """Raise a UserError if a file differs from the file that the run wrote."""
        for name, digest in self.files.items():
            path = folder / name
            if not path.exists():
                raise UserError(f"{path} is missing: put it back")
            if digest_of_file(path) != digest:
                raise UserError(f"{path} does not belong to this run ({RECORD}): {REMEDY}")

    def check_metadata(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Raise a UserError if a file with this metadata belongs to another run."""
        if metadata.get("run") != self.run or "sha256" not in metadata:
            raise UserError(f"{path} does not belong to this run ({RECORD}): {REMEDY}")


def run_of(folder: Path | None) -> str:
    """Return the identity of the run in a folder, or nothing if it has no record."""
    record = Record.read(folder) if folder else None
    return record.run if record else ""


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file. UserError if the file cannot be read."""
    try:
        with check_input(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged ({reason}): put it back, or remove it to load the folder without its "
        "checks"
    )
