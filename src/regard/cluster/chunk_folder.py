"""Folder of the finished chunks of an output, until all chunks are finished.

    OUT.chunks/manifest.json       identity and settings of the job, and all chunks
    OUT.chunks/000012.ID.0.txt     first output of a chunk; 000012.ID.1.txt is the second
    OUT.chunks/000012.ID.json      faults of the chunk and the sizes of its outputs, written last
    OUT.chunks/000012.ID.attempts  one byte for each time that a worker began the chunk

Apart from the attempts, files are written completely or not at all. A chunk without its record (the
file of its faults) is not finished. The identity tells its files from those of an older job, whose
workers may still run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from regard.cluster.settings import Settings, difference
from regard.data.files.parquet_output import is_parquet, join_parquet
from regard.errors import UserError
from regard.inference.faults import Faults
from regard.inference.loop import Outputs
from regard.inference.parts import Part
from regard.storage.files import (
    LEFT_OVER,
    locked_or_refused,
    make_folder,
    read_text,
    remove_unfinished,
    whole,
)

SUFFIX = ".chunks"
MANIFEST = "manifest.json"
MAX_ATTEMPTS = 4
"""Number of workers that may be killed while they process a chunk."""


@dataclass(frozen=True)
class ChunkFolder:
    """Folder of finished chunks."""

    outputs: Outputs
    """Files that the chunks are joined to."""
    job: str = ""
    """Identity of the job, which `prepare` sets."""

    @property
    def path(self) -> Path:
        output = next(output for output in self.outputs if output is not None)
        return output.with_name(f"{output.name}{SUFFIX}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder and hold its lock. UserError if another process holds it, or if the
        folder has other files."""
        make_folder(self.path)
        with locked_or_refused(
            self.path, f"another process writes chunks to {self.path}: wait for its end, or stop it"
        ):
            remove_unfinished(self.path)
            if not self.has_manifest and any(
                not LEFT_OVER.search(file.name) for file in self.path.iterdir()
            ):
                raise UserError(
                    f"{self.path} should have chunks of an output, but has other files: move it, "
                    "or name another output"
                )
            yield

    @property
    def has_manifest(self) -> bool:
        return (self.path / MANIFEST).is_file()

    def prepare(
        self, settings: Settings, plan: Callable[[], list[Part]]
    ) -> tuple[ChunkFolder, list[Part]]:
        """Return the folder of the job and its chunks: those of the manifest, or those of the plan,
        which is then written as the manifest. UserError if there are finished chunks of other
        settings."""
        manifest = self.path / MANIFEST
        if manifest.exists():
            content = self._read(manifest)
            folder = replace(self, job=content["job"])
            names = difference(content["settings"], json.loads(json.dumps(settings)))
            if not names:
                for attempts in self.path.glob("*.attempts"):
                    attempts.unlink()
                return folder, [Part(*numbers) for numbers in content["chunks"]]
            if any(self.path.glob(f"*.{folder.job}.json")):
                raise UserError(
                    f"{self.path} has chunks of a command with other settings ({names}): repeat "
                    "that command, or remove the folder to begin again"
                )
        chunks, job = plan(), uuid4().hex[:8]
        rows = [astuple(part) for part in chunks]
        _write(manifest, {"job": job, "settings": settings, "chunks": rows})
        return replace(self, job=job), chunks

    def is_finished(self, part: Part) -> bool:
        """Return whether a chunk is complete."""
        record = self._record(part)
        if not record.exists():
            return False
        sizes = self._read(record)["sizes"]
        return sizes == [_size(file) for file in self._files(part)]

    def run(self, process: Callable[[Part, Outputs], Faults], part: Part) -> None:
        """Process a chunk, unless it is finished. UserError as the function raises, or if the chunk
        has ended the processes of `MAX_ATTEMPTS` workers."""
        if self.is_finished(part):
            return
        attempts = self._file(part, "attempts")
        with attempts.open("ab") as file:
            file.write(b".")
        if attempts.stat().st_size > MAX_ATTEMPTS:
            raise UserError(
                f"{MAX_ATTEMPTS} workers were killed while they processed chunk {part.number} of "
                f"{self.path}: they may lack memory. Lower --workers, or use machines with more"
            )
        files = self._files(part)
        faults = asdict(process(part, files))
        _write(self._record(part), {"faults": faults, "sizes": [_size(file) for file in files]})

    def join(self, chunks: Sequence[Part]) -> Faults:
        """Join the outputs of all chunks, remove the folder and return the faults of all chunks.
        UserError if a chunk is missing or an output cannot be written."""
        missing = [part.number for part in chunks if not self.is_finished(part)]
        if missing:
            raise UserError(
                f"{self.path} lacks {len(missing)} of {len(chunks)} chunks: repeat the command"
            )
        with ExitStack() as files:
            for output, *parts in zip(self.outputs, *map(self._files, chunks), strict=True):
                if output is not None:
                    join_files(parts, files.enter_context(whole(output)))
        faults = Faults.joined(self._read(self._record(part))["faults"] for part in chunks)
        # The name changes first, so that no other process finds half of the chunks.
        removed = self.path.replace(self.path.with_name(f".{uuid4().hex}.unfinished"))
        shutil.rmtree(removed, ignore_errors=True)
        return faults

    def _record(self, part: Part) -> Path:
        return self._file(part, "json")

    def _files(self, part: Part) -> Outputs:
        return Outputs(
            *(
                None if output is None else self._file(part, f"{number}{output.suffix or '.txt'}")
                for number, output in enumerate(self.outputs)
            )
        )

    def _file(self, part: Part, suffix: str) -> Path:
        return self.path / f"{part.number:06}.{self.job}.{suffix}"

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(read_text(path))
        except ValueError as error:
            raise UserError(
                f"{path} is damaged: remove the folder {self.path} to begin again"
            ) from error
        return content


def _write(path: Path, content: dict[str, Any]) -> None:
    with whole(path) as unfinished:
        unfinished.write_text(json.dumps(content), encoding="utf-8")


def join_files(parts: Sequence[Path], path: Path) -> None:
    """Join texts, or Parquet files with equal columns, in their order."""
    if is_parquet(parts[0]):
        join_parquet(parts, path)
        return
    with path.open("wb") as file:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file, 1 << 20)


def _size(file: Path | None) -> int | None:
    return file.stat().st_size if file is not None and file.exists() else None
