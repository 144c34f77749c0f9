"""Report of `make gpu`: one JSON file and one Markdown page, written again and again."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SHOWN = 20
"""Number of failures with their text on the page. The JSON file has all of them."""


@dataclass
class Part:
    """Result of a part."""

    status: str
    """passed, failed, or stopped at its limit."""
    seconds: float
    output: str = ""
    """End of the output of a part that did not pass."""


@dataclass
class Report:
    """Results of all parts so far."""

    folder: Path
    work: Path
    """Folder of the files that the parts write."""
    host: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    tests: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self) -> None:
        """Read the files that the parts have written."""
        lines = self.work / "tests.jsonl"
        if lines.exists():
            whole = lines.read_text("utf8").rpartition("\n")[0]  # the last line may be unfinished
            self.tests = [json.loads(line) for line in whole.splitlines()]
        for path in sorted(self.work.glob("figures-*.json")):
            name = path.stem.removeprefix("figures-")
            with suppress(ValueError):  # the part is writing it
                self.figures[name] = json.loads(path.read_text("utf8"))

    def failures(self) -> list[dict[str, str]]:
        """Return the name and the text of each failure."""
        tests = [
            {"name": each["test"], "text": each["text"]}
            for each in self.tests
            if each["outcome"] == "failed"
        ]
        figures = [
            {"name": f"{part}: {row}", "text": str(values["error"])}
            for part, rows in self.figures.items()
            for row, values in rows.items()
            if "error" in values
        ]
        parts = [
            {"name": name, "text": f"{part.status}\n{part.output}"}
            for name, part in self.parts.items()
            if part.status != "passed"
        ]
        return [*tests, *figures, *parts]

    def write(self) -> None:
        """Write both files from all that is known."""
        self.read()
        values = {**asdict(self), "failures": self.failures()}
        del values["folder"], values["work"]
        text = json.dumps(values, indent=1, ensure_ascii=False)
        (self.folder / "gpu.json").write_text(text + "\n", encoding="utf8")
        (self.folder / "gpu.md").write_text(self.page(), encoding="utf8")

    def page(self) -> str:
        """Return the Markdown page."""
        blocks = [
            f"# Regard on {self.host.get('device', 'an unknown device')}",
            table(("host", ""), self.host.items()),
            table(
                ("part", "status", "seconds"),
                ((name, part.status, part.seconds) for name, part in self.parts.items()),
            ),
            *self._tests(),
            *self._failures(),
        ]
        for part, rows in self.figures.items():
            blocks += [f"## {part.capitalize()}", *figures_of(rows)]
        return "\n\n".join(blocks) + "\n"

    def _tests(self) -> list[str]:
        counts = Counter(each["outcome"] for each in self.tests)
        skipped = Counter(each["text"] for each in self.tests if each["outcome"] == "skipped")
        notes = [pair for each in self.tests for pair in each["properties"].items()]
        blocks = ["## Tests", ", ".join(f"{number} {name}" for name, number in counts.items())]
        if skipped:
            blocks.append(table(("skipped because", "tests"), skipped.items()))
        if notes:
            blocks.append(table(("note", ""), sorted(set(notes))))
        return blocks if self.tests else []

    def _failures(self) -> list[str]:
        failures = self.failures()
        if not failures:
            return ["## Failures", "None."]
        blocks = ["## Failures", table(("failure",), ((each["name"],) for each in failures))]
        for each in failures[:SHOWN]:
            blocks.append(f"### {each['name']}\n\n```\n{each['text'][-2000:]}\n```")
        return blocks


def figures_of(rows: dict[str, dict[str, Any]]) -> list[str]:
    """Return a table of figures, and one for each profile."""
    plain = {name: row for name, row in rows.items() if "kernels" not in row}
    columns = list(dict.fromkeys(key for row in plain.values() for key in row))
    lines = ((name, *(row.get(column) for column in columns)) for name, row in plain.items())
    blocks = [table(("", *columns), lines)]
    for name, row in rows.items():
        if "kernels" in row:
            kernels = (each.values() for each in row["kernels"])
            blocks += [f"### {name.capitalize()}", table(("kernel", "calls", "ms"), kernels)]
    return blocks


def table(head: tuple[str, ...], rows: Any) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return " ".join(str(value).replace("|", "\\|").split())
