"""Text files as lines, and messages about lines that cannot be used."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase, IOBase
from itertools import chain, starmap
from pathlib import Path
from typing import BinaryIO, NamedTuple

from regard.errors import UserError, counted
from regard.names import Fault
from regard.storage.files import open_bytes

log = logging.getLogger(__name__)

MEANINGS: dict[Fault, str] = {
    "blank": "with a blank side",
    "one column": "without a tab",
    "few columns": "with too few columns",
    "many columns": "with more cells than the header or most rows",
    "tab": "with a tab",
    "quotes": "with wrong quotes or line ends",
    "not JSON": "without a JSON object",
    "several labels": "with several labels",
    "several texts": "with a list of several texts in one cell",
    "no label": "without a label",
    "title": "above the table",
    "repeated header": "with the header again",
    "not UTF-8": "not UTF-8",
    "NUL": "with NUL characters",
    "comment": "with a comment",
    "summary": "with a summary of the table",
    "other table": "of a second table",
    "no source": "whose source is no series or list of items, unlike the others",
    "missing value": "with a mark for a missing number",
    "no number": "with another text in place of a number",
    "other number": "with a number of another unit or form",
}
"""Reasons for dropping a line, for messages. A byte-order mark is removed and the line is used."""
REMEDIES: dict[Fault, str] = {
    "many columns": "quote texts with commas or other delimiters, or remove the other cells",
    "tab": "each line of two files is one text, such as the output of `cut -f 1`",
    "quotes": 'double the quotes inside a quoted cell, and close it: "a ""b"" c"; end lines with '
    "LF or CR LF",
}
"""Corrections of dropped lines, for messages."""
LINES_SHOWN = 5
MAX_LINE = 1 << 24
"""Largest number of bytes in a line. A longer line is rejected while it is read."""
MARK = b"\xef\xbb\xbf"
"""Byte-order mark in UTF-8. Inside a file it shows that files were joined."""
NUL = b"\0"
LEGACY_ENCODING = "cp1252"
"""Encoding of lines that are not UTF-8 in files of older collections."""
AND_UTF8 = "+utf-8"
"""End of the name of an encoding of a file that may have lines of UTF-8 too."""
BEYOND_ASCII = re.compile(rb"[^\x00-\x7f]+")
SEVERAL_BYTES = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""Character of UTF-8 beyond ASCII."""
THREE_BYTES = re.compile(rb"[\xe0-\xef][\x80-\xbf]{2}")
"""Character of UTF-8 that Chinese, Japanese and Korean texts have."""
PAIRS_OF_BYTES = frozenset(("cp932", "gb18030", "big5", "cp949", "euc_jp", "euc_kr", "shift_jis"))
"""Encodings with several bytes for a letter. Two bytes may be a character of UTF-8 too."""
NOTES: dict[Fault, str] = {
    "UTF-8": "read {} of {} as UTF-8, unlike the other lines ({})",
    "other encoding": f"read {{}} of {{}} as {LEGACY_ENCODING}, because it is not UTF-8 ({{}})",
    "end comment": "removed the comment at the end of {} of {} ({})",
}
"""Sentences about lines that are used but decoded in another encoding than the other lines, or
without a part."""
SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which no file of UTF-8 can hold."""
MAX_ODD = 0.02
"""Largest share of odd characters in a text."""
ODD = ("Cc", "Cn", "Co", "Cs")
"""Unicode categories of odd characters: controls, unassigned, private use and surrogates."""
TEXT_EXPECTED = "expected a file of UTF-8 text"
FORMATS: dict[bytes, str] = {
    b"PK\x03\x04": "a ZIP archive or an Excel workbook: save the sheet as CSV UTF-8, or unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save the sheet as CSV UTF-8",
    b"%PDF-": "a PDF document: save its text as UTF-8",
    b"SQLite format 3": "an SQLite database: export the table as CSV",
    b"PAR1": "a Parquet table: export it as CSV",
    b"BZh91AY&SY": "compressed with bzip2: decompress it, or use gzip",
    b"\xfd7zXZ\x00": "compressed with xz: decompress it, or use gzip",
    b"\x89PNG": f"a PNG image: {TEXT_EXPECTED}",
    b"\xff\xd8\xff": f"a JPEG image: {TEXT_EXPECTED}",
    b"GIF8": f"a GIF image: {TEXT_EXPECTED}",
    b"\x7fELF": f"a program: {TEXT_EXPECTED}",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard: decompress it, or use gzip",
}
"""First bytes of files that are not text, with the remedy."""


@dataclass(frozen=True, slots=True)
class LineProblem:
    """Line that was dropped or changed, with the reason and the text that could be read."""

    path: str
    line: int
    kind: Fault
    text: str
    encoding: str = "utf-8"
    """Encoding by which the file is read."""


@dataclass
class LineNumbers:
    """Count of lines, with the numbers of the first few."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        self.count += 1
        if self.count <= LINES_SHOWN:
            self.first.append(line)

    def extend(self, later: LineNumbers) -> None:
        """Add lines that come after these."""
        self.count += later.count
        self.first = [*self.first, *later.first][:LINES_SHOWN]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.first))
        more = f" and {self.count - LINES_SHOWN} more" if self.count > LINES_SHOWN else ""
        return f"{'line' if self.count == 1 else 'lines'} {shown}{more}"


