"""One virtual environment for each peer, created when it is first needed, with pinned versions."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TORCH = "torch==2.13.0"


class MissingError(Exception):
    """Reason why a contestant cannot run on this machine."""


def last_line(output: str) -> str:
    """Return the last line of a process's output, usually the reason why it ended."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


@dataclass(frozen=True)
class Environment:
    """Environment with exactly the packages of `NAME.txt`. pip resolves nothing, because OpenNMT-py
    and JoeyNMT require versions with which they cannot run today."""

    name: str
    torch: bool = True

    def python(self, work: Path) -> Path:
        """Return its interpreter; MissingError if the environment cannot be created."""
        folder, packages = work / "environments" / self.name, HERE / f"{self.name}.txt"
        python, done = folder / "bin" / "python", folder / "installed.txt"
        if done.exists() and done.read_text(encoding="utf8") == packages.read_text(encoding="utf8"):
            return python
        print(f"creating {folder}", file=sys.stderr, flush=True)
        self._do(sys.executable, "-m", "venv", "--clear", str(folder))
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if self.torch:
            self._do(*install, TORCH, "--constraint", str(packages))
        self._do(*install, "--no-deps", "--requirement", str(packages))
        done.write_text(packages.read_text(encoding="utf8"), encoding="utf8")
        return python

    def _do(self, *command: str) -> None:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise MissingError(f"{self.name} cannot be installed: {last_line(process.stderr)}")
