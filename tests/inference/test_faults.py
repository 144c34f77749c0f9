"""Faults as numbers of lines, joined over parts, and as sentences."""

import json
from dataclasses import asdict

from regard.data.files.lines import LineProblem
from regard.data.text.features import FeatureTokenizer
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.inference.faults import Faults, Limits, sentences
from regard.tasks.source_form import SourceForm
from tests.messages import check_message

TEXT = Tokenizer.train(["ab cd"], TokenizerSettings(kind="spaces"))


def test_problems_of_many_kinds_are_reported_together():
    faults, form = Faults(), SourceForm(("2",), FeatureTokenizer(TEXT, ["x"]))
    assert not any(faults.fitting(form, ((n, "a" + "\tx" * n) for n in range(2, 12))))
    lines = list(sentences(faults, Limits()))
    assert (len(lines), faults.num_refused) == (6, 10)
    check_message(lines[-1])


def test_an_unknown_space_is_named():
    faults = Faults(unknown=[4], words=dict.fromkeys(["é", "▁", " "]))
    check_message(*sentences(faults, Limits()))


def test_faults_of_parts_are_joined_in_their_order():
    parts = [
        Faults(
            errors=[str(number)],
            unfit={"a tab": [number]},
            words={f"w{number}": None},
            broken=[LineProblem("in.txt", number, "NUL", "")],
            cut=[number, number],
            num_refused=1,
        )
        for number in (1, 2)
    ]
    as_json = [json.loads(json.dumps(asdict(part))) for part in parts]
    assert Faults.joined(as_json) == Faults(
        errors=["1", "2"],
        unfit={"a tab": [1, 2]},
        words={"w1": None, "w2": None},
        broken=[LineProblem("in.txt", number, "NUL", "") for number in (1, 2)],
        cut=[1, 1, 2, 2],
        num_refused=2,
    )


def test_numbers_of_sources_remain_when_reported_faults_are_cleared():
    faults = Faults(long=[1], unfit={"a tab": [1]}, words={"a": None}, num_refused=1, num_sources=3)
    faults.clear()
    assert faults == Faults(num_refused=1, num_sources=3)
