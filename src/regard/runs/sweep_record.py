"""Record of a sweep: `sweep.json`, with the arguments of the command that trains its runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.errors import UserError
from regard.storage.files import whole

SWEEP = "sweep.json"
"""Name of the record in the folder of a sweep. The folder of an ensemble has it too."""


@dataclass(frozen=True)
class SweepRecord:
    """Command that trains the runs of a folder."""

    arguments: tuple[str, ...]
    """Arguments of each training, without the varied fields."""
    command: str = "sweep"
    """Name of the command: sweep or ensemble. A record without it is that of a sweep."""

    @classmethod
    def read(cls, folder: Path) -> SweepRecord | None:
        """Return the record in a folder, or None if it has none. UserError for a damaged record."""
        path = folder / SWEEP
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            command = str(values.get("command", cls.command))
            return cls(tuple(map(str, values["arguments"])), command)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{path} is damaged: remove it and repeat the command, which continues the "
                "trainings"
            ) from error

    def write(self, folder: Path) -> None:
        """Write the record into a folder."""
        with whole(folder / SWEEP) as unfinished:
            unfinished.write_text(json.dumps(asdict(self)), encoding="utf-8")
