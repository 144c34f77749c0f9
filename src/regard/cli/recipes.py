"""`regard recipes`: what there is, and what is in it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import tyro

from regard import recipes


@dataclass(frozen=True)
class Options:
    """List the recipes, or print one whole: every field with its value."""

    recipe: tyro.conf.Positional[str | None] = None
    """A recipe's name or file."""


def run(arguments: list[str]) -> None:
    """List the recipes or show one."""
    options = tyro.cli(Options, args=arguments, prog="regard recipes")
    if options.recipe is not None:
        print(recipes.dump(recipes.load(recipes.find(options.recipe))), end="")
        return
    for name in recipes.names():
        about = recipes.load(recipes.find(name)).about
        print(f"{name}\n{textwrap.indent(textwrap.fill(about, 78), '    ')}")
