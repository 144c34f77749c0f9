"""Search options, whose defaults are those of the run's recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from regard.cli.output import warn
from regard.cli.parsing.options import parse as parse_options
from regard.config.unused import ONE_HYPOTHESIS, Unused
from regard.inference.tables import check_lines_output
from regard.runs.ensemble import all_members, members_of
from regard.runs.folder import RunFolder

Options = TypeVar("Options")
"""Options of a command, with fields `run` and `search`."""


def parse(options: type[Options], arguments: list[str], prog: str, remedy: str = "") -> Options:
    """Parse the options of a command. Search options default to the recipe of the run. The remedy
    is added to a message about unexpected arguments that are no options. The folder of an ensemble
    is replaced by its first run, and the other members come first in `ensemble`."""
    named: Any = parse_options(options, arguments, prog, remedy=remedy)
    takes_ensemble = hasattr(named, "ensemble")
    run = members_of(named.run)[0] if takes_ensemble else named.run
    default = replace(named, search=RunFolder(run).experiment().search)
    chosen: Any = parse_options(options, arguments, prog, default)
    if takes_ensemble:
        run, *rest = all_members((chosen.run, *chosen.ensemble))
        chosen = replace(chosen, run=run, ensemble=tuple(rest))
    search, num_best = chosen.search, getattr(chosen, "nbest", 1)
    if num_best > 1:
        lines = f"--nbest {num_best} writes {num_best} lines for a source"
        check_lines_output(chosen.output, lines)
    if num_best > search.beam:
        warn(
            f"--nbest {num_best} searches with a beam of {num_best} in place of {search.beam}, so "
            f"the best outputs may differ: set --beam {num_best} for the same outputs without "
            "--nbest"
        )
        chosen = replace(chosen, search=replace(search, beam=num_best))
    if search.coverage_penalty and max(search.beam, num_best) == 1:
        warn(str(Unused("search.coverage_penalty", ONE_HYPOTHESIS)))
    return chosen
