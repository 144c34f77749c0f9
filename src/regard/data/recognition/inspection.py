"""Inspection of a data file before training: its format, its task and the roles of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from regard.data.files.named_rows import has_json_records
from regard.data.files.samples import sample_rows
from regard.data.files.tables import (
    TableSettings,
    column_name,
    column_number,
    require_column,
    show_cells,
    suffix_of,
)
from regard.data.files.workbooks import default_sheet, unread_sheets
from regard.data.recognition import formats
from regard.data.recognition.columns import FEW_ROWS, MIN_ROWS_PER_LABEL, TableFacts
from regard.data.recognition.encodings import script_of
from regard.data.recognition.first_words import are_marked, have_labels_first, split_labels
from regard.data.recognition.formats import FileFormat
from regard.data.recognition.header import first_row, is_only_label, names_labels
from regard.data.recognition.roles import Roles, assign_roles
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
    """Format, task and columns of a data file."""

    path: Path
    form: FileFormat
    header: tuple[str, ...] | None
    num_columns: int
    num_rows: int
    """Number of rows that were inspected, without the header."""
    roles: Roles
    languages: tuple[str, str]
    """Language codes of source and target, as far as their scripts tell."""
    has_all: bool = True
    """Whether all rows of the file were inspected."""
    features: tuple[int, ...] = ()
    """Columns of features, from 0."""
    sheet: str = ""
    """Sheet of a workbook that is read."""
    unread_sheets: tuple[str, ...] = ()
    """Sheets of a workbook that are not read."""
    is_header_certain: bool = True
    """Whether it is certain that the first row names the columns, or that it is an example."""
    first: tuple[str, ...] = ()
    """First row."""
    titles: str = ""
    """Line that names the rows above the table; blank if there are none."""

    def lines(
        self, recipe: str | None = None, predicted: TargetKind | None = None
    ) -> tuple[str, ...]:
        """Return the lines that training prints: format, task and recipe; roles of the columns;
        rows above the table; the encoding, if it is a guess; and sheets that are not read.
        `recipe` is the one that the user named, if any, and `predicted` the kind of its targets."""
        name, roles = " ".join(self.path.name.split()), self.roles
        head = f", sheet {self.sheet}" if self.unread_sheets else ""
        head += ", header" if self.header is not None else ""
        title = f"{self._title(predicted)}, recipe {recipe or roles.recipe}"
        first = f"{name}: {self.form.title}{head}; {title}"
        if recipe is None:
            task = {"translate": "classify"}.get(roles.task, "translate")
            first += f". Otherwise: {roles.alternative or f'--data.task {task}'}"
        lines = [first, self._roles_line(), *([self.titles] if self.titles else [])]
        if not self.is_header_certain:
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
        name, cells = " ".join(self.path.name.split()), show_cells(self.first)
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
        if self.has_all:
            return title
        title = title.replace(" images)", f" images in {self.num_rows:,} rows)")
        return title.replace(" in ", " in a sample of ")

    def _roles_line(self) -> str:
        """Return the roles of the columns, with the options that change them."""
        roles = self.roles
        if self.form.delimiter is None and self.form.kind == "text":
            return "columns: the first word of each line -> target, the rest -> source"
        used = (roles.source, roles.target, *self.features)
        rest = [number for number in range(self.num_columns) if number not in used]
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
        return "" if ambiguity is None else f"{self.path}: {ambiguity.describe(self.column)}"

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
        if last > self.num_columns:
            cells = "1 cell" if self.num_columns == 1 else f"{self.num_columns} cells"
            raise UserError(
                f"{self.path}: the first row has {cells}, and rows below have {last} or more: add "
                "the cells that the first row lacks, or remove the row if it is a title"
            )
        names = {}
        for side, number in (("source", self.roles.source), ("target", self.roles.target)):
            name = names[f"data.{side}_column"] = self.column(number)
            if column_number(name, self.header, self.num_columns) not in (number, None):
                raise UserError(
                    f"{self.path}: column {number + 1} has no name of its own, and another column "
                    f"has the name {name!r}: rename the columns"
                )
        return names

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
    sample = sample_rows(path, form, settings)
    rows = sample.rows
    if not rows:
        raise UserError(f"{path} is empty: expected rows of a source and a target")
    sheets = unread_sheets(path, settings.sheet) if form.kind == "workbook" else ()
    # A sheet may have blank columns beside a table.
    has_columns = any(len(row) > 1 and (form.kind != "workbook" or any(row[1:])) for row in rows)
    if not has_columns:
        raise _one_column(path, form, rows[0], sheets)
    is_header, is_certain = first_row(rows, settings)
    if not form.has_names and not is_header and _has_label_names(rows, settings):
        is_header, is_certain = True, False
    if form.dictionary is not None:
        is_header, is_certain = False, True
    is_header = form.has_names or is_header
    header, body = (rows[0], rows[1:]) if is_header else (None, rows)
    body = [row for row in body if row != header]
    num_columns = len(rows[0])
    if is_header and not form.has_names:
        formats.check_widths(path, header or (), body)
    sides = {"source": settings.source_columns, "target": settings.target_columns}
    numbers = {side: _number(path, side, names, rows[0], header) for side, names in sides.items()}
    columns = numbers["source"], numbers["target"]
    facts = TableFacts(
        _features(settings, header, num_columns),
        sample.num_rows - is_header,
        settings.decimal_mark,
        form.usual_mark,
        target=settings.target,
    )
    roles = assign_roles(header, body, task, columns, facts=facts)
    if form.dictionary is not None and form.dictionary.has_sounds and task in (None, "translate"):
        roles = Roles("translate", "g2p", 0, 1, "pairs")
    if header is None and roles.task == "classify" and _names_labels(rows, roles, settings):
        header, body, is_certain = rows[0], rows[1:], False
        columns = roles.source, roles.target
        facts = replace(facts, features=_features(settings, header, num_columns))
        roles = assign_roles(header, body, task, columns, facts=facts)
    return Inspection(
        path,
        form,
        header,
        num_columns,
        len(body),
        roles,
        (_language(body, roles.source), _language(body, roles.target)),
        has_all=sample.has_all,
        features=tuple(facts.features),
        sheet=settings.sheet or default_sheet(path) if form.kind == "workbook" else "",
        unread_sheets=sheets,
        is_header_certain=is_certain or form.has_names,
        first=rows[0],
        titles=formats.titles_line(path, form, settings),
    )


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
    roles = assign_roles(None, rows, task if task == "classify" else None)
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
    languages = UNKNOWN_LANGUAGE, UNKNOWN_LANGUAGE
    return Inspection(path, form, None, 1, len(rows), roles, languages, sample.has_all)


def _names_labels(rows: Sequence[Sequence[str]], roles: Roles, settings: TableSettings) -> bool:
    """Return whether the reader of labels takes the first row as a header."""
    if settings.header is not None or len(rows[0]) <= roles.target:
        return False
    labels = [row[roles.target].strip() for row in rows[1:] if len(row) > roles.target]
    known = None if roles.fields.get("data.target") == "number" else frozenset[str]()
    return names_labels(rows[0][roles.target].strip(), labels, known)


def _has_label_names(rows: Sequence[Sequence[str]], settings: TableSettings) -> bool:
    """Return whether the last cell of the first row is a label of no other row, and the labels
    below it are few."""
    if settings.header is not None or len(rows) <= FEW_ROWS or len(rows[0]) < 2:
        return False
    last = len(rows[0]) - 1
    labels = [row[last].strip() for row in rows[1:] if len(row) > last]
    is_few = len(set(labels)) <= len(labels) / MIN_ROWS_PER_LABEL
    return is_few and is_only_label(rows[0][last].strip(), labels)


def _number(
    path: Path,
    side: str,
    names: tuple[str, ...] | None,
    first: Sequence[str],
    header: Sequence[str] | None,
) -> int | None:
    """Return the column of one side that the settings name. UserError if the file has none."""
    if not names:
        return None
    return require_column(path, names[0], f"--data.{side}-column", header, first)


def _features(
    settings: TableSettings, header: Sequence[str] | None, num_columns: int
) -> tuple[int, ...]:
    """Return the columns of features that the table has, from 0."""
    numbers = (column_number(name, header, num_columns) for name in settings.feature_columns or ())
    return tuple(number for number in numbers if number is not None)


def _language(rows: Sequence[Sequence[str]], column: int) -> str:
    """Return the language of a column if its script has only one."""
    text = "".join(row[column] for row in rows[:200] if len(row) > column)
    scripts = {script_of(letter) for letter in text if letter.isalpha()}
    languages = {LANGUAGES.get(script, UNKNOWN_LANGUAGE) for script in scripts}
    if "ja" in languages:
        return "ja"
    languages -= {UNKNOWN_LANGUAGE} if scripts & LANGUAGES.keys() else set()
    return languages.pop() if len(languages) == 1 else UNKNOWN_LANGUAGE