@dataclass
class LeftOut:
    """Dropped lines by file and reason."""

    places: dict[str, dict[Fault, LineNumbers]] = field(default_factory=dict)

    def add(self, problem: LineProblem) -> None:
        kinds = self.places.setdefault(problem.path, {})
        kinds.setdefault(problem.kind, LineNumbers()).add(problem.line)

    def has(self, kind: Fault) -> bool:
        return any(kind in kinds for kinds in self.places.values())

    def counts(self) -> Counter[Fault]:
        """Return the number of dropped lines for each reason."""
        totals = Counter[Fault]()
        for kinds in self.places.values():
            totals.update({kind: lines.count for kind, lines in kinds.items()})
        return totals

    def summary(self) -> tuple[str, ...]:
        """Return one sentence for the dropped lines of each file, and one for byte-order marks."""
        sentences = starmap(_sentences, self.places.items())
        return tuple(chain.from_iterable(sentences))


def read_lines(
    source: str | Path | BinaryIO | BufferedIOBase,
    report: Callable[[LineProblem], None] | None = None,
    encoding: str = "utf-8",
    first_number: int = 1,
) -> Iterator[str]:
    """Yield the lines of a file ("-" is the standard input) or of a binary stream. The stream may
    begin inside a file, with the line of number `first_number`. The standard input is UTF-8.

    Blank lines are kept, so that there is one output for each line. Bytes that are not of the
    encoding are replaced by U+FFFD, a byte-order mark inside the file is removed, a NUL is kept;
    `report` is called for each of these lines, by default with a warning in the log. UserError as
    in `decoded`, and if the file cannot be opened.
    """
    report = report or _warn
    if not isinstance(source, str | Path):
        name = str(getattr(source, "name", "input"))
        return _replacing(source, name, report, encoding, first_number)
    if str(source) == "-":
        return _replacing(sys.stdin.buffer, "standard input", report)
    file = open_bytes(source)  # opened before the first line is read, so that errors come first
    return _closing(file, str(source), report, encoding)


def numbers_of(lines: Sequence[int]) -> str:
    """Return the first few line numbers as text."""
    return str(LineNumbers(len(lines), list(lines[:LINES_SHOWN])))


class Line(NamedTuple):
    """Line without its line end."""

    number: int
    text: str
    good: bool
    """Whether the line is UTF-8."""
    is_marked: bool = False
    """Whether a byte-order mark was removed, apart from the mark at the beginning of the file."""
    note: Fault | None = None
    """Encoding of the line, if it is not that of the file, or a comment that was removed."""

    @property
    def notes(self) -> tuple[Fault, ...]:
        """Changes of a line that can be used."""
        marks: tuple[Fault, ...] = ("byte-order mark",) if self.is_marked else ()
        return marks if self.note is None else (*marks, self.note)

    @property
    def fault(self) -> Fault | None:
        """Reason why the line cannot be used, or None."""
        if not self.good:
            return "not UTF-8"
        return "NUL" if "\0" in self.text else None


def decoded(
    file: Iterable[bytes],
    path: str | Path,
    otherwise: str | None = None,
    encoding: str = "utf-8",
    first_number: int = 1,
) -> Iterator[Line]:
    """Yield the lines of an open file. Line ends are \\n and \\r\\n only; byte-order marks are
    removed. Lines that are not UTF-8 are decoded with the encoding `otherwise`, if it is set. An
    encoding that ends with `AND_UTF8` is that of lines that are not UTF-8. Files of another
    encoding must be open files of bytes, not lines. An open file may begin inside
    another one, with the line of number `first_number`.

    UserError for UTF-16 that is read as UTF-8; for line ends of \\r alone; for a file
    of another format (`FORMATS`); for a line of more than `MAX_LINE` bytes, whose rest is not read;
    and if reading fails."""
    is_mixed = encoding.endswith(AND_UTF8)
    if is_mixed:
        otherwise = encoding.removesuffix(AND_UTF8)
    elif encoding != "utf-8":
        yield from _transcoded(file, path, encoding, first_number)
        return
    number, first = first_number - 1, b""
    try:
        for number, line in enumerate(_bounded(file, path, first_number), start=first_number):
            content = line
            if number == 1:
                check_beginning(line, path)
                first = line
                content = line.removeprefix(MARK)
            elif number == 2 and NUL in first and line.startswith(NUL):
                raise _no_utf8(first, path)
            is_marked = MARK in content
            if is_marked:
                content = content.replace(MARK, b"")
            if is_mixed and otherwise is not None and not content.isascii():
                yield _mixed(number, content, otherwise, is_marked)
            else:
                yield _decoded(number, content, otherwise, is_marked)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path} after line {number}: {error}") from error


