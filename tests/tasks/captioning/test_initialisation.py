"""Captioners that start from the weights of another run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.numpy import load_file

from regard import recipes
from regard.building.captioners import build_captioner
from regard.config import CaptionDataConfig, Experiment, TrainingConfig
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.storage.weights import save_weights
from regard.tasks.captioning.initialisation import initialise_from
from tests import configs
from tests.messages import check_message

SOFT = configs.captioner(size=12, channels=(4, 8), embedding=7, attention=dict(size=5))
MODELS = {
    "hard": configs.changed(SOFT, attention=dict(size=5, sampling="hard")),
    "transformer": configs.captioner("transformer", size=12, channels=(4, 8), layers=1, heads=2),
}
DATA = CaptionDataConfig(
    synthetic="shapes", synthetic_size=24, dev_size=5, test_size=5, image_size=16
)


def words(*pieces):
    return Tokenizer.train([" ".join(pieces)], TokenizerSettings(kind="spaces"))


THEIRS, OURS = words("a", "b", "c", "d"), words("d", "new", "b")


def saved(path, model_config, tokenizer):
    """Write a run of this model with random weights. Return its weights."""
    folder = RunFolder(path)
    path.mkdir()
    tokenizer.save(folder.target_tokenizer)
    torch.manual_seed(1)
    model = build_captioner(model_config, DATA.image_size, len(tokenizer))
    save_weights(model, folder.model)
    folder.write(folder.config, recipes.dump(Experiment(data=DATA, model=model_config)))
    return model.state_dict()


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_weights_and_rows_of_shared_words_are_copied(tmp_path, config):
    theirs = saved(tmp_path / "run", config, THEIRS)
    model = build_captioner(config, DATA.image_size, len(OURS))
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = initialise_from(tmp_path / "run", model, OURS)
    for name, tensor in model.state_dict().items():
        if name not in report.by_words:
            assert torch.equal(tensor, theirs[name]), name
            continue
        for number, piece in enumerate(OURS.vocabulary):
            is_known = piece in THEIRS.vocabulary
            row = theirs[name][THEIRS.vocabulary.index(piece)] if is_known else drawn[name][number]
            assert torch.equal(tensor[number], row), (name, piece)
    assert len(report.by_words) == 3  # embedding, and weight and bias of the logits
    check_message(str(report))


def test_a_captioner_with_hard_attention_starts_from_one_with_soft_attention(tmp_path):
    theirs = saved(tmp_path / "run", SOFT, THEIRS)
    model = build_captioner(MODELS["hard"], DATA.image_size, len(THEIRS))
    report = initialise_from(tmp_path / "run", model, THEIRS)
    assert report.new == ("penalties.0.baseline",)
    name = "decoder.attention.attention.attention.{}score.vector"
    assert torch.equal(model.state_dict()[name.format("soft.")], theirs[name.format("")])


def test_other_shapes_are_newly_initialised_and_no_shared_weights_are_an_error(tmp_path):
    saved(tmp_path / "run", SOFT, THEIRS)
    wider = configs.changed(SOFT, size=13)
    report = initialise_from(
        tmp_path / "run", build_captioner(wider, DATA.image_size, len(OURS)), OURS
    )
    assert report.new
    assert all(name.startswith("decoder") for name in report.new)
    transformer = configs.captioner("transformer", size=18, channels=(5, 6), layers=1, heads=2)
    with pytest.raises(UserError, match=r"run shares no weights with this model"):
        initialise_from(
            tmp_path / "run", build_captioner(transformer, DATA.image_size, 5), words("q", "r")
        )


def test_a_training_starts_from_a_run_and_resumes_without_it(tmp_path):
    first = tmp_path / "first"

    def begun(**training):
        settings = TrainingConfig(learning_rate=1e-30, device="cpu", **training)
        return Experiment(data=replace(DATA, batch_sentences=12), model=SOFT, training=settings)

    train(begun(epochs=1, seed=2), first)
    plans = []
    train(begun(epochs=1, initial_run=first), tmp_path / "run", begin=plans.append)
    first.rename(tmp_path / "moved")
    train(begun(epochs=2, initial_run=first), tmp_path / "run", resume=True, begin=plans.append)
    assert plans[0].initialisation.new == ()
    assert plans[1].initialisation is None
    new, old = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "moved"))
    trained = [name for name in old if "running_" not in name and "num_batches" not in name]
    assert [name for name in trained if abs(new[name] - old[name]).max() > 1e-20] == []
