"""Texts of messages, in one file, so that tests assert the type, field and place of an error.

`make messages` rewrites `messages.txt`. An entry has the name of its test, a number from the second
message of the test on, and the text. There, temporary folders are TMP, the interpreter is PYTHON.
Read the file's difference as that of the code: it shows each sentence that changes for users.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import sys
import zlib
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from textwrap import indent

import pytest

CALLS = r"\b(raises|check_message)\("
ROOT = Path(__file__).parent.parent
PATH = Path(__file__).with_suffix(".txt")
INDENT = " " * 4
MAX_NAME = 150
"""Letters of the name of a test; a longer one ends with a digest."""


def read() -> dict[str, str]:
    """Return the text of each entry."""
    blocks = re.findall(r"((?:^\S.*\n)+)((?:^(?: .*)?\n)*)", PATH.read_text("utf8"), re.M)
    return {
        name: re.sub(f"^{INDENT}", "", text.strip("\n"), flags=re.M)
        for names, text in blocks
        for name in names.splitlines()
    }


def place(entry: str) -> tuple[str, int]:
    """Return the name of the test of an entry, and the number of the message."""
    test, number = re.fullmatch(r"(.*?)(?: #(\d+))?", entry).groups()
    return test, int(number or 1)


@cache
def tests_of(file: str) -> set[str]:
    """Return the names of a file's functions with messages; the file need not exist."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf8") if path.is_file() else "")
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {each.name for each in functions if re.search(CALLS, ast.unparse(each))}


def has_test(entry: str) -> bool:
    """Return whether the file of an entry has its test, with messages."""
    file, _, name = entry.partition("::")
    return re.split(r"\[| #", name)[0] in tests_of(file)


class Messages:
    """Messages of the tests of this process."""

    def __init__(self):
        self.rewrites = "REGARD_MESSAGES" in os.environ
        self.expected = read()
        self.texts: dict[str, str] = {}
        self.folder = Path()
        self.test = ""
        self.number = 0

    def begin(self, test: str):
        """Begin a test."""
        if len(test) > MAX_NAME:
            test = f"{test[:MAX_NAME]}... {zlib.crc32(test.encode()):08x}]"
        self.test, self.number = test, 0

    def check(self, text: object):
        """Compare the next message of the test with its entry."""
        self.number += 1
        entry = self.test if self.number == 1 else f"{self.test} #{self.number}"
        text = re.sub(rf"{re.escape(str(self.folder))}/[^/\s]+", "TMP", str(text)).strip("\n")
        text = re.sub("0x[0-9a-f]{9,}", "0x...", text.replace(sys.executable, "PYTHON"))
        self.texts[entry] = text
        if self.rewrites:
            return
        expected = self.expected.get(entry, "(no entry)")
        if text != expected:
            command = f"make messages TESTS={self.test.partition('[')[0]}"
            difference = f"expected: {expected}\n     got: {text}"
            pytest.fail(f"{entry}: other text\n{difference}\nif it is right: {command}", False)

    def write(self):
        """Write the texts of the tests that ran, beside those of the other tests."""
        if not self.rewrites:
            return
        tests = {place(entry)[0] for entry in self.texts}
        with PATH.open(encoding="utf8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # processes that run tests side by side
            others = {
                entry: text
                for entry, text in read().items()
                if place(entry)[0] not in tests and has_test(entry)
            }
            entries = sorted((others | self.texts).items(), key=lambda entry: place(entry[0]))
            with PATH.open("w", encoding="utf8") as file:
                for text, group in groupby(entries, key=itemgetter(1)):
                    names = "".join(f"{name}\n" for name, _ in group)
                    file.write(f"{names}{indent(text, INDENT)}\n\n")


MESSAGES = Messages()


def check_message(*lines: object):
    """Compare a text, such as a line of the output, with its entry."""
    MESSAGES.check("\n".join(map(str, lines)))


@contextmanager
def raises(kind: type[BaseException], *parts: str):
    """Like `pytest.raises`; the message has each part, such as a field, and its entry's text."""
    with pytest.raises(kind) as error:
        yield error
    assert all(part in str(error.value) for part in parts), error.value
    check_message(error.value)
