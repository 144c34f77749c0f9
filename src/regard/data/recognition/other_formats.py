"""Texts of formats that are not read: files of translators, subtitles, markup, references, e-mail
and source code. Their lines would be taken for labels or pairs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from regard.data.files.tables import suffix_of
from regard.errors import UserError

BEGINNING = 1 << 16
"""Number of characters from which the format of a text is recognised."""
PAIRS = "write lines of SOURCE TAB TARGET"
LABELS = "write lines of TEXT TAB LABEL"
EITHER = f"{PAIRS}, or of TEXT TAB LABEL"
BLANK_OR_COMMENT = r"(?>(?>[ \t]*(?>[#%].*)?\n)*)\s*"
"""Pattern of blank lines and lines of comments."""


@dataclass(frozen=True)
class OtherFormat:
    """Format of a text that is not read."""

    title: str
    remedy: str
    suffixes: tuple[str, ...]
    """Suffixes of file names that only this format has."""
    pattern: re.Pattern[str]
    """Pattern of the beginning of a text of this format."""


OTHER_FORMATS = (
    OtherFormat(
        "a PO file of gettext",
        "write a table with `po2csv FILE.po FILE.csv` (Translate Toolkit)",
        (".po", ".pot"),
        re.compile(rf'\A{BLANK_OR_COMMENT}(msgctxt|msgid) "'),
    ),
    OtherFormat(
        "a translation memory (TMX)",
        "write two files with `tmx-to-text convert` (PyPI), and read them with --data.path SOURCES "
        "--data.target-path TARGETS",
        (".tmx",),
        re.compile(r"\A\s*(<[?!][^>]*>\s*)*<tmx\b"),
    ),
    OtherFormat(
        "an XLIFF file",
        "write a table with `xliff2po` and `po2csv` (Translate Toolkit)",
        (".xlf", ".xliff"),
        re.compile(r"\A\s*(<[?!][^>]*>\s*)*<xliff\b"),
    ),
    OtherFormat(
        "a file of subtitles",
        EITHER,
        (".srt", ".vtt"),
        re.compile(r"\AWEBVTT\b|\A\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ --> "),
    ),
    OtherFormat(
        "an HTML page",
        "save its table as CSV",
        (".html", ".htm", ".xhtml"),
        re.compile(r"\A\s*(<[?!][^>]*>\s*)*<html\b|\A\s*<!doctype html", re.IGNORECASE),
    ),
    OtherFormat("XML", f"export it as CSV, or {PAIRS}", (".xml",), re.compile(r"\A\s*<\?xml\b")),
    OtherFormat(
        "a file of references (RIS)", "export them as CSV", (".ris",), re.compile(r"\A\s*TY  - ")
    ),
    OtherFormat(
        "a file of references (BibTeX)",
        "export them as CSV",
        (".bib",),
        re.compile(rf"\A{BLANK_OR_COMMENT}@\w+\s*\{{"),
    ),
    OtherFormat(
        "a file of e-mail",
        LABELS,
        (".eml", ".mbox"),
        re.compile(
            r"\A(From \S+@\S+ |(Return-Path|Delivered-To|Received|MIME-Version): ).*\n"
            r"([ \t].*\n)*>?[\w-]+: "
        ),
    ),
    OtherFormat(
        "an RTF document", "save it as UTF-8 text", (".rtf",), re.compile(r"\A\s*\{\\rtf\d")
    ),
    OtherFormat(
        "a LaTeX document",
        EITHER,
        (),
        re.compile(rf"\A{BLANK_OR_COMMENT}\\(documentclass|RequirePackage|PassOptionsToPackage)\b"),
    ),
    OtherFormat(
        "a list of hypotheses of Moses",
        PAIRS,
        (),
        re.compile(r"\A\d+ \|\|\| [^|\n]* \|\|\| [^|\n]*= ?-?\d[^|\n]*\|\|\| -?\d"),
    ),
    OtherFormat("a program", EITHER, (), re.compile(r"\A#!\s*/")),
)
CODE_SUFFIXES = frozenset(
    (
        *(".py", ".java", ".js", ".ts", ".c", ".h", ".cc", ".cpp", ".cs", ".go", ".rs", ".rb"),
        *(".php", ".pl", ".sh", ".r", ".sql", ".kt", ".swift", ".scala", ".lua"),
    )
)
"""Suffixes of source code. Some are codes of languages too, such as .cs."""
CODE = re.compile(
    r"^(#include\b|import [\w.{*\"]+|from [\w.]+ import |package [\w.]+;?$|using [\w.: ]+;"
    r"|def \w+\(|class \w+\b.*[:{]$|(async )?function \w+\(|(public|static|private) \w+"
    r"|<\?php|library\(|fn \w+|(CREATE|INSERT|SELECT) )",
    re.MULTILINE,
)
"""Pattern of a line of source code."""


def check_text_format(path: Path, text: str) -> None:
    """Raise a UserError if a file that begins with this text has another format than a table or
    lines, by its text or its suffix. Most lines of a table have a tab between cells."""
    beginning = text.lstrip()[:BEGINNING]
    lines = [stripped for line in beginning.splitlines() if (stripped := line.strip())]
    if 2 * sum("\t" in line for line in lines) > len(lines):
        return
    suffix = suffix_of(path)
    for form in OTHER_FORMATS:
        if suffix in form.suffixes or form.pattern.search(beginning):
            raise UserError(f"{path} is {form.title}, which is not read: {form.remedy}")
    if suffix in CODE_SUFFIXES and CODE.search(beginning):
        raise UserError(f"{path} is source code, which is not read: {EITHER}")
