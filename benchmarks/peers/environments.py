"""An environment for each peer, made when it is first needed, with every version pinned."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"


class MissingError(Exception):
    """Why a contestant cannot be run here."""


def last_line(said: str) -> str:
    """Of what a process said, usually the reason why it ended."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


@dataclass(frozen=True)
class Environment:
    """`NAME.txt` has every package that stands in it, so that pip decides nothing by itself: what
    OpenNMT-py and JoeyNMT say they need contradicts what they can be run with today."""

    name: str
    torch: bool = True

    def python(self, work: Path) -> Path:
        """Its interpreter. MissingError where it cannot be made."""
        folder, packages = work / "environments" / self.name, HERE / f"{self.name}.txt"
        python, done = folder / "bin" / "python", folder / "installed.txt"
        if done.exists() and done.read_text(encoding="utf8") == packages.read_text(encoding="utf8"):
            return python
        print(f"making {folder}", file=sys.stderr, flush=True)
        self._do(sys.executable, "-m", "venv", "--clear", str(folder))
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if self.torch:
            self._do(*install, TORCH, "--constraint", str(packages))
        self._do(*install, "--no-deps", "--requirement", str(packages))
        done.write_text(packages.read_text(encoding="utf8"), encoding="utf8")
        return python

    def _do(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingError(f"{self.name} cannot be installed: {last_line(done.stderr)}")
