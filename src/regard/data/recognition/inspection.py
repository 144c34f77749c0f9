"""Inspection of a data file before training: its format, its task and the roles of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from regard.data.files.named_rows import has_json_records
from regard.data.files.samples import sample_of, sample_rows
from regard.data.files.tables import (
    TableSettings,
    column_name,
    column_number,
    show_cells,
    suffix_of,
)
from regard.data.files.workbooks import default_sheet, unread_sheets
from regard.data.recognition import formats
from regard.data.recognition.encodings import script_of
from regard.data.recognition.first_words import are_marked, have_labels_first, split_labels
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.kinds import FEW_ROWS, ColumnKinds
from regard.data.recognition.roles import Roles, assign_roles
from regard.data.recognition.table import Table, numbers_of_columns, open_table
from regard.errors import UserError
from regard.names import TargetKind, TaskName
from regard.storage.files import check_input

MAX_NAMES = 6
"""Number of unused columns, and of other possible targets, that the second line names."""
MAX_LENGTH = 80
"""Largest number of characters of the name of a column in a message."""
LANGUAGES = {
    "GREEK": "el",
    "HEBREW": "he",
    "THAI": "th",
    "HANGUL": "ko",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
}
"""Languages of scripts that only one language usually has."""
UNKNOWN_LANGUAGE = "und"


@dataclass(frozen=True)
class Inspection:
    """Task and columns of a table before training."""

    table: Table
    roles: Roles
    languages: tuple[str, str]
    """Language codes of source and target, as far as their scripts tell."""
    features: tuple[int, ...] = ()
    """Columns of features, from 0."""
    sheet: str = ""
    """Sheet of a workbook that is read."""
    unread_sheets: tuple[str, ...] = ()
    """Sheets of a workbook that are not read."""
    titles: str = ""
    """Line that names the rows above the table; blank if there are none."""

    @property
    def path(self) -> Path:
        """File."""
        return Path(self.table.name)

    @property
    def form(self) -> FileFormat:
        """Format of the file."""
        return self.table.form

    @property
    def header(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.table.header

    @property
    def num_rows(self) -> int:
        """Number of rows that were inspected, without the header."""
        return len(self.table.rows)

    def lines(
        self, recipe: str | None = None, predicted: TargetKind | None = None
    ) -> tuple[str, ...]:
        """Return the lines that training prints: format, task and recipe; roles of the columns;
        rows above the table; the encoding, if it is a guess; and sheets that are not read.
        `recipe` is the one that the user named, if any, and `predicted` the kind of its targets."""
        name, roles = self._name, self.roles
        head = f", sheet {self.sheet}" if self.unread_sheets else ""
        head += ", header" if self.header is not None else ""
        title = f"{self._title(predicted)}, recipe {recipe or roles.recipe}"
        first = f"{name}: {self.form.title}{head}; {title}"
        if recipe is None:
            task = {"translate": "classify"}.get(roles.task, "translate")
            first += f". Otherwise: {roles.alternative or f'--data.task {task}'}"
        lines = [first, self._roles_line(), *([self.titles] if self.titles else [])]
        if not self.table.is_header_certain:
            lines.append(self.first_row_line)
        encoding = self.form.encoding
        if not encoding.is_certain:
            lines.append(
                f"{name}: read as {encoding.name} ({encoding.example!r}); for another encoding: "
                "--data.encoding NAME"
            )
        if self.unread_sheets:
            sheets = ", ".join(self.unread_sheets[:MAX_NAMES])
            lines.append(f"{name}: sheets that are not read: {sheets} (--data.sheet NAME)")
        return tuple(lines)

    @property
    def first_row_line(self) -> str:
        """Line about the first row, with the option for the other decision."""
        name, cells = self._name, show_cells(self.table.first)
        if self.header is None:
            reading, option = "is read as an example; if it names the columns", "--data.header"
        else:
            reading, option = "names the columns; if it is an example", "--data.no-header"
        return f"{name}: the first row ({cells}) {reading}: {option}"

    def _title(self, predicted: TargetKind | None) -> str:
        """Return the task, with the number of rows if not all rows were inspected. If a recipe
        predicts another kind of target than the file has, the task is that of the recipe."""
        title = self.roles.title
        if predicted is not None and predicted != self.roles.fields.get("data.target", "label"):
            return f"{predicted}s"
        if self.num_rows >= self.table.num_rows:
            return title
        title = title.replace(" images)", f" images in {self.num_rows:,} rows)")
        return title.replace(" in ", " in a sample of ")

    def _roles_line(self) -> str:
        """Return the roles of the columns, with the options that change them."""
        roles = self.roles
        if self.form.delimiter is None and self.form.kind == "text":
            return "columns: the first word of each line -> target, the rest -> source"
        used = (roles.source, roles.target, *self.features)
        rest = [number for number in range(self.table.width) if number not in used]
        shown = ", ".join(map(self._shown, rest[:MAX_NAMES]))
        shown += ", …" if len(rest) > MAX_NAMES else ""
        unused = f"; not used: {shown}" if rest else ""
        names = " ".join(map(self._shown, self.features))
        features = f"{names} -> features (--data.feature-columns), " if names else ""
        return (
            f"columns: {self._shown(roles.source)} -> source (--data.source-column), {features}"
            f"{self._shown(roles.target)} -> target (--data.target-column){unused}"
            f"{self._candidates()}"
        )

    def _candidates(self) -> str:
        """Return further columns that could be the target, and the reason why the columns are
        uncertain, as the end of a line."""
        roles = self.roles
        doubt = f". Uncertain: {roles.doubt}" if roles.doubt else ""
        names: dict[str, list[str]] = {}
        for column, noun in list(roles.candidates.items())[:MAX_NAMES]:
            names.setdefault(noun, []).append(self._shown(column))
        shown = ", ".join(f"{', '.join(columns)} ({noun})" for noun, columns in names.items())
        shown += ", …" if len(roles.candidates) > MAX_NAMES else ""
        return f"; other possible targets: {shown}{doubt}" if shown else doubt

    def _shown(self, number: int) -> str:
        """Return a column for a message: its number too if other columns have its name."""
        name, header = self.column(number), self.header or ()
        cell = " ".join(header[number].split()) if number < len(header) else ""
        is_shared = name != cell and cell.isprintable()
        if cell and is_shared:
            return f"{name} ({cell[:40]})"
        return name if len(name) <= MAX_LENGTH else f"{name[:MAX_LENGTH]}…"

    def column(self, number: int) -> str:
        """Return the name of a column, or its number from 1."""
        return column_name(self.header, number)

    @property
    def problem(self) -> str:
        """Reason why training stops, with the option that decides; blank if training can begin."""
        ambiguity = self.roles.ambiguity
        return "" if ambiguity is None else f"{self.table.name}: {ambiguity.describe(self.column)}"

    def fields(self) -> dict[str, str]:
        """Return the fields of the experiment that the file decides, by their full names."""
        fields = dict(self.roles.fields)
        if self.roles.task == "translate":
            fields["data.source_language"], fields["data.target_language"] = self.languages
        return fields | self.columns()

    def columns(self) -> dict[str, str]:
        """Return the columns as fields; none for lines of SOURCE TAB TARGET, or label first."""
        is_text = self.form.kind == "text" and self.header is None
        if not self.roles.is_recognised or (
            is_text and (self.form.delimiter is None or self._in_order)
        ):
            return {}
        last = max(self.roles.source, self.roles.target) + 1
        if last > self.table.width:
            cells = "1 cell" if self.table.width == 1 else f"{self.table.width} cells"
            raise UserError(
                f"{self.path}: the first row has {cells}, and rows below have {last} or more: add "
                "the cells that the first row lacks, or remove the row if it is a title"
            )
        names = {}
        for side, number in (("source", self.roles.source), ("target", self.roles.target)):
            name = names[f"data.{side}_column"] = self.column(number)
            if column_number(name, self.header, self.table.width) not in (number, None):
                raise UserError(
                    f"{self.path}: column {number + 1} has no name of its own, and another column "
                    f"has the name {name!r}: rename the columns"
                )
        return names

    @property
    def _name(self) -> str:
        """Name of the file on one line."""
        return " ".join(self.path.name.split())

    @property
    def _in_order(self) -> bool:
        return (self.roles.source, self.roles.target) == (0, 1)


def can_inspect(path: Path) -> bool:
    """Return whether the path is a file with rows. A pipe cannot be read twice, and JSON files have
    their own readers, apart from arrays of objects."""
    return path.is_file() and (suffix_of(path) != ".json" or has_json_records(path))


def inspect(
    path: Path, settings: TableSettings | None = None, task: TaskName | None = None
) -> Inspection:
    """Return what a file holds, from a sample of its rows. UserError if it cannot be read, has no
    rows or lacks a column that the settings name."""
    status = check_input(path).stat()
    stamp = (status.st_size, status.st_mtime_ns)
    return _inspect(path, settings or TableSettings(), task, stamp)


@lru_cache(maxsize=8)
def _inspect(
    path: Path, settings: TableSettings, task: TaskName | None, stamp: tuple[int, int]
) -> Inspection:
    del stamp  # part of the key: a changed file is inspected again
    form = formats.recognise(path, settings)
    if form.kind == "text" and form.delimiter is None:
        return _label_first(path, form, settings, task)
    table = open_table(path, settings)
    if not table.first:
        raise UserError(f"{path} is empty: expected rows of a source and a target")
    sheets = unread_sheets(path, settings.sheet) if form.kind == "workbook" else ()
    # A sheet may have blank columns beside a table.
    rows = [table.first, *table.rows]
    if not any(len(row) > 1 and (form.kind != "workbook" or any(row[1:])) for row in rows):
        raise _one_column(path, form, table.first, sheets)
    if table.header is not None and not form.has_names:
        formats.check_widths(path, table.header, table.rows)
    inspection = inspect_table(table, settings, task)
    roles = inspection.roles
    if form.dictionary is not None and form.dictionary.has_sounds and task in (None, "translate"):
        roles = Roles("translate", "g2p", 0, 1, "pairs")
    if roles.task == "classify":
        known = None if roles.fields.get("data.target") == "number" else frozenset[str]()
        named = table.with_names_of_labels(roles.target, settings, known)
        if named is not table:
            columns = roles.source, roles.target
            inspection = inspect_table(named, settings, task, columns)
            roles = inspection.roles
    return replace(
        inspection,
        roles=roles,
        sheet=settings.sheet or default_sheet(path) if form.kind == "workbook" else "",
        unread_sheets=sheets,
        titles=formats.titles_line(path, form, settings),
    )


def inspect_table(
    table: Table,
    settings: TableSettings,
    task: TaskName | None = None,
    columns: tuple[int | None, int | None] | None = None,
) -> Inspection:
    """Return the task and the columns of a table, from a sample of its rows. `columns`: source and
    target, by default those of the settings. UserError if the table lacks a column."""
    rows = [row for row in table.rows if row != table.header]
    num_rows = table.num_rows - (len(table.rows) - len(rows))
    table = replace(table, rows=sample_of(rows).rows, num_rows=num_rows)
    if columns is None:
        sides = ("source", settings.source_columns), ("target", settings.target_columns)
        numbers = [numbers_of_columns(table, side, (names or ())[:1]) for side, names in sides]
        source, target = (next(iter(number), None) for number in numbers)
        columns = source, target
    kinds = ColumnKinds(table, settings, columns)
    roles = assign_roles(kinds, task)
    languages = tuple(_language(table.rows, column) for column in (roles.source, roles.target))
    return Inspection(table, roles, (languages[0], languages[1]), kinds.features)


def _one_column(
    path: Path, form: FileFormat, first: Sequence[str], sheets: Sequence[str]
) -> UserError:
    """Return the error for a file whose rows have one column."""
    match form.kind:
        case "workbook" if sheets:
            remedy = f"name another sheet (--data.sheet): {', '.join(sheets[:MAX_NAMES])}"
        case "workbook" | "parquet" | "json" | "jsonl":
            remedy = "add the column that is missing"
        case _:
            remedy = (
                "check the delimiter (--data.delimiter), or give the targets as a second file "
                "(--data.path SOURCES --data.target-path TARGETS)"
            )
    return UserError(
        f"no pairs in {path}: its rows have one column ({show_cells(first)}); expected a source "
        f"and a target; {remedy}"
    )


def _label_first(
    path: Path, form: FileFormat, settings: TableSettings, task: TaskName | None
) -> Inspection:
    """Return the inspection of lines without columns: TREC's and fastText's format, if the first
    words are few, and are no words of the texts. UserError for texts without labels."""
    sample = sample_rows(path, form, settings)
    texts = ["\t".join(cells) for cells in sample.rows]
    rows = [(rest, label) for (label, *_), rest in map(split_labels, texts)]
    rows = [row for row in rows if all(row)]
    kinds = ColumnKinds(Table(str(path), None, rows, form), TableSettings(), (None, None))
    roles = assign_roles(kinds, task if task == "classify" else None)
    is_first = roles.target == 1  # not the rest of the line
    are_few = roles.recipe == "labels" and is_first and len(rows) >= FEW_ROWS
    is_classified = are_few and (are_marked(texts) or have_labels_first(rows))
    if not is_classified and task != "classify":
        raise UserError(
            f"no pairs in {path}: it is one column of texts, and Regard needs pairs or labels: no "
            "tab, comma or semicolon divides its lines; put a tab between source and target, give "
            "the targets as a second file (--data.path SOURCES --data.target-path TARGETS), or "
            "set --data.delimiter (such as space); if the first word of each line is its label: "
            "--data.task classify"
        )
    table = Table(str(path), None, [(text,) for text in texts], form, sample.num_rows)
    return Inspection(table, roles, (UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE))


def _language(rows: Sequence[Sequence[str]], column: int) -> str:
    """Return the language of a column if its script has only one."""
    text = "".join(row[column] for row in rows[:200] if len(row) > column)
    scripts = {script_of(letter) for letter in text if letter.isalpha()}
    languages = {LANGUAGES.get(script, UNKNOWN_LANGUAGE) for script in scripts}
    if "ja" in languages:
        return "ja"
    languages -= {UNKNOWN_LANGUAGE} if scripts & LANGUAGES.keys() else set()
    return languages.pop() if len(languages) == 1 else UNKNOWN_LANGUAGE
