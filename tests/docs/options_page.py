"""The tables of docs/options.md, made from the annotations and docstrings of the fields.

`python -m tests.docs.options_page` updates the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from regard.cli.parsing.help import field_texts
from regard.config import (
    DATA_SECTIONS,
    KINDS,
    MODELS,
    AttentionConfig,
    DecoderAttentionConfig,
    ExpertsConfig,
    SearchConfig,
    TrainingConfig,
)
from regard.config.checks import field_types, find_problem, format_value
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "options.md"
START = "## Values\n"
PARTS = {
    (part, kind): record
    for parts in KINDS.values()
    for part, kinds in parts.items()
    for kind, record in kinds.items()
}
TITLES = {
    **{f"data, task {task}": ("data", record) for task, record in DATA_SECTIONS.items()},
    **{f"model, task {task}": ("model", record) for task, record in MODELS.items()},
    **{
        f"model.{part}, kind {kind}": (f"model.{part}", record)
        for (part, kind), record in sorted(PARTS.items(), key=lambda item: item[0][0] != "encoder")
    },
    "attention of a recurrent decoder": ("model.decoder.attention", DecoderAttentionConfig),
    "attention of a Transformer or a head": ("attention", AttentionConfig),
    "experts of a Transformer or a recurrent part": ("experts", ExpertsConfig),
    "training": ("training", TrainingConfig),
    "search": ("search", SearchConfig),
}


def tables() -> str:
    """One table for each section of a recipe."""
    return "\n".join(
        "\n".join(
            [
                f"### {title}",
                "",
                "| field | values | default | meaning |",
                "|---|---|---|---|",
                *rows,
                "",
            ]
        )
        for title, rows in (
            (title, list(_rows(section, record))) for title, (section, record) in TITLES.items()
        )
    )


def _rows(section: str, record: Any) -> Iterator[str]:
    texts = field_texts(record)
    for field in fields(record):
        hint = field_types(record)[field.name]
        if is_dataclass(hint) or field.default is MISSING:
            continue
        values = (
            find_problem(hint, MISSING).removeprefix("expected ").replace(" (pathlib.Path)", "")
        )
        text = texts[field.name].replace("|", "\\|").replace("<", "\\<")
        yield f"| `{section}.{field.name}` | {values} | {_default(field)} | {text} |"


def _default(field: Field[Any]) -> str:
    value = field.default if field.default is not MISSING else None
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else (value if isinstance(value, str) else format_value(value))
    )


if __name__ == "__main__":
    head = PAGE.read_text(encoding="utf8").partition(START)[0]
    PAGE.write_text(f"{head}{START}\n{tables()}", encoding="utf8")
