"""Folders of labelled texts: one folder for each label, one text in each file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regard.characters import composed, is_blank_text
from regard.data.examples import Corpus, Pair
from regard.data.files.lines import (
    LEGACY_ENCODING,
    LINES_SHOWN,
    NUL,
    TEXT_EXPECTED,
    LineProblem,
    check_text,
    is_utf8,
    legacy_text,
)
from regard.data.recognition import encodings
from regard.errors import UserError, counted, listed
from regard.runtime.progress import OnProgress
from regard.storage.files import read_bytes

FILE_MANAGERS = ("thumbs.db", "desktop.ini", "__macosx")
"""Names of files and folders that file managers add to folders, in lower case."""
SYSTEM_NAMES = "bin boot dev etc lib lib64 opt proc root run sbin srv sys tmp usr var"
SYSTEM = frozenset(SYSTEM_NAMES.split())
"""Names of the folders of an operating system, below its root."""
MAX_BYTES = 1 << 31
"""Largest number of bytes of all files, which are held in memory."""
MAX_FILES = 5_000_000
"""Largest number of files."""
NUM_ERRORS = 50
"""Number of files that are no texts after which reading stops, if they are more than the texts."""
NUM_SAMPLES = 1000
"""Number of files from which their encoding is recognised."""
EVERY = 500
"""Number of files between calls of the callback."""


def read_folders(path: Path, on_progress: OnProgress | None = None) -> Corpus:
    """Read a folder with one folder for each label and one text in each file. Files that are not
    text are left out. UserError if they are more than half, for a folder of the operating system,
    and for more than `MAX_FILES` files or `MAX_BYTES` bytes."""
    check_no_system(path)
    files = _files(path)
    if not files:
        raise UserError(
            f"{path} has no folder with files: expected one folder for each label, or files with "
            "train, dev and test in their names"
        )
    texts, errors = list[Pair | LineProblem](), list[UserError]()
    legacy, others = _legacy_encoding(files), list[Path]()
    for number, file in enumerate(files, start=1):
        try:
            texts.append(_whole(file, legacy, others))
        except UserError as error:
            errors.append(error)
        is_end = number == len(files)
        if len(errors) > len(texts) and (is_end or len(errors) >= NUM_ERRORS):
            of = "" if is_end else "the first "
            raise UserError(
                f"{len(errors)} of {of}{number} files of {path} are not text: {errors[0]}"
            )
        if on_progress and number % EVERY == 0:
            on_progress("reading files", number, len(files))
    remarks = _remarks(path, others, legacy)
    if not errors:
        return Corpus.of(texts, remarks)
    shown = listed(list(map(str, errors)), 1, "; ")
    remark = f"left out {counted(len(errors), 'file')} of {path}: {shown}"
    return Corpus.of(texts, (remark, *remarks))


def _legacy_encoding(files: Sequence[Path]) -> str:
    """Return the encoding of those files that are not UTF-8, from a sample of the files."""
    contents = list[bytes]()
    for file in files[:: len(files) // NUM_SAMPLES + 1]:
        with suppress(UserError):
            content = read_bytes(file)
            if NUL not in content and not is_utf8(content):
                contents.append(content)
    try:
        encoding = encodings.recognise(b"\n".join(contents), Path())
    except UserError:
        return LEGACY_ENCODING
    return LEGACY_ENCODING if encoding.is_utf8 else encoding.name


def _remarks(path: Path, others: Sequence[Path], encoding: str) -> tuple[str, ...]:
    """Return a sentence about files that are not UTF-8, if there are any."""
    if not others:
        return ()
    names = listed([str(file.relative_to(path)) for file in others], LINES_SHOWN)
    files, verb = counted(len(others), "file"), "is" if len(others) == 1 else "are"
    return (f"read {files} of {path} as {encoding}, which {verb} not UTF-8: {names}",)


def check_no_system(path: Path) -> None:
    """Raise a UserError for the root of the file system, a folder of the operating system below it,
    and the folder of the user."""
    own = path.resolve()
    root = Path(own.anchor)
    if own in (root, Path.home()) or (own.parent == root and own.name in SYSTEM):
        raise UserError(
            f"{path} is a folder of the system or of a user, not of labelled texts: expected one "
            "folder for each label, with a text in each file; name the folder of the data"
        )


def _files(path: Path) -> list[Path]:
    """Return the files in the folders of a folder, in order. UserError for too many, and if a
    folder cannot be read."""
    files, size = list[Path](), 0
    try:
        for folder in (entry for entry in _entries(path) if entry.is_dir()):
            for entry in _entries(folder):
                if not entry.is_file():
                    continue
                files.append(Path(entry.path))
                size += entry.stat().st_size
                if len(files) > MAX_FILES or size > MAX_BYTES:
                    raise UserError(
                        f"{path} has more than {MAX_FILES:,} files or {MAX_BYTES >> 20:,} MiB of "
                        "texts: expected one folder for each label, with a text in each file; "
                        "put larger data into a table of text TAB label"
                    )
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from error
    return files


def _entries(folder: str | Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    """Return the files and folders of a folder in order, without those of file managers."""
    with os.scandir(folder) as entries:
        named = [entry for entry in entries if not entry.name.startswith(".")]
    named = [entry for entry in named if entry.name.lower() not in FILE_MANAGERS]
    return sorted(named, key=lambda entry: entry.name)


def _whole(file: Path, legacy: str, others: list[Path]) -> Pair | LineProblem:
    """Return the text of a file with its label. A file that is not UTF-8, UTF-16 or UTF-32 is read
    in the encoding `legacy`, and added to `others`. UserError if the file is not text."""
    content = read_bytes(file)
    check_text(content, file)
    text = _text(content, file)
    if text is None:
        others.append(file)
        text = legacy_text(content, legacy)
    text = " ".join(text.replace("\ufeff", "").split())
    if "\0" in text:
        raise UserError(f"{file} is not text, because it has NUL bytes: {TEXT_EXPECTED}")
    if is_blank_text(text):
        return LineProblem(str(file), 1, "blank", text)
    return Pair(text, composed(file.parent.name), 1, str(file))


def _text(content: bytes, file: Path) -> str | None:
    """Return the text of a file of UTF-8, UTF-16 or UTF-32; None for another encoding."""
    if NUL in content or content.startswith(tuple(encodings.MARKS)):
        encoding = encodings.recognise(content, file)
        if not encoding.is_utf8:
            return content.decode(encoding.name, "replace")
    return content.decode("utf-8-sig") if is_utf8(content) else None
