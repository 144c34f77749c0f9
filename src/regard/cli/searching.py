"""Options of commands that search: as the run's recipe says, where a person says nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, TypeVar

import tyro

from regard.config import SearchConfig
from regard.pipeline.folder import RunFolder

SearchFields = Annotated[SearchConfig, tyro.conf.arg(name="")]
"""Every field of the search as an option of its own name."""

Options = TypeVar("Options")
"""A command's own record, with a `run` and a `search`."""


def parse(options: type[Options], arguments: list[str], prog: str) -> Options:
    """The options, with the search of the run that they name as their default."""
    named: Any = tyro.cli(options, args=arguments, prog=prog)
    default = replace(named, search=RunFolder(named.run).experiment().search)
    return tyro.cli(options, args=arguments, prog=prog, default=default)
