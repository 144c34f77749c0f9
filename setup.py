"""Compile the kernels, once for each instruction set, into a library that depends neither on the
version of Python nor on that of PyTorch: its wheel is `py3-none-PLATFORM`. Without a compiler the
wheel is `py3-none-any` and one warning says so. Everything else about the build is in
pyproject.toml."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CompileError, LinkError

KERNELS = Path("src/regard/kernels")
SOURCES = (
    "library.cpp",
    "attention/additive.cpp",
    "models/encoder.cpp",
    "models/recurrent_step.cpp",
    "models/step.cpp",
)
"""Sources that are compiled once; block.cpp is compiled for each instruction set."""
WITHOUT_KERNELS = """
regard: WARNING: built without its C++ kernels, because no C++ compiler worked ({reason}).
regard: Results are the same, but training and translation on a CPU are slower.
regard: Install g++ 11 or newer, or Clang 14 or newer, and build again from the same folder:
regard:     {python} -m pip install --force-reinstall --no-deps --no-cache-dir .
"""

FLAGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
]
RUNTIMES = [] if sys.platform == "darwin" else [["-static-libstdc++", "-static-libgcc"]]
"""Flags that put the compiler's own libraries into ours, so that a wheel runs where these are
older. Without them, or where they are missing, the system's are linked."""


def instruction_sets(compiler: list[str]) -> dict[str, list[str]]:
    """Flags for each instruction set of the machine that a compiler builds for.

    Apple's compiler builds for several machines in one call. Its -Xarch_MACHINE limits a flag to
    one of them, and ONLY_FOR leaves block.cpp empty for the others."""
    target = target_machine(compiler)
    sets = {}
    for line in (KERNELS / "instruction_sets.txt").read_text(encoding="utf-8").splitlines():
        name, machine, *flags = line.split()
        if sys.platform == "darwin":
            limited = [part for flag in flags for part in (f"-Xarch_{machine}", flag)]
            sets[name] = limited if machine == "any" else [*limited, f"-DONLY_FOR=__{machine}__"]
        elif machine in ("any", target):
            sets[name] = flags
    return sets


def target_machine(compiler: list[str]) -> str:
    """Machine that a compiler builds for: another one than this if it is a cross compiler."""
    machine = platform.machine()
    with suppress(OSError, subprocess.SubprocessError):
        command = [*compiler, "-dumpmachine"]
        target = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        machine = target.stdout.strip().split("-")[0] or machine
    return machine.lower().replace("amd64", "x86_64")


class BuildLibrary(build_ext):
    """A plain shared library in the place of an extension module."""

    def build_extension(self, ext: Extension) -> None:
        errors = []
        for threads in "-fopenmp", "-pthread":  # a compiler may have no OpenMP
            try:
                return self._build(ext, threads)
            except (BaseError, CompileError, LinkError) as error:
                errors.append(reason_of(error))
        with suppress(FileNotFoundError):  # compiled from earlier sources
            Path(self.get_ext_fullpath(ext.name)).unlink()
        self.extensions.remove(ext)  # so that nothing is copied into the package
        _warn(WITHOUT_KERNELS.format(reason=errors[0], python=sys.executable))

    def _build(self, ext: Extension, threads: str) -> None:
        objects = []
        for source in SOURCES:
            objects += self._compile(source, "shared", [threads])
        for name, flags in instruction_sets(self._compiler()).items():
            objects += self._compile("block.cpp", name, [*flags, f"-DKERNELS={name}"])
        for runtime in RUNTIMES:
            with suppress(LinkError):
                return self._link(ext, objects, [threads, *runtime])
        self._link(ext, objects, [threads])

    def _compiler(self) -> list[str]:
        """Command that compiles C++, without the flags of a call."""
        compiler = self.compiler
        return getattr(compiler, "compiler_so_cxx", None) or compiler.compiler_so

    def _link(self, ext: Extension, objects: list[str], flags: list[str]) -> None:
        path = self.get_ext_fullpath(ext.name)
        self.compiler.link_shared_object(objects, path, extra_postargs=flags, target_lang="c++")

    def _compile(self, source: str, name: str, flags: list[str]) -> list[str]:
        folder = Path(self.build_temp) / name
        folder.mkdir(parents=True, exist_ok=True)
        return self.compiler.compile(
            [str(KERNELS / source)],
            output_dir=str(folder),
            include_dirs=[str(KERNELS)],
            extra_postargs=[*FLAGS, *flags],
        )

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))


class TagWheel(bdist_wheel):
    """Tag the wheel by its platform if it holds the library, and by no platform otherwise."""

    def run(self) -> None:
        self.run_command("build_ext")
        self.distribution.ext_modules = self.get_finalized_command("build_ext").extensions
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        _, _, system = super().get_tag()
        return "py3", "none", "any" if self.root_is_pure else system


def reason_of(error: Exception) -> str:
    """First line of an error of the compiler, with its name in the place of its whole command."""
    return re.sub(r"\['(.*?)'.*\]", r"\1", str(error).splitlines()[0]).rstrip(".")


def _warn(text: str) -> None:
    """Print where pip does not hide it: on the terminal, if there is one."""
    sys.stderr.write(text)
    with suppress(OSError), Path("/dev/tty").open("w", encoding="utf8") as terminal:
        if not os.isatty(2):
            terminal.write(text)


if __name__ == "__main__":
    library = Extension("regard.kernels.libkernels", [])
    setup(
        ext_modules=[] if sys.platform == "win32" else [library],
        cmdclass={"build_ext": BuildLibrary, "bdist_wheel": TagWheel},
    )
