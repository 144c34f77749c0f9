"""`regard recipes`: list the recipes, print one, or estimate the cost of training."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard import recipes
from regard.cli.parsing.help import Positional
from regard.cli.parsing.options import parse
from regard.config import DataConfig, resolve
from regard.recipes.published import (
    PUBLISHED,
    SOURCE,
    SYSTEMS,
    TERAFLOPS,
    PublishedCost,
)

if TYPE_CHECKING:
    from regard.config import Experiment, TrainingConfig
    from regard.tasks.training.cost import Cost

EXPLAINED = f"""\
FLOPs are those of training, estimated without data: a token costs six FLOPs for each weight that it
is multiplied by, two in the forward pass and four in the backward pass. Half of a batch's tokens
are source tokens, padding counts as words do, and attention's own products (1 to 4 %) are left
out. Samples that are rewarded are taken to be as long as references. Published FLOPs
({SOURCE}) are those that the GPUs could compute in the training time."""
SYSTEMS_EXPLAINED = """\
Systems at the sizes of their papers (recipes wmt14-...): FLOPs of one pass over the training pairs,
published FLOPs, and the number of passes that these allow. Assumed: 4.5 million pairs for en-de and
36 million for en-fr (Deep-Att: 12 million), and sentences of 28 subwords (ByteNet: 150 characters,
Deep-Att: 27 words)."""


@dataclass(frozen=True)
class Options:
    """List the recipes, or print all fields of one recipe with their values."""

    recipe: Positional[str | None] = None
    """Name or file of a recipe (default: list all recipes)."""
    cost: bool = False
    """Print the number of parameters and the FLOPs of training instead."""


def run(arguments: list[str]) -> None:
    """List the recipes or print one."""
    options = parse(Options, arguments, "regard recipes")
    names = recipes.names() if options.recipe is None else [options.recipe]
    if options.cost:
        from regard.pipeline.cost import cost_of

        costs = {}
        for name in names:
            experiment = recipes.load(recipes.find(name))
            costs[name] = cost_of(experiment)
            lines = "\n".join(
                [
                    *_lines(costs[name]),
                    *_of_objective(experiment.training, costs[name]),
                    *_published(name, experiment, costs[name]),
                ]
            )
            print(f"{name}\n{textwrap.indent(lines, '    ')}")
        if options.recipe is None:
            print(f"\n{SYSTEMS_EXPLAINED}\n")
            print("\n".join(_systems(costs)))
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
    sizes = f" ({cost.sizes})" if str(cost.sizes) else ""
    lines = [f"{cost.num_parameters:,} parameters{sizes}"]
    pair = 1000 * (cost.source_token + cost.target_token)
    if not pair:  # a bag of words is multiplied by no matrix
        return lines
    if cost.update is None:
        lines.append(f"{pair:.1e} FLOPs for 1,000 tokens of each side")
    else:
        lines.append(f"{cost.update:.1e} FLOPs for an update of {cost.batch_tokens:,} tokens")
    if cost.training is not None:
        lines[-1] += f", {cost.training:.1e} for {cost.num_updates:,} updates"
    return lines


def _of_objective(training: TrainingConfig, cost: Cost) -> Iterator[str]:
    """Yield a line about the FLOPs of an objective that costs more than the likelihood."""
    if training.objective == "distillation":
        yield "without the teachers, which read every batch too"
    elif (factor := cost.times_likelihood(training)) > 1:
        name = training.objective if training.has_rewards else "R-Drop"
        yield f"these are for the likelihood: {name} takes {factor:.1f} times as many"


def _published(name: str, experiment: Experiment, cost: Cost) -> Iterator[str]:
    """Yield a line for each published cost of a recipe: the capacity of the GPUs over the training
    time, and the share of it that the FLOPs of the recipe are, if it has these languages."""
    data, languages = experiment.data, None
    if isinstance(data, DataConfig):
        languages = f"{data.source_language}-{data.target_language}"
    for published in PUBLISHED.get(name, ()):
        line = f"{published.flops:.1e} FLOPs published for {published.languages}"
        if isinstance(published, PublishedCost):
            line += (
                f": {published.num_devices} {published.device} for {published.hours:g} hours at "
                f"{TERAFLOPS[published.device]} teraFLOPs a second"
            )
        if cost.training is not None and published.languages == languages:
            line += f"; the recipe takes {cost.training / published.flops:.0%} of them"
        yield line


def _systems(costs: Mapping[str, Cost]) -> Iterator[str]:
    """Yield the lines of a table of all systems, given the costs of all recipes."""
    names = ("languages", "parameters", "one pass", "published", "passes")
    yield f"{'system':18}" + "".join(f"{name:>12}" for name in names)
    for system in SYSTEMS:
        cost = costs[system.recipe]
        published = {training.languages: training.flops for training in system.costs}
        for languages in system.pairs:
            one_pass = system.one_pass(languages, cost.source_token + cost.target_token)
            flops = published.get(languages)
            columns = (
                languages,
                f"{cost.num_parameters / 1e6:,.0f} M",
                f"{one_pass:.1e}",
                "none" if flops is None else f"{flops:.1e}",
                "" if flops is None else f"{flops / one_pass:,.0f}",
            )
            yield f"{system.name:18}" + "".join(f"{column:>12}" for column in columns).rstrip()
