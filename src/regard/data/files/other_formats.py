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


@dataclass(frozen=True)
class OtherFormat:
    """Format of a text that is not read."""

    title: str
    remedy: str
    suffixes: tuple[str, ...]
    """Suffixes of file names that only this format has."""
    pattern: re.Pattern[str]
    """Pattern that a text of this format has in its beginning."""


OTHER_FORMATS = (
    OtherFormat(
        "a PO file of gettext",
        "write a table with `po2csv FILE.po FILE.csv` (Translate Toolkit)",
        (".po", ".pot"),
        re.compile(r'^msgstr(\[0\])? "', re.MULTILINE),
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
    OtherFormat(
        "XML",
        f"export it as CSV, or {PAIRS}",
        (".xml",),
        re.compile(r"\A\s*<\?xml\b"),
    ),
    OtherFormat(
        "a file of references (RIS)",
        "export them as CSV",
        (".ris",),
        re.compile(r"\A\s*TY  - "),
    ),
    OtherFormat(
        "a file of references (BibTeX)",
        "export them as CSV",
        (".bib",),
        re.compile(r"^@\w+\{[^\s,]+,\s*$", re.MULTILINE),
    ),
    OtherFormat(
        "a file of e-mail",
        LABELS,
        (".eml", ".mbox"),
        re.compile(r"\AFrom \S+@\S+ .*\n|\A(Return-Path|Delivered-To|Received|MIME-Version): "),
    ),
    OtherFormat(
        "an RTF document", "save it as UTF-8 text", (".rtf",), re.compile(r"\A\s*\{\\rtf\d")
    ),
    OtherFormat(
        "a LaTeX document",
        EITHER,
        (),
        re.compile(r"^\\documentclass\b", re.MULTILINE),
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
    lines, by its text, or by its suffix if most lines have no tab."""
    beginning = text[:BEGINNING]
    lines = [line for line in beginning.splitlines() if line.strip()]
    is_table = 2 * sum("\t" in line for line in lines) > len(lines)
    suffix = suffix_of(path)
    for form in OTHER_FORMATS:
        if form.pattern.search(beginning) or (suffix in form.suffixes and not is_table):
            raise UserError(f"{path} is {form.title}, which is not read: {form.remedy}")
    if suffix in CODE_SUFFIXES and not is_table and CODE.search(beginning):
        raise UserError(f"{path} is source code, which is not read: {EITHER}")
