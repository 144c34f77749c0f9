"""Rows of a table that are no examples: comments, summaries at its end, and a second table below.

Each rule is conservative, because a row that is left out is lost for training. Recognition and
reading use the same rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice

from regard.data.files.sides import is_side
from regard.data.files.tables import Row, is_blank
from regard.data.recognition.decimals import NumberForm, is_missing, may_be_number
from regard.data.recognition.header import is_usual_name
from regard.names import Fault

NUM_ROWS = 200
"""Number of rows from which the form of a table is taken."""
FEW_ROWS = 20
"""Number of rows below which rows with few cells are no summaries."""
MIN_ROWS = 5
"""Number of rows below which no row is left out."""
NUM_ENDS = 8
"""Number of rows at the end among which summaries are searched."""
MAX_SUMMARIES = 5
"""Largest number of summaries."""
MAX_SHORT = 3
"""Largest number of summaries that have no name of a summary as first cell."""
MAX_COMMENTS = 0.02
"""Largest share of rows that begin as comments do."""
COMMENT = re.compile(r"(#+|--+|//+|%+|;+)\s+\S+\s+\S")
"""Beginning of a comment of at least two words."""
WORDS = (
    "total totals sum mean average avg median min max minimum maximum std count overall "
    "grand_total gesamt summe insgesamt mittelwert durchschnitt gesamtsumme somme moyenne "
    "total_général totale somma media suma promedio total_general soma média razem średnia итого "
    "всего среднее сумма toplam ortalama totaal gemiddelde summa medel yhteensä celkem összesen "
    "合计 总计 总和 平均 合計 総計 總計 平均値 합계 총계 평균 कुल योग औसत মোট "
    "المجموع مجموع الإجمالي إجمالي المتوسط جمع میانگین סך_הכל סה״כ σύνολο μέσος_όρος "
    "общо всичко укупно усього разом tổng tổng_cộng jumlah รวม ยอดรวม"
)
CHUNK = 256
"""Number of rows that are tested at once."""
RULE = re.compile(r"[-=_+:*.…~]{3,}|…")
"""Cell of a line that divides a table, or stands for rows that are not shown."""
UNUSUAL = re.compile(r"[#/%;\s=_+:*.…~-]")
"""First character of a comment, of a line that divides a table or of a blank row."""
SUBTOTAL_WORDS = "subtotal sub-total subtotals zwischensumme sous-total subtotale 小计 小計 소계"
SUMMARIES = frozenset(word.replace("_", " ") for word in f"{WORDS} {SUBTOTAL_WORDS}".split())
"""First cells of summaries, in lower case."""
SUBTOTALS = frozenset(
    change(word)
    for word in SUBTOTAL_WORDS.split()
    for change in (str.lower, str.title, str.capitalize, str.upper)
)
"""First cells of summaries that also stand inside a table."""


@dataclass(frozen=True)
class TableShape:
    """Form of a table, from its first rows."""

    rows: tuple[Sequence[str], ...]
    """First rows without blank ones, a header included."""

    @cached_property
    def columns(self) -> list[list[str]]:
        """Cells below the first row, by columns."""
        width = max(map(len, self.rows), default=0)
        body = [row for row in self.rows[1:] if not _begins_comment(row)]
        return [[row[place] for row in body if len(row) > place] for place in range(width)]

    @cached_property
    def numbers(self) -> list[int]:
        """Columns of numbers."""
        forms = (NumberForm.of([cell.strip() for cell in cells]) for cells in self.columns)
        return [place for place, form in enumerate(forms) if form.fits]

    @cached_property
    def usual(self) -> int:
        """Number of filled cells that most rows have."""
        return Counter(map(_num_filled, self.rows)).most_common(1)[0][0]

    @cached_property
    def has_comments(self) -> bool:
        """Whether so few rows begin as comments do that these are comments."""
        return self._are_few(sum(map(_begins_comment, self.rows)))

    @cached_property
    def has_lower_words(self) -> bool:
        """Whether most first cells are single words in lower case, as in a dictionary."""
        words = self.columns[0]
        return 2 * sum(word.islower() and len(word.split()) == 1 for word in words) > len(words)

    def is_comment(self, row: Sequence[str]) -> bool:
        """Return whether a row is a comment that has a delimiter. No other cell begins as a comment
        does, or is the cell of another row in its column."""
        if not (_begins_comment(row) and self.has_comments):
            return False
        others = [(place, cell) for place, cell in enumerate(row) if place and cell.strip()]
        return not any(
            COMMENT.match(cell) or (place < len(self.columns) and cell in self.columns[place])
            for place, cell in others
        )

    def is_rule(self, row: Sequence[str]) -> bool:
        """Return whether all filled cells are lines of punctuation, as few rows have: a rule below
        the header, or `...` in place of rows."""
        return _is_rule(row) and self._are_few(sum(map(_is_rule, self.rows)))

    def _are_few(self, num_rows: int) -> bool:
        return num_rows <= max(2, MAX_COMMENTS * len(self.rows))

    def is_summary(self, row: Sequence[str]) -> bool:
        """Return whether the first filled cell of a row is the name of a summary, and all others
        are numbers, one of them in a column of numbers."""
        filled = [(place, cell.strip()) for place, cell in enumerate(row) if cell.strip()]
        if len(filled) < 2 or not _names_summary(filled[0][1]):
            return False
        if filled[0][1].islower() and self.has_lower_words:
            return False
        are_numbers = all(may_be_number(cell) or is_missing(cell) for _, cell in filled[1:])
        return are_numbers and any(place in self.numbers for place, _ in filled[1:])

    def is_short(self, row: Sequence[str]) -> bool:
        """Return whether a row has less than half the usual cells, and a blank first cell or the
        name of a summary."""
        is_named = any(map(_names_summary, row)) or not "".join(row[:1]).strip()
        return len(self.rows) >= FEW_ROWS and 2 * _num_filled(row) < self.usual and is_named

    def is_header(self, row: Sequence[str]) -> bool:
        """Return whether a row below a blank one names the columns of another table: texts above
        columns of numbers, or usual names in half of its cells."""
        filled = [(place, cell.strip()) for place, cell in enumerate(row) if cell.strip()]
        if len(filled) < 2 or any(may_be_number(cell) or is_missing(cell) for _, cell in filled):
            return False
        num_names = sum(is_usual_name(cell) for _, cell in filled)
        return any(place in self.numbers for place, _ in filled) or 2 * num_names >= len(filled)

    @cached_property
    def first_names(self) -> frozenset[str]:
        """Cells of the first row if these are at least two different usual names of columns or
        sides of pairs; otherwise none."""
        cells = self.rows[0]
        are_names = all(is_usual_name(cell) or is_side(cell.strip()) for cell in cells)
        is_different = len(set(cells)) == len(cells) > 1
        return frozenset(cells) if are_names and is_different else frozenset()

    @cached_property
    def other_starts(self) -> frozenset[str]:
        """First cells that a row of another kind may have."""
        return self.first_names | SUBTOTALS

    def is_reordered(self, row: Sequence[str]) -> bool:
        """Return whether a row has the names of the first row in another order."""
        return (
            row[0] in self.first_names and self.first_names == set(row) and not self.is_first(row)
        )

    def is_first(self, row: Sequence[str]) -> bool:
        """Return whether a row is the first row again, apart from case and spaces."""
        return _plain(row) == _plain(self.rows[0])


def marked(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows in constant memory. Rows that are no examples have a fault."""
    rows = iter(rows)
    first = list(islice(rows, NUM_ROWS))
    used = tuple(row.cells for row in first if not row.fault and not is_blank(row.cells))
    comments = next((place for place, row in enumerate(used) if not _begins_comment(row)), 0)
    shape = TableShape(used[comments:])
    rows = chain(first, rows)
    return _marked(shape, rows) if len(shape.rows) >= MIN_ROWS else rows


