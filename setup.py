"""Compiles the kernels, once for every instruction set, into a library that
does not depend on Python's version or PyTorch's. Where that fails the package is built without it;
everything else about the build is in pyproject.toml."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

KERNELS = Path("src/regard/kernels")

FLAGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
]


def instruction_sets() -> dict[str, list[str]]:
    """Those of this machine, by name, with the flags that ask for them."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    lines = (KERNELS / "instruction_sets.txt").read_text(encoding="utf-8").splitlines()
    return {name: flags for name, of, *flags in map(str.split, lines) if of in ("any", machine)}


class BuildLibrary(build_ext):
    """A plain shared library in the place of an extension module."""

    def build_extension(self, ext: Extension) -> None:
        try:
            self._build(ext, ["-fopenmp"])
        except (CompileError, LinkError):  # a compiler without OpenMP: it has threads of its own
            self._build(ext, ["-pthread"])

    def _build(self, ext: Extension, threads: list[str]) -> None:
        objects = []
        for source in ("library.cpp", "additive.cpp"):
            objects += self._compile(source, "shared", threads)
        for name, flags in instruction_sets().items():
            objects += self._compile("block.cpp", name, [*flags, f"-DKERNELS={name}"])
        path = self.get_ext_fullpath(ext.name)
        self.compiler.link_shared_object(objects, path, extra_postargs=threads, target_lang="c++")

    def _compile(self, source: str, name: str, flags: list[str]) -> list[str]:
        folder = Path(self.build_temp) / name
        folder.mkdir(parents=True, exist_ok=True)
        return self.compiler.compile(
            [str(KERNELS / source)], output_dir=str(folder), extra_postargs=[*FLAGS, *flags]
        )

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))


library = Extension("regard.kernels.libkernels", [], optional=True)
setup(
    ext_modules=[] if sys.platform == "win32" else [library],
    cmdclass={"build_ext": BuildLibrary},
)
