"""Whether the first row of a table names its columns."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain, pairwise
from typing import NamedTuple

from regard.data.files.sides import is_code, is_side, name_without_addition
from regard.data.files.tables import TableSettings, find_column, is_blank
from regard.data.recognition.decimals import (
    NumberForm,
    is_count,
    is_missing,
    is_number,
    may_be_number,
)
from regard.data.recognition.encodings import script_of

# fmt: off
TEXT_NAMES = (
    "text", "sentence", "question", "review", "content", "comment", "message", "tweet", "body",
    "post", "utterance", "query", "document", "description", "source", "headline", "title",
)
LABEL_NAMES = (
    "label", "labels", "class", "category", "target", "answer", "value", "sentiment", "rating",
    "stars", "score", "tag", "intent", "topic", "polarity", "emotion", "language", "y",
)
CLASS_NAMES = (
    "label", "labels", "class", "classes", "category", "categories", "intent", "intents", "topic",
    "topics",
    "kategorie", "kategorien", "klasse", "klassen", "thema", "themen", "etikett", "classe",
    "categorie", "etiquette", "theme", "clase", "categoria", "etiqueta", "tema", "etichetta",
    "rotulo", "kategoria", "klasa", "kategori", "klass", "trida", "sinif", "etiket", "konu",
    "класс", "категория", "метка", "тема", "клас", "категорія", "κατηγορια",
    "类别", "類別", "标签", "標籤", "分类", "分類", "主题", "カテゴリ", "カテゴリー", "ラベル",
    "クラス", "범주", "카테고리", "라벨", "분류", "فئة", "تصنيف", "קטגוריה",
)
CODE_NAMES = (
    "code", "codes", "codigo", "codice", "kod", "kode", "код", "编码", "代码", "コード", "코드",
    "id",
)
RECORD_NAMES = (
    "speaker", "worker", "patient", "customer", "client", "student", "person", "participant",
    "session", "order", "document", "doc", "file", "row", "record", "item", "product",
)
ORIGIN_NAMES = ("annotator", "rater", "contributor", "author", "user", "split")
FEELING_NAMES = ("sentiment", "polarity", "emotion")
QUANTITY_NAMES = (
    "score", "rating", "stars", "points", "grade", "mark", "rank", "value", "price", "cost",
    "amount", "salary", "income", "rent", "age", "year", "month", "week", "day", "hour", "minute",
    "second", "duration", "time", "count", "number", "num", "quantity", "total", "sum", "length",
    "size", "height", "width", "weight", "depth", "distance", "temperature", "percent", "rate",
    "votes", "likes", "views", "population", "speed", "level",
)
FILE_NAMES = ("file", "image", "filename", "file_name", "path", "picture", "image_name")
CAPTION_NAMES = ("caption", "text", "sentence", "description", "comment")
SOURCE_NAMES = ("source", "input", "word", "lemma", "src", "text")
TARGET_NAMES = (
    "target", "output", "translation", "transliteration", "pronunciation", "ipa", "form", "tgt",
)
OTHER_NAMES = ("id", "notes", "note", "number", "annotator", "split", "index", "date", "remarks")
# fmt: on
BRACKETS = re.compile(r"[(\[<{].+[)\]>}]")
"""Remark on a column in a second row of names."""
YEARS = range(1900, 2101)
KNOWN_NAMES = frozenset(
    (
        *(*TEXT_NAMES, *LABEL_NAMES, *FILE_NAMES, *CAPTION_NAMES),
        *(*SOURCE_NAMES, *TARGET_NAMES, *OTHER_NAMES),
    )
)
"""Usual names of columns, in lower case."""
NEARLY_ALL = 0.9
"""Share of the cells of a column whose form counts as that of the column."""
MAX_COLUMNS = 50
"""Number of columns that are compared with the first row."""
TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s?([ap]m|Z|[-+]\d{2}:?\d{2})?"
DAY = (
    r"\d{1,4}(?P<mark>[-./])\s?\d{1,2}(?P=mark)\s?\d{1,4}"
    r"|\d{1,2}\.?\s?[^\W\d]{3,9}\.?\s?\d{4}"
    r"|[^\W\d]{3,9}\.?\s\d{1,2},\s?\d{4}"
)
DATE = re.compile(rf"{TIME}|({DAY})([T,\s]\s?{TIME})?", re.IGNORECASE)
"""Date, time of day, or both."""
COMMENT = re.compile(r"#\s?\w+$")
"""First cell of a comment that names columns."""
MIN_NAMED = 3
"""Number of columns below which a first row with a blank first cell is no header."""
MIN_ROWS = 5
"""Number of rows below which the form of a column is not compared with the first row."""


class FirstRow(NamedTuple):
    """Decision on the first row of a table."""

    is_header: bool
    is_certain: bool = True


def first_row(rows: Sequence[Sequence[str]], settings: TableSettings) -> FirstRow:
    """Return whether the first row names the columns: the setting says so, the row has a column
    that the settings name, half of its cells are usual names, all of its cells are names of
    languages or other sides of pairs, it numbers the columns or has years above texts, only its
    cell above unique names of the rows is blank, it begins with `#` and a word, or a cell has
    another form than the cells below it.

    Another form is a text above numbers or dates, or another script than all other cells of the
    column. Equal cells, such as a loanword and its translation, are no names. One usual name above
    single words is no header, because the other cell may translate it."""
    if settings.header is not None:
        return FirstRow(settings.header)
    if not rows:
        return FirstRow(is_header=False)
    rows = _without_blank_columns(rows)
    first, body = rows[0], rows[1:]
    if names := named_columns(settings):
        # The wanted columns are named, so the file has a header if it has one of them.
        return FirstRow(any(find_column(first, [name]) is not None for name in names))
    cells = [cell.strip() for cell in first]
    if _names_all_but_rows(cells, body) or _is_comment_with_names(cells, body):
        return FirstRow(is_header=True)
    if any(not cell for cell in cells[:2]):
        return FirstRow(is_header=False)
    usual = {cell.lower() for cell in cells if is_usual_name(cell)}
    is_half = 2 * len(usual) >= sum(1 for cell in cells if cell)
    if not occurs_again(first, body):
        if is_half and len(usual) > 1:
            return FirstRow(is_header=True)
        if _are_names(cells) and sum(map(_are_names, body)) < 2:
            return FirstRow(is_header=True, is_certain=not _may_be_pair(cells))
        if is_half and not _are_single_words(body):
            return FirstRow(is_header=True, is_certain=False)
    columns = [
        [row[column].strip() for row in body if len(row) > column]
        for column in range(max(2, min(len(cells), MAX_COLUMNS)))
    ]
    forms = list(zip(cells, columns, strict=False))
    is_certain = not usual and not any(is_side(cell) and len(cell) > 3 for cell in cells[:2])
    if len(body) < MIN_ROWS or (len(cells) > 1 and cells[0] == cells[1]):
        return FirstRow(is_header=False, is_certain=is_certain)
    if any(_differs(cell, column) for cell, column in forms[:2]) or _are_above_numbers(forms):
        return FirstRow(is_header=True)
    if _number_columns(forms):
        return FirstRow(is_header=True, is_certain=False)
    return FirstRow(is_header=False, is_certain=is_certain)


def _may_be_pair(cells: Sequence[str]) -> bool:
    """Return whether a row of names of languages may be a pair: codes, or one language in two
    languages (English, Englisch), which begin alike."""
    first, second = ("".join(_words(cell))[:2] for cell in cells[:2])
    return first == second or any(map(is_code, cells))


def _are_names(cells: Sequence[str]) -> bool:
    """Return whether all cells are different names of languages or of other sides of pairs, or
    usual names beside them."""
    filled = [cell for cell in cells if cell]
    if len(filled) < 2 or not all(is_side(cell) or is_usual_name(cell) for cell in filled):
        return False
    return any(map(is_side, filled)) and len({cell.lower() for cell in filled}) == len(filled)


def _are_single_words(body: Sequence[Sequence[str]]) -> bool:
    """Return whether the first two cells of nearly all rows are single words."""
    rows = [row for row in body if not is_blank(row)]
    num_single = sum(all(len(cell.split()) < 2 for cell in row[:2]) for row in rows)
    return num_single >= NEARLY_ALL * len(rows)


def _number_columns(forms: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether the first row numbers the columns from 0 or 1, and a column below has texts;
    or it has years that follow each other, and the cells below are no years."""
    cells = [cell for cell, _ in forms]
    if len(cells) < 2 or not all(cell.isdecimal() and len(cell) < 5 for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    if any(second - first != 1 for first, second in pairwise(numbers)):
        return False
    if numbers[0] in (0, 1):
        return any(2 * _num_numbers(column) < len(column) for _, column in forms)
    below = [text for _, column in forms for text in column]
    num_years = sum(text.isdecimal() and len(text) == 4 and int(text) in YEARS for text in below)
    return numbers[0] in YEARS and 2 * num_years < len(below)


def names_columns_too(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether the row below a row of names has further names: remarks in brackets in all
    cells, or names of languages and other sides below usual names."""
    cells = [cell.strip() for cell in second]
    if len(cells) < 2 or not all(cells):
        return False
    if all(map(BRACKETS.fullmatch, cells)):
        return True
    return all(map(is_side, cells)) and _are_names(cells) and all(map(is_usual_name, first))


def _without_blank_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the rows without the columns that are blank in all rows, which a workbook has beside a
    table."""
    blank = {
        column
        for column, cell in enumerate(rows[0])
        if not cell.strip() and all(is_blank(row[column : column + 1]) for row in rows)
    }
    return [[cell for column, cell in enumerate(row) if column not in blank] for row in rows]


def num_titles(rows: Sequence[Sequence[str]], settings: TableSettings) -> int:
    """Return the number of rows at the top that are titles or comments, blank rows after them
    included.

    Titles have less than half the cells with text that most rows have, so two of three or four
    columns are no title. `sep=;`, which Excel writes above a table, comments of one cell that begin
    with `#`, and the counts of scikit-learn (`150,4,setosa,versicolor,virginica`) are titles of any
    table. A row with a column that the settings name, or with usual names in half of its cells, is
    a header. Rows above a header that have fewer cells than most rows are titles, too. A ragged
    table has no titles."""
    num_cells = [sum(1 for cell in row if cell.strip()) for row in rows]
    counts = Counter(number for number in num_cells if number)
    if not counts:
        return 0
    usual = max(counts, key=lambda number: (counts[number], number))
    table = (
        number
        for number, row in enumerate(rows)
        if not _names_separator(row)
        and not (num_cells[number] == 1 < usual and row[0].lstrip().startswith("#"))
        and not _has_counts(row, sum(map(bool, num_cells[number + 1 :])), usual)
        and (2 * num_cells[number] >= usual or _has_names(row, settings))
    )
    start = next(table, len(rows))
    full = next((number for number in range(start, len(rows)) if num_cells[number] >= usual), start)
    if full > start and not _has_names(rows[start], settings):
        # Titles with blank or few cells beside them, above names of the columns.
        start = full if first_row(rows[full:], settings).is_header else start
    below = [len(row) for row in rows[start:] if not is_blank(row)]
    num_full = sum(2 * width >= usual for width in below)
    is_table = num_full >= NEARLY_ALL * len(below) and num_full > start
    return start if is_table and any(num_cells[:start]) else 0


def lacks_name(rows: Sequence[Sequence[str]], settings: TableSettings) -> bool:
    """Return whether the first row has one cell fewer than every other row, and the first cells of
    these are unique, as in tables with names of rows."""
    rows = [row for row in rows if not is_blank(row)]
    if settings.header is False or not rows:
        return False
    first, body = ["", *rows[0]], rows[1:]
    return {len(row) for row in body} == {len(first)} and _names_all_but_rows(first, body)


def lacks_first_name(
    rows: Sequence[Sequence[str]], settings: TableSettings, *, are_quoted: bool
) -> bool:
    """Return whether the first row names all columns but the first one, as R's write.table writes
    tables: the first cells of the other rows are in quotes, or count the rows. Other first cells
    may be the beginning of a text with a comma that is not in quotes."""
    body = [row for row in rows[1:] if not is_blank(row)]
    if not lacks_name(rows, settings) or all(not row[-1].strip() for row in body):
        return False
    return are_quoted or is_count([row[0].strip() for row in body])


def _names_all_but_rows(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether only the first cell of a row of at least three is blank, and the first cells
    of the rows below are unique. The other cells do not occur again in their columns."""
    if len(first) < MIN_NAMED or first[0] or not all(cell.strip() for cell in first[1:]):
        return False
    names = [row[0].strip() for row in body if not is_blank(row)]
    is_unique = all(names) and len(set(names)) == len(names)
    return len(names) >= MIN_ROWS and is_unique and not occurs_again(first, body)


def _names_separator(row: Sequence[str]) -> bool:
    """Return whether a row is the line `sep=;`, with any delimiter, which Excel reads."""
    text = "".join(row).strip()
    return text.lower().startswith("sep=") and len(text) <= len("sep=;")


def _has_counts(row: Sequence[str], num_rows: int, num_columns: int) -> bool:
    """Return whether a row has the number of rows below, the number of columns before the labels,
    and the names of the labels, as the data of scikit-learn do."""
    cells = [cell.strip() for cell in row if cell.strip()]
    counts = [str(num_rows), str(num_columns - 1)]
    return len(cells) > len(counts) and cells[:2] == counts and not any(map(is_number, cells[2:]))


def _has_names(row: Sequence[str], settings: TableSettings) -> bool:
    """Return whether a row has a column that the settings name, or at least two cells, half of
    which are usual names."""
    if any(find_column(row, [name]) is not None for name in named_columns(settings)):
        return True
    cells = [cell for cell in row if cell.strip()]
    return len(cells) > 1 and 2 * sum(map(is_usual_name, cells)) >= len(cells)


def named_columns(settings: TableSettings) -> list[str]:
    """Return the columns of the settings that are names, not numbers."""
    names = (*(settings.source_columns or ()), *(settings.target_columns or ()))
    return [name for name in names if not name.isdecimal()]


def is_usual_name(cell: str) -> bool:
    """Return whether a cell is a usual name of a column, apart from an addition in brackets."""
    return name_without_addition(cell) in KNOWN_NAMES


def has_name_of(cell: str, names: Sequence[str]) -> bool:
    """Return whether a word of the name of a column is one of these, or its plural, apart from
    accents: `label`, `intent_id`, `Class name`, `categoría`."""
    return any(word in names or word.removesuffix("s") in names for word in _words(cell))


def names_codes(cell: str) -> bool:
    """Return whether the name of a column ends in the name of a code, such as `isco_code`. Codes of
    persons and records are about the origin of a row."""
    words = _words(cell)
    is_code_name = bool(words) and words[-1] in CODE_NAMES and words != ["id"]
    return is_code_name and not has_name_of(cell, (*ORIGIN_NAMES, *RECORD_NAMES))


def _words(cell: str) -> list[str]:
    """Return the words of the name of a column in lower case, without accents of Latin and Greek
    letters."""
    letters = unicodedata.normalize("NFD", cell.lower())
    plain = re.sub(r"(?<=[a-zα-ω])[\u0300-\u036f]+", "", letters)
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", plain))


def names_labels(label: str, labels: Sequence[str], known: Set[str] | None) -> bool:
    """Return whether the label of the first row names the column, which has these labels below: a
    usual name or a label of no other row, unless it is in `known`. If `known` is None, targets are
    numbers, and any text that begins with a letter is a name."""
    if known is None:
        is_text = COMMENT.match(label) is not None or label[:1].isalpha()
        return is_text and not is_missing(label) and not may_be_number(label)
    is_named = is_usual_name(label) and label not in labels
    return label not in known and (is_named or is_only_label(label, labels))


def is_only_label(label: str, labels: Sequence[str]) -> bool:
    """Return whether a label occurs in no other row, while other labels repeat. Numbers are no
    names."""
    counts = Counter(labels)
    repeats = max(counts.values(), default=0) > 1
    return bool(label) and not is_number(label) and not counts[label] and repeats


def _num_numbers(texts: Sequence[str]) -> int:
    """Return how many texts are numbers of one form."""
    return NumberForm.of(texts).num_numbers


def _num_dates(texts: Sequence[str]) -> int:
    """Return how many texts are dates or times."""
    return sum(DATE.fullmatch(text) is not None for text in texts)


def _is_comment_with_names(cells: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a comment with the names of the columns, such as
    `#code TAB name`, above codes or other single words. A hashtag or a heading above sentences
    names nothing."""
    is_comment = len(cells) > 1 and COMMENT.match(cells[0]) is not None and all(cells)
    starts = [row[0].strip() for row in body if not is_blank(row)]
    have_words = all(len(text.split()) < 2 and not text.startswith("#") for text in starts)
    return is_comment and have_words and len(body) >= MIN_ROWS


def occurs_again(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether a cell of the first row occurs in its column again: names do not, unless the
    whole row does."""
    rows = [row for row in body if list(row) != list(first)]
    return any(
        cell.strip() and any(len(row) > column and row[column] == cell for row in rows)
        for column, cell in enumerate(first)
    )


def _differs(cell: str, column: Sequence[str]) -> bool:
    """Return whether a cell has another form than nearly all cells below it."""
    present = [text for text in column if text]
    if len(present) < MIN_ROWS:
        return False
    if _num_numbers(present) > NEARLY_ALL * len(present):
        return not may_be_number(cell) and len(cell) > 1
    scripts = _scripts(cell)
    if not scripts:
        return False
    others = list(map(_scripts, present))
    num_others = sum(not scripts & other for other in others)
    # A table of characters has many scripts in a column, so another one names nothing.
    usual = max(Counter(chain.from_iterable(others)).values(), default=0)
    return num_others > NEARLY_ALL * len(present) and 2 * usual > len(present)


def _are_above_numbers(forms: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Return whether some columns have numbers or dates, and the first row has a text in each of
    them. Numbers that are missing are no texts."""
    numbers = [(cell, [text for text in column if text]) for cell, column in forms]
    numbers = [
        (cell, present)
        for cell, present in numbers
        if len(present) >= MIN_ROWS
        and max(_num_numbers(present), _num_dates(present)) > NEARLY_ALL * len(present)
    ]
    return bool(numbers) and all(
        any(map(str.isalpha, cell))
        and not (may_be_number(cell) or _num_dates([cell]))
        and not is_missing(cell)
        for cell, _ in numbers
    )


def _scripts(text: str) -> set[str]:
    """Return the scripts of the letters of a text."""
    if text.isascii():
        return {"LATIN"} if text.lower() != text.upper() else set()
    return {script_of(letter) for letter in text if letter.isalpha()}