def without_other_rows(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """Return the rows of a table, of which the first is no header, that are examples."""
    examples = [row for row in marked(Row(tuple(cells), 0) for cells in rows) if not row.fault]
    return rows if len(examples) == len(rows) else [row.cells for row in examples]


def _marked(shape: TableShape, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows with faults; summaries are searched among the last ones."""
    ends = list[Row]()
    for chunk in _without_other_tables(shape, rows):
        ends += chunk
        yield from ends[:-NUM_ENDS]
        del ends[:-NUM_ENDS]
    yield from _without_summaries(shape, ends)


def _without_other_tables(shape: TableShape, rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Yield chunks of the rows; comments and rows of a second table have a fault."""
    is_below_blank, is_other, num_rows = False, False, 0
    while chunk := list(islice(rows, CHUNK)):
        firsts = [row.cells[0] if row.cells else " " for row in chunk]
        starts = "".join([first[:1] or " " for first in firsts])
        is_usual = UNUSUAL.search(starts) is None and shape.other_starts.isdisjoint(firsts)
        if is_usual and not (is_below_blank or is_other):
            num_rows += len(chunk)
            yield chunk  # one test of the joined characters is far faster than a test of each
            continue
        for place, row in enumerate(chunk):
            if row.fault:
                continue
            if is_blank(row.cells):
                is_below_blank = True
                continue
            fault: Fault | None = None
            if shape.is_comment(row.cells) or shape.is_rule(row.cells):
                fault = "comment"
            elif row.cells[0].strip() in SUBTOTALS and shape.is_summary(row.cells):
                fault = "summary"
            elif (is_below_blank or is_other) and shape.is_first(row.cells):
                is_below_blank, is_other, fault = (
                    False,
                    False,
                    "repeated header" if is_other else None,
                )
            else:
                is_header = is_below_blank and shape.is_header(row.cells)
                is_other |= num_rows >= MIN_ROWS and (is_header or shape.is_reordered(row.cells))
                is_below_blank = False
            num_rows += len(row.cells) > 1 and _num_filled(row.cells) > 1
            if is_other:
                fault = "other table"
            chunk[place] = replace(row, fault=fault) if fault else row
        yield chunk


def _without_summaries(shape: TableShape, rows: list[Row]) -> list[Row]:
    """Return the last rows of a table. Summaries at the end have a fault."""
    num_summaries = num_short = 0
    for place in range(len(rows) - 1, -1, -1):
        row = rows[place]
        if row.fault or _num_filled(row.cells) < min(2, shape.usual):
            continue  # a blank row, or a note below the table
        is_named = shape.is_summary(row.cells)
        num_short += not is_named and shape.is_short(row.cells)
        num_summaries += 1
        is_short = num_short <= MAX_SHORT and shape.is_short(row.cells)
        if num_summaries > MAX_SUMMARIES or not (is_named or is_short):
            break
        rows[place] = replace(row, fault="summary")
    return rows


def _begins_comment(row: Sequence[str]) -> bool:
    """Return whether a row of several filled cells begins as a comment does."""
    return bool(row) and COMMENT.match(row[0].lstrip()) is not None and _num_filled(row) > 1


def _is_rule(row: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in row if cell.strip()]
    return len(filled) > 1 and all(map(RULE.fullmatch, filled))


def _names_summary(cell: str) -> bool:
    """Return whether a cell is the name of a summary, apart from an addition in brackets or after a
    colon."""
    return re.sub(r"\s*[(\[:=].*", "", cell.strip()).lower() in SUMMARIES


def _num_filled(row: Sequence[str]) -> int:
    return sum(1 for cell in row if cell.strip())


def _plain(row: Sequence[str]) -> list[str]:
    return [cell.strip().lower() for cell in row]
