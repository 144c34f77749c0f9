"""Numbers of a column: the decimal mark, the marks between thousands and the unit, decided from all
cells. Training and `regard check` both use `NumberForm.of`.

    129, 66.161          points between thousands: whole numbers below 1,000 have none
    14,03 and 1.234,50   decimal commas
    66.161, 12.325       not decided: `data.decimal_mark` decides"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import methodcaller

from regard.data.units import Number, is_currency, split_number
from regard.names import DecimalMark, Fault

NEARLY_ALL = 0.95
"""Share of the filled cells of a column from which they are numbers. The others are left out."""
MARKS: Mapping[DecimalMark, str] = {"point": ".", "comma": ","}
OTHER_MARK: Mapping[DecimalMark, DecimalMark] = {"point": "comma", "comma": "point"}
MAX_UNITS = 4
"""Largest number of units of a column of numbers."""
MAX_MISSING = 4
"""Largest number of marks of missing values for each number of a column of numbers."""
WORDS_FOR_MISSING = (
    "na n/a n.a. #n/a #na <na> nan null none nil missing unknown k.a. s/d n.d. tba (blank) * . .. "
    "... … - -- --- – — − ? ?? #value! #ref! #div/0! #num!"
)
MISSING = frozenset(WORDS_FOR_MISSING.split())
"""Marks of missing values, in lower case."""
DIGIT = re.compile(r"\d")
DIGITS = str.maketrans("23456789", "11111111")
"""Digits that have one meaning for the form of a number."""
EXPONENT_TEXT = r"[eE](-\d+|\+?0*\d{1,2})"
"""Exponent of a number that is finite."""
PLAIN = re.compile(rf"[-+]?(\d{{1,200}}(\.\d*)?|\.\d+)({EXPONENT_TEXT})?")
"""Number as Python writes it, of at most 300 digits: larger ones become infinite."""
GROUPS = re.compile(r"[1-9]\d{0,2}([.,'\s])\d{3}(\1\d{3})*|[1-9]\d?(,\d{2})*,\d{3}")
"""Whole number with marks between thousands, or between hundreds above 1,000 as in India."""
EXPONENT = re.compile(rf"{EXPONENT_TEXT}$")


class NumberText(str):
    """Cell that is a number in its file or data frame, so its point is a decimal point."""

    __slots__ = ()


def is_number(text: str) -> bool:
    """Return whether a text is a number as Python reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_count(cells: Sequence[str]) -> bool:
    """Return whether the cells are whole numbers that rise by one, such as row numbers."""
    if len(cells) < 3 or not all(cell.isdecimal() and len(cell) < 16 for cell in cells):
        return False
    return all(second - first == 1 for first, second in pairwise(map(int, cells)))


def _is_typed(cell: str) -> bool:
    """Return whether a cell is a number in its file or data frame, and finite."""
    return type(cell) is NumberText and PLAIN.fullmatch(cell) is not None


def stripped(cell: str) -> str:
    """Return a cell without white space around it."""
    return cell if type(cell) is NumberText else cell.strip()


def is_missing(text: str) -> bool:
    """Return whether a text is a mark for a missing value, or blank."""
    text = text.strip()
    return not text or (len(text) <= 10 and text.lower() in MISSING)