def _transcoded(
    file: Iterable[bytes], path: str | Path, encoding: str, first_number: int
) -> Iterator[Line]:
    """Yield the lines of an open file of another encoding than UTF-8."""
    if not isinstance(file, BufferedIOBase):
        file = io.BytesIO(b"".join(file))
    text = io.TextIOWrapper(file, encoding, errors="replace", newline="\n")  # type: ignore[type-var]
    number = first_number - 1
    try:
        while line := text.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise _too_long(number, path)
            content = line.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff")
            is_good = "\ufffd" not in content
            yield Line(number, content.replace("\ufeff", ""), is_good, "\ufeff" in content)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path} after line {number}: {error}") from error
    except UnicodeError as error:
        raise UserError(
            f"cannot read {path} as {encoding} after line {number}: {error}; set --data.encoding"
        ) from error
    finally:
        with contextlib.suppress(ValueError):
            text.detach()


def noting(lines: Iterable[Line], path: str | Path, notes: list[LineProblem]) -> Iterator[Line]:
    """Yield the lines, and add those with a byte-order mark or in another encoding to `notes`."""
    for line in lines:
        if line.is_marked or line.note:
            notes.extend(LineProblem(str(path), line.number, note, "") for note in line.notes)
        yield line


def summary_of(problems: Iterable[LineProblem]) -> tuple[str, ...]:
    """Return the sentences about lines that were dropped or changed."""
    left_out = LeftOut()
    for problem in problems:
        left_out.add(problem)
    return left_out.summary()


def check_beginning(line: bytes, path: str | Path) -> None:
    """Raise a UserError if a file with this first line is not UTF-8 text with line ends."""
    check_text(line, path)
    num_nul = line.count(NUL)
    has_utf16_nul = num_nul and (4 * num_nul >= len(line) or line.endswith(b"\0\n"))
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or has_utf16_nul or _is_odd(line):
        raise _no_utf8(line, path)
    content = line.removesuffix(b"\n").removesuffix(b"\r")
    num_ends = content.count(b"\r")
    if num_ends > 1 or (num_ends and not line.endswith(b"\n")):
        raise UserError(
            f"{path} ends its lines with CR alone, as old Macs did: expected LF or CR LF; convert "
            r"it, as `tr '\r' '\n'` does"
        )


def check_text(beginning: bytes, path: str | Path) -> None:
    """Raise a UserError if a file with these first bytes is of another format than text."""
    for mark, meaning in FORMATS.items():
        if beginning.startswith(mark):
            raise UserError(f"{path} is {meaning}")


