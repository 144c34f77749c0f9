"""Tables of docs/options.md, generated from the annotations of the fields.

Run `python -m tests.docs.options_page` to update the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from regard.config import FAMILIES, TASKS, AttentionConfig, SearchConfig, TrainingConfig
from regard.config.checks import expected, hints_of, shown
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "options.md"
START = "## Values\n"
TITLES = {
    **{f"data, task {task}": ("data", record) for task, record in TASKS.items()},
    **{f"model, family {family}": ("model", record) for family, record in FAMILIES.items()},
    "model.attention": ("model.attention", AttentionConfig),
    "training": ("training", TrainingConfig),
    "search": ("search", SearchConfig),
}


def tables() -> str:
    """Return one table for each section of a recipe."""
    return "\n".join(
        "\n".join([f"### {title}", "", "| field | values | default |", "|---|---|---|", *rows, ""])
        for title, rows in (
            (title, list(_rows(section, record))) for title, (section, record) in TITLES.items()
        )
    )


def _rows(section: str, record: Any) -> Iterator[str]:
    for field in fields(record):
        hint = hints_of(record)[field.name]
        if is_dataclass(hint):
            continue
        values = expected(hint, MISSING).removeprefix("expected ").replace(" (pathlib.Path)", "")
        yield f"| `{section}.{field.name}` | {values} | {_default(field)} |"


def _default(field: Field[Any]) -> str:
    value = field.default if field.default is not MISSING else None
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else (value if isinstance(value, str) else shown(value))
    )


if __name__ == "__main__":
    head = PAGE.read_text(encoding="utf8").partition(START)[0]
    PAGE.write_text(f"{head}{START}\n{tables()}", encoding="utf8")