@dataclass(frozen=True)
class NumberForm:
    """Form of the numbers of a column, and the number of cells that have it."""

    mark: DecimalMark = "point"
    """Decimal mark. The other mark divides thousands."""
    unit: str = ""
    """Unit of most numbers."""
    has_spaces: bool = False
    """Whether plain spaces divide thousands."""
    title: str = ""
    """Marks that not every program reads alike, for messages. Blank for decimal points only."""
    undecided: str = ""
    """Shape of a number for which no cell decides the mark; blank if the mark is decided."""
    is_plain: bool = False
    """Whether all filled cells are numbers as Python writes them."""
    num_numbers: int = 0
    num_others: int = 0
    """Number of filled cells that are neither numbers of this form nor marks of missing values."""
    num_amounts: int = 0
    """Number of these cells that are numbers with another unit."""
    num_missing: int = 0

    @classmethod
    def of(
        cls, cells: Sequence[str], mark: DecimalMark | None = None, usual: DecimalMark = "point"
    ) -> NumberForm:
        """Return the form of the numbers in a column. `mark` is the decimal mark if the cells do
        not decide it. If neither does, numbers such as 1,234 have the decimal mark `usual`, and
        numbers such as 1.234 a decimal point."""
        is_typed = NumberText in {*map(type, cells)}
        texts = [cell for cell in cells if not _is_typed(cell)] if is_typed else cells
        words = [text for text in texts if text and DIGIT.search(text) is None]
        shapes = Counter(map(methodcaller("translate", DIGITS), filter(DIGIT.search, texts)))
        form = _form(shapes, mark, usual, is_typed=is_typed)
        return _counted(form, shapes, words, len(cells) - len(texts))

    @property
    def fits(self) -> bool:
        """Whether nearly all filled cells are numbers, apart from marks of missing values. Numbers
        with several units fit, so that the units are reported."""
        num_numbers = self.num_numbers + self.num_amounts
        num_filled = self.num_numbers + self.num_others
        are_enough = MAX_MISSING * num_numbers >= self.num_missing
        return num_numbers > 0 and are_enough and num_numbers >= NEARLY_ALL * num_filled

    def plain(self, cell: str) -> str | None:
        """Return a number as Python writes it; None for a cell that is no number of this form."""
        if type(cell) is NumberText:
            return str(cell) if _is_typed(cell) else None
        if self.mark == "point" and not self.unit and PLAIN.fullmatch(cell):
            return cell
        number = split_number(cell)
        if number is None or number.unit != self.unit:
            return None
        return _plain(number, MARKS[self.mark], has_spaces=self.has_spaces)

    def plain_words(self, cell: str) -> str | None:
        """Return one number, or several with spaces between them, as Python writes them."""
        if self.mark == "point" and not self.unit and PLAIN.fullmatch(cell):
            return str(cell)
        number = self.plain(cell)
        words = cell.split(" ") if number is None else []
        if len(words) < 2:
            return number
        numbers = [number for word in words if (number := self.plain(word)) is not None]
        return " ".join(numbers) if len(numbers) == len(words) else None

    def fault(self, cell: str) -> Fault:
        """Return the reason why a cell is no number of this form."""
        if is_missing(cell):
            return "missing value"
        return "no number" if split_number(cell) is None else "other number"


def undecided_mark(form: NumberForm, cells: Iterable[str], name: str) -> str:
    """Return a sentence about a column whose cells do not decide the decimal mark, with the option
    that decides; blank if they do. `name`: name of the column."""
    if not form.undecided:
        return ""
    cell = next(cell for cell in cells if form.undecided in cell.translate(DIGITS))
    mark = OTHER_MARK[form.mark]
    alternative = replace(form, mark=mark).plain(cell)
    return (
        f"{name}: three digits follow each mark of the numbers, so {cell.strip()!r} may be "
        f"{alternative}: read as {form.plain(cell)}; for {alternative}: --data.decimal-mark {mark}"
    )


def split_plain(text: str) -> tuple[str, str] | None:
    """Return a number that stands for itself as Python writes it, and its unit; None for another
    text, and for a comma that may divide thousands."""
    if is_number(text):
        return text, ""
    form = NumberForm.of([text])
    number = form.plain(text)
    return None if number is None or form.undecided else (number, form.unit)


def may_be_number(text: str) -> bool:
    """Return whether a text is a number with some decimal mark, perhaps with a unit."""
    number = split_number(text)
    return number is not None and any(
        _plain(number, mark, has_spaces=True) is not None for mark in MARKS.values()
    )


def _form(
    shapes: Mapping[str, int], mark: DecimalMark | None, usual: DecimalMark, *, is_typed: bool
) -> NumberForm:
    """Return the form of the numbers among these shapes of cells."""
    numbers = {shape: number for shape in shapes if (number := split_number(shape)) is not None}
    units = Counter[str]()
    for shape, number in numbers.items():
        units[number.unit] += shapes[shape]
    unit = units.most_common(1)[0][0] if units and not is_typed else ""
    own = {shape: number.body for shape, number in numbers.items() if number.unit == unit}
    has_spaces = _divide_thousands({body: shapes[shape] for shape, body in own.items()}, unit)
    evidence = Counter[str]()
    for shape, body in own.items():
        for word in [body] if has_spaces else body.split(" "):
            evidence[_evidence(word)] += shapes[shape]
    decided = _mark(evidence, mark, is_typed=is_typed)
    undecided = ""
    if decided is None:
        undecided = next(body for body in own.values() if _evidence(body).startswith("either"))
        decided = usual if not evidence["either point"] else "point"
    fitting = [
        body
        for body in own.values()
        if _plain(Number(False, body), MARKS[decided], has_spaces=has_spaces) is not None
    ]
    return NumberForm(decided, unit, has_spaces, _title(fitting, decided), undecided)


