"""Options of commands that search: as the run's recipe says, where a person says nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, TypeVar

import tyro

from regard.cli.options import parse as parse_options
from regard.cli.output import warn
from regard.config import SearchConfig
from regard.config.unused import ONE_HYPOTHESIS, Unused
from regard.runs.folder import RunFolder

SearchFields = Annotated[SearchConfig, tyro.conf.arg(name="")]
"""Every field of the search as an option of its own name."""

Options = TypeVar("Options")
"""A command's own record, with a `run` and a `search`."""


def parse(options: type[Options], arguments: list[str], prog: str) -> Options:
    """The options, with the search of the run that they name as their default."""
    named: Any = parse_options(options, arguments, prog)
    changes: dict[str, Any] = {"search": RunFolder(named.run).experiment().search}
    if hasattr(named, "ensemble"):
        changes["ensemble"] = ()  # the options append to their default
    default = replace(named, **changes)
    chosen: Any = parse_options(options, arguments, prog, default)
    search = chosen.search
    if search.coverage_penalty and max(search.beam, getattr(chosen, "nbest", 1)) == 1:
        warn(str(Unused("search.coverage_penalty", ONE_HYPOTHESIS)))
    return chosen
