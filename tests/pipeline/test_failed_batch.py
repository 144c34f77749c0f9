"""A training whose loss is not finite writes the batch of that update."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from regard.config import ClassificationDataConfig, Experiment, TrainingConfig
from regard.errors import UserError
from regard.pipeline.train import train
from tests import configs
from tests.small_runs import smaller

EXPLODING = dict(learning_rate=1e38, clip=None, accumulate=2, epochs=3)


def failure(experiment, folder):
    """Train until the loss is not finite, and return the message and the tensors of the batch."""
    with pytest.raises(UserError, match=r"so training stopped .* batch is in") as error:
        train(experiment, folder)
    return str(error.value), load_file(folder / "state" / "failed-batch.safetensors")


@pytest.mark.parametrize("copy", ["none", "pointer_generator"])
def test_the_batch_is_written_as_tensors_and_as_lines(tmp_path, copy):
    experiment = smaller(**EXPLODING)
    experiment = replace(experiment, model=configs.changed(experiment.model, copy=copy))
    message, tensors = failure(experiment, tmp_path / "run")
    assert message.endswith(
        f"Its batch is in {tmp_path / 'run/state/failed-batch.safetensors'} (as text in "
        "failed-batch.tsv)"
    )
    lines = (tmp_path / "run/state/failed-batch.tsv").read_text().splitlines()
    assert len(lines) == len(tensors["0.outputs"]) + len(tensors["1.outputs"])
    for line, mask in zip(lines, tensors["0.mask"], strict=False):
        source, target = line.split("\t")
        assert source == target  # the task is to copy
        assert len(target.split()) + 1 == mask.sum()


def test_the_last_good_checkpoint_is_kept(tmp_path):
    failure(smaller(**EXPLODING), tmp_path / "run")
    state = load_file(tmp_path / "run/state/training.safetensors")
    assert all(np.isfinite(values).all() for values in state.values())


def test_a_batch_without_lines_is_written_as_tensors(tmp_path):
    labels = tmp_path / "labels.tsv"
    labels.write_text("".join(f"{x} {y} so\t{x}\n" for x in "abc" for y in "defghi") * 2)
    experiment = Experiment(
        data=ClassificationDataConfig(path=labels, dev_size=2, test_size=0, batch_sentences=8),
        model=configs.classifier(embedding=12, size=8),
        training=TrainingConfig(**EXPLODING),
    )
    message, tensors = failure(experiment, tmp_path / "run")
    assert message.endswith("state/failed-batch.safetensors")
    assert {"0.source.ids", "0.source.mask", "0.targets"} <= tensors.keys()
    lines = (tmp_path / "run/log.jsonl").read_text().splitlines()
    assert all(np.isfinite(json.loads(line).get("loss") or 0) for line in lines)
