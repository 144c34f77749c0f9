"""Limits on the instruction set of a benchmark, so that a CPU can be measured as an older one.

Every library reads its variable when it is loaded. A limit therefore holds for a new process only:
for the children of a benchmark (`variables`), or for the benchmark itself, which starts again
(`restart`). A limited CPU has the instructions of an older one, but not its caches and clock.
"""

import argparse
import os
import sys

LIMITS = {
    "avx512": {
        "REGARD_INSTRUCTION_SET": "avx512",
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "CT2_FORCE_CPU_ISA": "AVX512",
    },
    "avx2": {
        "REGARD_INSTRUCTION_SET": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "CT2_FORCE_CPU_ISA": "AVX2",
    },
    "baseline": {
        "REGARD_INSTRUCTION_SET": "baseline",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "CT2_FORCE_CPU_ISA": "GENERIC",
    },
}
"""Variables of Regard, PyTorch, oneDNN, MKL and CTranslate2. No limit includes bfloat16
instructions."""


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instruction-set", choices=LIMITS, help="largest set that is used")


def variables(name: str | None) -> dict[str, str]:
    """Return the environment variables of a limit; none without a limit."""
    return {} if name is None else dict(LIMITS[name])


def restart(name: str | None) -> None:
    """Start this program again with a limit, unless the limit holds already."""
    limits = variables(name)
    if limits.items() <= os.environ.items():
        return
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **limits})


def has_bfloat16(name: str | None) -> bool:
    """Whether this CPU has bfloat16 instructions and the limit, if any, allows them."""
    from regard.numerics.linear import has_fast_bfloat16

    return name is None and has_fast_bfloat16("cpu")
