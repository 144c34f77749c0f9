"""Loading a run imports the code of its task alone, and no training code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.config import DATA_SECTIONS
from regard.tasks.all_tasks import TASKS

RUNS = Path(__file__).parents[1] / "runs" / "data" / "0.1"
TRAINING = {"regard.training", "regard.runs.splits", "regard.runs.corpora", "regard.data.download"}
USES = {
    "translate": ("bahdanau", 'model.translate("a b c").trace'),
    "classify": ("classifier", 'model.classify("a b c").trace'),
    "caption": ("captioner", "model.sources"),
}
CODE = """
import json, sys, regard
model = regard.load(sys.argv[1])
{use}
print(json.dumps(sorted(sys.modules)))
"""
MODELS = {
    "translate": "regard.tasks.translation.model",
    "classify": "regard.tasks.classification.model",
    "caption": "regard.tasks.captioning.model",
}


def test_every_task_can_be_loaded():
    assert list(TASKS) == list(DATA_SECTIONS) == list(USES)
    assert [task.name for task in TASKS.values()] == list(TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_a_loaded_run_imports_no_training_code_and_no_other_task(task):
    run, use = USES[task]
    code = CODE.format(use=use)
    done = subprocess.run(
        [sys.executable, "-c", code, str(RUNS / run)], capture_output=True, text=True, check=True
    )
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert not {name for name in modules if name.startswith(tuple(TRAINING))}
    assert not modules & {"matplotlib", "sacrebleu"}
    assert modules & set(MODELS.values()) == {MODELS[task]}
