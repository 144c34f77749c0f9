"""Loading a run imports the code of its task alone, and no training code."""

import json
import os
import subprocess
import sys

import pytest

from regard.config import DATA_SECTIONS
from regard.tasks.all_tasks import TASKS
from tests.small_runs import RUNS

TRAINING = {
    "regard.training",
    "regard.corpora.splits",
    "regard.corpora.sources",
    "regard.data.download",
}
USES = {
    "translate": ("bahdanau", 'model.translate("a b c").trace'),
    "classify": ("classifier", 'model.classify("a b c").trace'),
    "caption": ("captioner", "model.sources"),
}
CODE = """
import json, os, sys, torch
from tests.small_runs import RUNS
for run, use in json.loads(sys.argv[1]):
    if os.fork() == 0:
        import regard
        model = regard.load(run)
        exec(use)
        print(json.dumps(sorted(sys.modules)), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""
"""Imports torch once, and loads each run in a process of its own."""
MODELS = {
    "translate": "regard.tasks.translation.model",
    "classify": "regard.tasks.classification.model",
    "caption": "regard.tasks.captioning.model",
}


def test_every_task_can_be_loaded():
    assert list(TASKS) == list(DATA_SECTIONS) == list(USES)
    assert [task.name for task in TASKS.values()] == list(TASKS)


@pytest.fixture(scope="module")
def modules_of():
    """The modules that are imported after a run of each task was loaded and used."""
    uses = json.dumps([(str(RUNS / run), use) for run, use in USES.values()])
    done = subprocess.run(
        [sys.executable, "-c", CODE, uses], capture_output=True, text=True, check=True
    )
    return dict(zip(USES, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each run is loaded in a fork")
@pytest.mark.parametrize("task", TASKS)
def test_a_loaded_run_imports_no_training_code_and_no_other_task(task, modules_of):
    modules = set(modules_of[task])
    assert not {name for name in modules if name.startswith(tuple(TRAINING))}
    assert not modules & {"matplotlib", "sacrebleu"}
    assert modules & set(MODELS.values()) == {MODELS[task]}
