"""Progress of a training in a notebook: a bar, and a table of the validations."""

from __future__ import annotations

import time
from html import escape

from regard.training.log import AverageLine, DevLine, EndLine, TrainLine, Validation
from regard.training.schedule import Progress
from regard.viewing.notebook import Output

SECONDS = 0.5
"""Smallest time between two updates of the bar."""
MAX_ROWS = 20
"""Largest number of validations in the table: the last ones."""


class NotebookProgress:
    """Reporter of a training that shows a bar, the training loss and the validations."""

    def __init__(self) -> None:
        self._output = Output()
        self._status = "preparation"
        self._facts = ""
        self._done, self._total = 0, 0
        self._metric = "score"
        self._rows: list[tuple[str, ...]] = []
        self._shown = -SECONDS

    def on_progress(self, label: str, done: int, total: int | None) -> None:
        """Show the progress of the preparation."""
        self._status, self._done, self._total = label, done, total or 0
        self._show()

    def on_update(self, progress: Progress) -> None:
        self._status = f"epoch {progress.epoch}, update {progress.update:,} of {progress.total:,}"
        self._done, self._total = progress.update, progress.total
        self._show()

    def on_train(self, line: TrainLine, progress: Progress) -> None:
        del progress
        self._facts = f"loss {line.loss:.3f}, {line.tokens_per_second:,.0f} tokens/s"
        self._show()

    def on_validation(self, line: DevLine, validation: Validation) -> None:
        del validation
        self._add(line, str(line.epoch))

    def on_average(self, line: AverageLine, validation: Validation) -> None:
        del validation
        self._add(line, "mean weights")

    def on_end(self, line: EndLine) -> None:
        score = "" if line.score is None else f", best dev {self._metric} {line.score:.2f}"
        self._status = f"{line.reason} after {line.update:,} updates, {line.seconds:.0f} s{score}"
        self._facts = ""
        self._show(now=True)

    def _add(self, line: DevLine | AverageLine, epoch: str) -> None:
        loss = "" if line.loss is None else f"{line.loss:.3f}"
        best = "best so far" if line.best else ""
        self._metric = line.metric
        self._rows.append((epoch, f"{line.update:,}", f"{line.score:.2f}", loss, best))
        self._show(now=True)

    def _show(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._shown < SECONDS:
            return
        self._shown = time.monotonic()
        status = ", ".join(filter(None, (self._status, self._facts)))
        self._output.show(self._html(status), self._text(status))

    def _html(self, status: str) -> str:
        value = f' value="{self._done}" max="{self._total}"' if self._total else ""
        bar = f'<progress aria-label="training"{value}></progress> <span>{escape(status)}</span>'
        return f"<div>{bar}{self._table()}</div>"

    def _table(self) -> str:
        if not self._rows:
            return ""
        names = ("epoch", "update", f"dev {self._metric}", "dev loss", "")
        header = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for row in self._rows[-MAX_ROWS:]
        )
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"

    def _text(self, status: str) -> str:
        rows = []
        for epoch, update, score, loss, best in self._rows[-MAX_ROWS:]:
            name = f"epoch {epoch}" if epoch.isdecimal() else epoch
            parts = [name, f"update {update}", f"{self._metric} {score}"]
            parts += [f"dev loss {loss}"] * bool(loss) + [f"({best})"] * bool(best)
            rows.append("  ".join(parts))
        return "\n".join((*rows, status))
