"""Readers of text pairs, which list every dropped line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from regard.data.examples import Corpus, Pair
from regard.data.files.lines import LeftOut, Line, LineProblem, decoded
from regard.errors import UserError
from regard.files import open_bytes


def read_pairs(
    path: str | Path, *, target_path: str | Path | None = None, limit: int | None = None
) -> Corpus:
    """Read pairs from one file (source, tab, target; further columns are ignored) or from two
    files.

    Line ends are \\n and \\r\\n only. Files may be gzipped and may begin with a byte-order mark; a
    mark inside a file is removed and listed. Lines that have a blank side, no tab, a NUL, or are
    not UTF-8 are dropped and listed. Reading stops after `limit` pairs. UserError if a file cannot
    be read, if two files have different numbers of lines, or if there are no pairs.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}: give at least 1, or none to read all pairs")
    return _collect(each_line(path, target_path), (path, target_path), limit)


def each_line(
    path: str | Path, target_path: str | Path | None = None
) -> Iterator[Pair | LineProblem]:
    """Yield a pair or a problem for each line, as `read_pairs` reads them, and another problem for
    each byte-order mark that was removed. Nothing is held in memory."""
    with open_bytes(path) as file:
        if target_path is None:
            for line in decoded(file, path):
                yield from _read(line, str(path))
            return
        with open_bytes(target_path) as target_file:
            sides = zip_longest(decoded(file, path), decoded(target_file, target_path))
            paths = str(path), str(target_path)
            for source, target in sides:
                if source is None or target is None:
                    raise UserError(_lengths_differ(paths))
                for line, name in zip((source, target), paths, strict=True):
                    if line.is_marked:
                        yield LineProblem(name, line.number, "byte-order mark", line.text)
                yield _couple(source, target, paths)


def parse_pairs(lines: Iterable[bytes], path: str | Path, *, limit: int | None = None) -> Corpus:
    """Read pairs from the lines of an open file. `path` names the file in problems."""
    items = (item for line in decoded(lines, path) for item in _read(line, str(path)))
    return _collect(items, (path, None), limit)


def no_pairs(paths: tuple[str | Path, str | Path | None], left_out: LeftOut) -> UserError:
    """Return the error for files without a pair, with the remedy."""
    names = " and ".join(str(path) for path in paths if path is not None)
    return UserError(f"no pairs in {names}: {'; '.join(_hints(left_out))}")


def _read(line: Line, path: str) -> Iterator[Pair | LineProblem]:
    if line.is_marked:
        yield LineProblem(path, line.number, "byte-order mark", line.text)
    yield _columns(line, path)


def _columns(line: Line, path: str) -> Pair | LineProblem:
    columns = line.text.split("\t")
    if line.fault:
        return LineProblem(path, line.number, line.fault, line.text)
    if len(columns) == 1 and line.text.strip():
        return LineProblem(path, line.number, "one column", line.text)
    source, target = columns[0].strip(), "".join(columns[1:2]).strip()
    if not source or not target:
        return LineProblem(path, line.number, "blank", line.text)
    return Pair(source, target, line.number, path)


def _couple(source: Line, target: Line, paths: tuple[str, str]) -> Pair | LineProblem:
    for line, path in zip((source, target), paths, strict=True):
        if line.fault:
            return LineProblem(path, line.number, line.fault, line.text)
        if not line.text.strip():
            return LineProblem(path, line.number, "blank", line.text)
    # A tab inside a text would be a third column in the files of a run.
    text, target_text = (line.text.replace("\t", " ").strip() for line in (source, target))
    return Pair(text, target_text, source.number, paths[0])


def _collect(
    items: Iterable[Pair | LineProblem],
    paths: tuple[str | Path, str | Path | None],
    limit: int | None,
) -> Corpus:
    pairs: list[Pair] = []
    problems: list[LineProblem] = []
    for item in items:
        if isinstance(item, LineProblem):
            problems.append(item)
            continue
        pairs.append(item)
        if len(pairs) == limit:
            break
    corpus = Corpus(tuple(pairs), tuple(problems))
    if not pairs:
        raise no_pairs(paths, corpus.left_out)
    return corpus


def _hints(left_out: LeftOut) -> Iterator[str]:
    yield from left_out.summary() or ["it is empty"]
    if left_out.has("one column"):
        yield "put a tab between source and target, or give the targets as a second file"
    if left_out.has("not UTF-8"):
        yield "save it as UTF-8"


def _lengths_differ(paths: tuple[str, ...]) -> str:
    counts = []
    for path in paths:
        with open_bytes(path) as file:
            counts.append(f"{path} has {sum(1 for _ in decoded(file, path))} lines")
    return f"{' and '.join(counts)}: line by line they should be translations of each other"
