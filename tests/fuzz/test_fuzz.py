"""The harness: a few inputs for each parser, and what it does with a failure."""

from __future__ import annotations

import random
import time

import pytest

from regard.errors import UserError
from tests.fuzz import fuzzing
from tests.fuzz.fuzzing import fuzz, mutated, report
from tests.fuzz.parsers import PARSERS, Parser


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_reads_its_seeds_and_some_mutations_of_them(name):
    parser = PARSERS[name]
    seeds = list(parser.seeds())
    chance = random.Random(7)
    inputs = [*seeds[:5], *(mutated(seeds, parser.words, chance) for _ in range(10))]
    for content in inputs:
        assert not report(parser, content)


def fail(path):
    content = path.read_bytes()
    if b"b" in content:
        raise KeyError("b")
    if b"c" in content:
        raise UserError("two\nlines")
    if b"d" in content:
        raise UserError("one line")


def test_failures_are_kept_as_files_and_the_seed_repeats_them(monkeypatch, tmp_path):
    parser = Parser(fail, lambda: iter([b"aaaa"]), words=(b"b", b"c", b"d"))
    monkeypatch.setitem(fuzzing.PARSERS, "failing", parser)
    findings = fuzz("failing", 0.5, 5, tmp_path / "kept")
    assert len(findings.failures) == 2
    assert findings.num_refused
    assert "failing: " in str(findings)
    assert "(seed 5)" in str(findings)
    for problem, path in findings.failures.items():
        assert report(parser, path.read_bytes()) == problem
    assert {"KeyError" in problem for problem in findings.failures} == {True, False}
    assert report(parser, b"d") == ""


def test_slow_inputs_are_failures(monkeypatch):
    monkeypatch.setattr(fuzzing, "SLOW", -1.0)
    assert "slower than" in report(Parser(lambda path: None, lambda: iter([b""])), b"")


def test_inputs_whose_reading_never_ends_are_failures(monkeypatch):
    def wait(_path):
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(fuzzing, "ENDLESS", 0.05)
    assert "EndlessError" in report(Parser(wait, lambda: iter([b""])), b"")
