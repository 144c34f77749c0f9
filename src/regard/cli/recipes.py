"""`regard recipes`: list the recipes, print one, or estimate the cost of training."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro

from regard import recipes
from regard.cli.options import parse
from regard.config import resolve
from regard.recipes.published import (
    PUBLISHED,
    SOURCE,
    SYSTEMS,
    TERAFLOPS,
    PrintedCost,
    PublishedCost,
)

if TYPE_CHECKING:
    from regard.tasks.cost import Cost

EXPLAINED = """\
FLOPs are those of training, estimated without data: a token costs six FLOPs for each weight that it
is multiplied by, two in the forward pass and four in the backward pass. Half of a batch's tokens
are source tokens, padding counts as words do, and attention's own products (1 to 4 %) are left
out. Published FLOPs are those that the GPUs could compute in the training time."""


@dataclass(frozen=True)
class Options:
    """List the recipes, or print all fields of one recipe with their values."""

    recipe: tyro.conf.Positional[str | None] = None
    """Name or file of a recipe (default: list all recipes)."""
    cost: bool = False
    """Print the number of parameters and the FLOPs of training instead."""


def run(arguments: list[str]) -> None:
    """List the recipes or print one."""
    options = parse(Options, arguments, "regard recipes")
    names = recipes.names() if options.recipe is None else [options.recipe]
    if options.cost:
        from regard.pipeline.cost import cost_of

        for name in names:
            cost = cost_of(recipes.load(recipes.find(name)))
            lines = "\n".join([*_lines(cost), *_published(name, cost)])
            print(f"{name}\n{textwrap.indent(lines, '    ')}")
        if options.recipe is None:
            print(f"\nPublished FLOPs of training ({SOURCE}):")
            for system, costs in SYSTEMS.items():
                print(f"  {system:18}  {_printed(costs)}")
        print(f"\n{EXPLAINED}")
        return
    if options.recipe is not None:
        print(recipes.dump(resolve(recipes.load(recipes.find(options.recipe)))), end="")
        return
    for group, members in recipes.GROUPS.items():
        print(f"{group}:")
        for name in members:
            print(f"  {name:22}  {recipes.title(recipes.find(name))}")
        print()
    print("`regard recipes NAME` prints a whole recipe, `regard train NAME` trains it.")


def _lines(cost: Cost) -> list[str]:
    sizes = sorted({cost.sizes.source, cost.sizes.target}, reverse=True)
    words = " and ".join(f"{size:,}" for size in sizes)
    assumed = ", assumed: only the data gives it" if cost.sizes.is_assumed else ""
    lines = [f"{cost.num_parameters:,} parameters (vocabulary {words}{assumed})"]
    if cost.update is None:
        pair = 1000 * (cost.source_token + cost.target_token)
        lines.append(f"{pair:.1e} FLOPs for 1,000 tokens of each side")
    else:
        lines.append(f"{cost.update:.1e} FLOPs for an update of {cost.batch_tokens:,} tokens")
    if cost.training is not None:
        lines[-1] += f", {cost.training:.1e} for {cost.num_updates:,} updates"
    return lines


def _printed(costs: tuple[PublishedCost | PrintedCost, ...]) -> str:
    """Return the published FLOPs of a system with the GPUs and the hours that they stand for."""
    parts = []
    for cost in costs:
        time = (
            f" ({cost.num_devices} {cost.device}, {cost.hours:g} hours)"
            if isinstance(cost, PublishedCost)
            else ""
        )
        parts.append(f"{cost.languages} {cost.flops:.1e}{time}")
    return "; ".join(parts) or "none"


def _published(name: str, cost: Cost) -> Iterator[str]:
    """Yield a line for each published cost of a recipe: the capacity of the GPUs over the training
    time, and the share of it that the FLOPs of the recipe are."""
    for published in PUBLISHED.get(name, ()):
        share = (
            f"; the recipe takes {cost.training / published.flops:.0%} of them"
            if cost.training
            else ""
        )
        yield (
            f"{published.flops:.1e} FLOPs published for {published.languages}: "
            f"{published.num_devices} {published.device} for {published.hours:g} hours at "
            f"{TERAFLOPS[published.device]} teraFLOPs a second ({SOURCE}){share}"
        )
