"""Wrong arguments of public calls raise TypeError or ValueError with what came.

The tests' own check of types would raise before, so the calls run in a Python without it."""

import json
import subprocess
import sys

import pytest

from regard.errors import UserError
from regard.tasks.arguments import check_texts
from tests.messages import check_message, raises

SCRIPT = """
import json, sys
import numpy as np, torch
import regard
from pathlib import Path
from regard.config import *
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.training.settings import Period, TrainingSettings

translator = regard.load(sys.argv[1])
tokenizer = translator.tokenizers.target
odd = dict(bytes=b"abc", none=None, int=3, float=1.5, nested=[["a"]], ints=[1, 2],
    array=np.zeros(2), tensor=torch.zeros(2), nones=[None],
    mixed=["a", 2], bytearray=bytearray(b"a"), object=object(),
    true=True, byteses=[b"a"], table=np.zeros((2, 2)), type=str)
calls = {f"translate {name}": lambda v=v: translator.translate(v) for name, v in odd.items()}
pairs = dict(odd, text="ab", pair=("a", "b"), triples=[("a", "b", "c")], singles=[("a",)],
    numbers=[("a", 1)], texts=["ab"])
calls |= {f"score {name}": lambda v=v: translator.score(v) for name, v in pairs.items()}
calls |= {f"load {name}": lambda v=v: regard.load(v) for name, v in odd.items()}
searches = dict(text="beam", number=4, mapping={"beam": 4}, type=SearchConfig, list=[1], true=True)
calls |= {f"search {name}": lambda v=v: translator.translate("a", search=v)
    for name, v in searches.items()}
counts = dict(text="2", float=2.0, none=None, true=True, list=[2])
calls |= {f"num_best {name}": lambda v=v: translator.translate("a", num_best=v)
    for name, v in counts.items()}
calls |= {f"beam {name}": lambda v=v: translator.translate("a", beam=v)
    for name, v in counts.items() if v is not None}
ids = dict(negative=[-1], float=[1.5], beyond=[10**6], text=["a"], none=[None], nan=[float("nan")],
    huge=[2**70])
calls |= {f"decode {name}": lambda v=v: tokenizer.decode(v) for name, v in ids.items()}
periods = dict(nan=(float("nan"),), float=(1.5,), unit=(1, "day"), text=("1",), none=(None,))
calls |= {f"period {name}": lambda v=v: Period(*v) for name, v in periods.items()}
calls["precision float16"] = lambda: TrainingSettings(precision="float16")
records = [
    (RecurrentEncoderConfig, dict(cell="grru")), (RecurrentEncoderConfig, dict(cell=None)),
    (RecurrentDecoderConfig, dict(key_layers=(1, "a"))),
    (RecurrentDecoderConfig, dict(key_layers=[1])),
    (RecurrentDecoderConfig, dict(attention=None)), (RecurrentDecoderConfig, dict(attention={})),
    (RecurrentEncoderConfig, dict(size="3")), (RecurrentEncoderConfig, dict(size=3.0)),
    (RecurrentEncoderConfig, dict(size=True)), (RecurrentEncoderConfig, dict(bidirectional=1)),
    (TranslationModelConfig, dict(encoder=RecurrentDecoderConfig())),
    (DataConfig, dict(path="x")), (DataConfig, dict(vocabulary=["a"])),
    (DataConfig, dict(source_language=None)), (DataConfig, dict(tokenizer="chars")),
    (TrainingConfig, dict(adam_betas=(0.9,))), (TrainingConfig, dict(precision="float16")),
    (TrainingConfig, dict(clip="1")), (TrainingConfig, dict(learning_rate=None)),
    (SearchConfig, dict(length_penalty="avg")), (SearchConfig, dict(beam=None)),
    (Experiment, dict(data=3)), (Experiment, dict(name=3)), (Experiment, dict(model=None)),
]
for record, fields in records:
    calls[f"{record.__name__} {fields}"] = lambda r=record, f=fields: r(**f)
outcomes = {}
for name, call in calls.items():
    try:
        outcomes[name] = ["returned", repr(call())]
    except Exception as error:
        outcomes[name] = [type(error).__name__, str(error)]
outcomes["dir"] = ["dir", " ".join(dir(regard))]
json.dump(outcomes, open(sys.argv[2], "w"))
"""
EXPECTED = {"TypeError", "ValueError", "UserError"}


@pytest.fixture(scope="module")
def outcomes(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "outcomes.json"
    subprocess.run([sys.executable, "-c", SCRIPT, str(run), str(path)], check=True, timeout=120)
    return json.loads(path.read_text())


def test_wrong_arguments_are_named(outcomes):
    public = outcomes.pop("dir")[1].split()
    assert {"load", "TranslationModel", "attention", "UserError"} <= set(public)
    assert len(outcomes) > 80
    wrong = {name: came for name, came in outcomes.items() if came[0] not in EXPECTED}
    assert wrong == {}
    for name, (_, message) in outcomes.items():
        assert "expected" in message, name
        assert "\n" not in message
        assert len(message) < 400
    check_message(*(f"{name}: {message}" for name, (_, message) in outcomes.items()))


def test_half_of_a_surrogate_pair_is_named():
    with raises(UserError):
        check_texts("texts", ["a", "\ud800x"])
