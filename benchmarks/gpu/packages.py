"""Packages of a GPU host without a network: which are missing there, and their wheels.

    python benchmarks/gpu/packages.py FOLDER

downloads wheels for Linux on x86-64 and Python 3.12 into a folder, in the order of their
importance, until the limit is reached, and lists the packages that are left out. PyTorch is never
downloaded. `--host NAME ...` names more packages that the host has.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from email import message_from_string
from importlib import metadata
from pathlib import Path
from shutil import copyfile

ROOT = Path(__file__).resolve().parents[2]
HOST = ("torch", "triton", "numpy", "tokenizers", "safetensors", "pytest")
"""Packages that the host has."""
TESTS = ("beartype", "hypothesis", "pytest-xdist")
BUILD = ("setuptools",)
PEERS = ("ctranslate2",)
LAST = ("matplotlib",)
"""Requirements of the package that neither training nor translation imports."""
LIMIT = 60 << 20
"""Largest size of all wheels in bytes."""
PLATFORMS = tuple(f"manylinux_2_{number}_x86_64" for number in (34, 31, 28, 27, 26, 24, 17, 12, 5))


def core() -> list[str]:
    """Return the requirements of the package itself."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    return project["dependencies"]


def wanted() -> list[str]:
    """Return requirements in the order of their importance."""
    last = [requirement for requirement in core() if name_of(requirement) in LAST]
    first = [requirement for requirement in core() if requirement not in last]
    return [*first, *TESTS, *BUILD, *PEERS, *last]


def name_of(requirement: str) -> str:
    """Return the normalised name of a package, of its requirement or of its wheel."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()


def is_installed(requirement: str) -> bool:
    """Whether this Python has a version that satisfies the requirement."""
    from packaging.requirements import Requirement  # pytest depends on it

    try:
        version = metadata.version(name_of(requirement))
    except metadata.PackageNotFoundError:
        return False
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def needs_of(wheel: Path) -> Iterator[str]:
    """Yield the requirements of a wheel on this machine, without its extras."""
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as archive:
        (name,) = (x for x in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", x))
        about = message_from_string(archive.read(name).decode())
    for text in about.get_all("Requires-Dist") or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield f"{requirement.name}{requirement.specifier}"


def missing(wheels: Path) -> tuple[list[Path], list[str]]:
    """Return the wheels of the packages that this Python lacks, and requirements without a
    wheel."""
    found = {name_of(path.name.split("-")[0]): path for path in sorted(wheels.glob("*.whl"))}
    chosen, lacking = dict[str, Path](), list[str]()
    waiting = wanted()
    while waiting:
        requirement = waiting.pop(0)
        name = name_of(requirement)
        if name in chosen or is_installed(requirement):
            continue
        if name in found:
            chosen[name] = found[name]
            waiting += needs_of(found[name])
        elif requirement not in lacking:
            lacking.append(requirement)
    return list(chosen.values()), lacking


def unpack(wheels: Iterable[Path], folder: Path) -> None:
    """Make the packages of wheels importable from a folder."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)


def download(folder: Path, host: Collection[str]) -> list[str]:
    """Download the wheels of packages that the host lacks. Return a line for each that is left
    out."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    left_out, size = [], 0
    for requirement in wanted():
        if name_of(requirement) in host:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            error = _download(requirement, Path(temporary))
            wheels = sorted(Path(temporary).glob("*.whl"))
            paths = [path for path in wheels if not (folder / path.name).exists()]
            paths = [path for path in paths if name_of(path.name.split("-")[0]) not in host]
            more = sum(path.stat().st_size for path in paths)
            if error or size + more > LIMIT:
                reason = error or f"{more / (1 << 20):.0f} MiB more than the limit leaves"
                left_out.append(f"{name_of(requirement)}: {reason}")
                continue
            for path in paths:
                copyfile(path, folder / path.name)
            size += more
    print(f"{folder}: {len(list(folder.glob('*.whl')))} wheels, {size / (1 << 20):.1f} MiB")
    return left_out


def _download(requirement: str, folder: Path) -> str:
    """Download a package and its dependencies. Return an error message, empty without an error."""
    options = [x for platform in PLATFORMS for x in ("--platform", platform)]
    options += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    result = subprocess.run(
        [*command, *options, *constraints, "--dest", str(folder), requirement],
        capture_output=True,
        text=True,
    )
    lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
    return (lines or ["pip failed"])[-1][:200] if result.returncode else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", nargs="+", default=(), help="more packages that the host has")
    options = parser.parse_args()
    for line in download(options.folder, {*HOST, *map(name_of, options.host)}):
        print(f"left out: {line}")


if __name__ == "__main__":
    main()