def _counted(
    form: NumberForm, shapes: Mapping[str, int], words: Sequence[str], num_typed: int
) -> NumberForm:
    """Return the form with the numbers of cells that have it or not. `words`: cells without
    digits."""
    others = {shape: count for shape, count in shapes.items() if form.plain(shape) is None}
    missing = sum(count for shape, count in others.items() if is_missing(shape))
    missing += sum(map(is_missing, words))
    units = dict[str, int]()
    for shape, count in others.items():
        number = split_number(shape)
        if number is not None and _is_amount(number, form.unit):
            units[number.unit] = units.get(number.unit, 0) + count
    is_usual = form.mark == "point" and not form.unit
    return replace(
        form,
        is_plain=is_usual and not words and all(map(PLAIN.fullmatch, shapes)),
        num_numbers=num_typed + sum(shapes.values()) - sum(others.values()),
        num_others=sum(others.values()) + len(words) - missing,
        num_amounts=sum(units.values()) if len(units) < MAX_UNITS else 0,
        num_missing=missing,
    )


def _is_amount(number: Number, unit: str) -> bool:
    """Return whether a number has another unit than a column, and both are units of amounts: words
    after a space, or signs. Beside numbers without a unit, only signs are units."""
    if number.unit == unit or not number.is_apart or not may_be_number(number.body):
        return False
    units = [name for name in (number.unit, unit) if name]
    return len(units) > 1 or is_currency(units[0]) or not units[0][0].isalpha()


def _divide_thousands(bodies: Mapping[str, int], unit: str) -> bool:
    """Return whether plain spaces divide thousands, not numbers of a series: all spaces can, and
    there is a unit, a decimal mark, a group such as 034, or a number such as 1 234 beside numbers
    with another number of groups."""
    spaced = [body for body in bodies if " " in body]
    wholes = [re.split(r"[.,]", body, maxsplit=1)[0] for body in spaced]
    if not spaced or not all(map(GROUPS.fullmatch, wholes)):
        return False
    groups = [whole.split(" ") for whole in wholes]
    has_marks = any(body != whole for body, whole in zip(spaced, wholes, strict=True))
    has_zeros = any(group.startswith("0") for parts in groups for group in parts)
    differ = len({body.count(" ") for body in bodies}) > 1
    return bool(unit) or has_marks or has_zeros or (differ and min(len(g[0]) for g in groups) < 3)


def _evidence(body: str) -> str:
    """Return the evidence of a number for the marks of its column: "point" or "comma" for a decimal
    mark, "either point" or "either comma" for a mark that may divide thousands, "small" or "large"
    for a whole number without a mark, "grouped" for spaces or apostrophes between thousands,
    "none" for other digits and marks."""
    body = EXPONENT.sub("e", body)
    marks = [character for character in body if character in ".,"]
    if not marks:
        is_grouped = not body.removesuffix("e").isdecimal()
        small = "none" if body[0] == "0" else "small"
        return "grouped" if is_grouped else small if len(body) < 4 else "large"
    last = marks[-1]
    name = "point" if last == "." else "comma"
    if marks.count(last) > 1:
        return {".": "comma", ",": "point"}[last] if GROUPS.fullmatch(body) else "none"
    whole, _, fraction = body.rpartition(last)
    if len(fraction) == 3 and re.fullmatch(r"[1-9]\d{0,2}", whole) and fraction.isdecimal():
        return f"either {name}"
    return name


def _mark(
    evidence: Mapping[str, int], mark: DecimalMark | None, *, is_typed: bool
) -> DecimalMark | None:
    """Return the decimal mark of a column; None if nothing decides it."""
    if is_typed or evidence["point"] or evidence["comma"]:
        return "point" if is_typed or evidence["point"] >= evidence["comma"] else "comma"
    either = [name for name in OTHER_MARK if evidence[f"either {name}"]]
    if not either or mark is not None:
        return mark or "point"
    if len(either) > 1:
        return None
    if evidence["grouped"]:
        return either[0]
    return OTHER_MARK[either[0]] if evidence["small"] and not evidence["large"] else None


def _title(bodies: Iterable[str], mark: DecimalMark) -> str:
    """Return the marks of numbers with this decimal mark, for messages; blank if there are only
    decimal points."""
    text = " ".join(bodies)
    if mark == "comma":
        points = "points between thousands" if "." in text else ""
        return "decimal commas" if "," in text else points
    return "commas between thousands" if "," in text else ""


def _plain(number: Number, decimal: str, *, has_spaces: bool) -> str | None:
    """Return a number as Python writes it; None if its marks do not fit."""
    body, exponent = number.body, ""
    if match := EXPONENT.search(body):
        body, exponent = body[: match.start()], match[0]
    whole, mark, fraction = body.partition(decimal)
    if not (whole or fraction) or (fraction and not fraction.isdecimal()):
        return None
    if whole and not whole.isdecimal():
        if GROUPS.fullmatch(whole) is None or (" " in whole and not has_spaces):
            return None
        whole = re.sub(r"\D", "", whole)
    return f"{'-' if number.is_negative else ''}{whole}{mark and '.'}{fraction}{exponent}"
