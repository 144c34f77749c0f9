"""Limit on the CPU instruction sets that Regard uses, for tests as on another machine.

The environment variable REGARD_INSTRUCTION_SET names the largest set that the kernels and the
matrix products may use. It cannot add instructions that the CPU lacks. PyTorch and its libraries
have variables of their own, which `scripts/other-cpus` sets together with this one.
"""

from __future__ import annotations

import os

VARIABLE = "REGARD_INSTRUCTION_SET"

LANES = {"baseline": 4, "avx2": 8, "avx512": 16}
"""Instruction sets and the number of float32 values in one of their vectors. None of them includes
bfloat16 instructions, so a limit always excludes these."""


def limit() -> str | None:
    """Return the largest instruction set that may be used, or None if there is no limit.

    Raises ValueError if the environment variable names an unknown set."""
    name = os.environ.get(VARIABLE, "").strip().lower()
    if name and name not in LANES:
        raise ValueError(
            f"{VARIABLE}={name!r}: expected one of {', '.join(LANES)}, or unset for no limit"
        )
    return name or None


def max_lanes() -> int | None:
    """Return the number of lanes of the largest set that may be used; None without a limit."""
    name = limit()
    return None if name is None else LANES[name]


def allows_bfloat16() -> bool:
    """Whether bfloat16 instructions may be used."""
    return limit() is None