def _no_utf8(line: bytes, path: str | Path) -> UserError:
    """Return the error for a file whose first line has NUL bytes: another encoding, or not text."""
    marks = {"UTF-32": (b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-16": (b"\xff\xfe", b"\xfe\xff")}
    for name, mark in marks.items():
        orders = (f"{name}-LE", f"{name}-BE")
        if line.startswith(mark) or any(reads_as(line, order) for order in orders):
            return UserError(
                f"{path} is {name}: save it as UTF-8, or run `iconv -f {name} -t UTF-8`"
            )
    return UserError(f"{path} is not text, because it has NUL bytes: {TEXT_EXPECTED}")


def reads_as(line: bytes, encoding: str) -> bool:
    """Return whether at most the share `MAX_ODD` of a line's characters is odd in this encoding.
    Direction marks and joiners are not odd."""
    text = line[: len(line) // 4 * 4 or 2].decode(encoding, "replace")
    text = " ".join(text.split())
    odd = sum(unicodedata.category(letter) in ODD or letter == "\ufffd" for letter in text)
    return bool(text) and odd <= MAX_ODD * len(text)


def _is_odd(line: bytes) -> bool:
    """Return whether a line has a NUL and is not UTF-8, such as UTF-16 of other than Latin
    letters."""
    if NUL not in line:
        return False
    try:
        line.decode("utf8")
    except UnicodeDecodeError:
        return True
    return False


def _bounded(file: Iterable[bytes], path: str | Path, first_number: int) -> Iterator[bytes]:
    """Yield the lines of an open file or of any iterable of lines. UserError for a line that is too
    long."""
    if not isinstance(file, IOBase):
        yield from file
        return
    number = first_number - 1
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            if number == 1:
                check_beginning(line, path)
            raise _too_long(number, path)
        yield line


def _too_long(number: int, path: str | Path) -> UserError:
    return UserError(
        f"{path}, line {number} has more than {MAX_LINE:,} bytes: expected a text with line ends"
    )


def _decoded(number: int, line: bytes, otherwise: str | None, is_marked: bool) -> Line:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        return Line(number, line.decode("utf8"), True, is_marked)
    except UnicodeDecodeError:
        if otherwise is not None:
            return Line(number, legacy_text(line, otherwise), True, is_marked, "other encoding")
        return Line(number, line.decode("utf8", errors="replace"), False, is_marked)


def legacy_text(content: bytes, encoding: str) -> str:
    """Return bytes that are not UTF-8 as text. Bytes that cp1252 lacks are those of Latin-1."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("latin-1" if encoding == LEGACY_ENCODING else encoding, "replace")


def mixed_text(line: bytes, encoding: str) -> tuple[str, bool]:
    """Return the text of a line of UTF-8 or of this encoding, and whether it has UTF-8. Parts of a
    line, such as columns of two files, may differ. UTF-8 precedes the encoding, unless two bytes
    are a letter of it."""
    has_pairs = encoding in PAIRS_OF_BYTES
    if (THREE_BYTES if has_pairs else SEVERAL_BYTES).search(line) is None:
        return legacy_text(line, encoding), False
    try:
        return line.decode("utf-8"), True
    except UnicodeDecodeError:
        if has_pairs:
            return legacy_text(line, encoding), False
    parts = [b"", *BEYOND_ASCII.findall(line)]
    texts = [
        part.decode("utf-8") if is_utf8(part) else legacy_text(part, encoding) for part in parts
    ]
    between = BEYOND_ASCII.split(line)
    joined = "".join(text + rest.decode() for text, rest in zip(texts, between, strict=True))
    return joined, any(map(is_utf8, parts[1:]))


def is_utf8(content: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _mixed(number: int, line: bytes, encoding: str, is_marked: bool) -> Line:
    text, has_utf8 = mixed_text(line.removesuffix(b"\n").removesuffix(b"\r"), encoding)
    is_good = "\ufffd" not in text
    return Line(number, text, is_good, is_marked, "UTF-8" if has_utf8 else None)


def _sentences(path: str, kinds: dict[Fault, LineNumbers]) -> Iterator[str]:
    reasons = [
        f"{lines.count} {MEANINGS[kind]} ({lines})"
        for kind, lines in kinds.items()
        if kind in MEANINGS
    ]
    count = sum(lines.count for kind, lines in kinds.items() if kind in MEANINGS)
    if count:
        remedies = [remedy for kind, remedy in REMEDIES.items() if kind in kinds]
        shown = "; ".join([", ".join(reasons), *remedies])
        yield f"left out {counted(count, 'line')} of {path}: {shown}"
    if marks := kinds.get("byte-order mark"):
        yield marks_removed(path, marks)
    for kind, note in NOTES.items():
        if changed := kinds.get(kind):
            yield note.format(counted(changed.count, "line"), path, changed)


def marks_removed(path: str | Path, lines: LineNumbers) -> str:
    """Return a sentence about byte-order marks that were removed from these lines."""
    marks = "a byte-order mark" if lines.count == 1 else f"{lines.count} byte-order marks"
    return f"removed {marks} inside {path} ({lines}): joined files have them"


def _closing(
    file: BufferedIOBase, path: str, report: Callable[[LineProblem], None], encoding: str
) -> Iterator[str]:
    with file:
        yield from _replacing(file, path, report, encoding)


def _replacing(
    file: Iterable[bytes],
    path: str,
    report: Callable[[LineProblem], None],
    encoding: str = "utf-8",
    first_number: int = 1,
) -> Iterator[str]:
    for line in decoded(file, path, encoding=encoding, first_number=first_number):
        name = encoding.removesuffix(AND_UTF8)
        if line.fault:
            report(LineProblem(path, line.number, line.fault, line.text, name))
        for note in line.notes:
            report(LineProblem(path, line.number, note, line.text, name))
        yield line.text


def _warn(problem: LineProblem) -> None:
    reports: dict[Fault, str] = {
        "not UTF-8": f"is not {problem.encoding.upper()}: what could not be read became U+FFFD",
        "NUL": "has NUL characters",
        "byte-order mark": "had a byte-order mark, which was removed",
        "UTF-8": f"is UTF-8, unlike other lines, which are {problem.encoding}",
    }
    log.warning("%s, line %d %s", problem.path, problem.line, reports[problem.kind])
