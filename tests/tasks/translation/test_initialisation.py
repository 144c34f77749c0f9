"""Initialisation from another run and frozen parts, checked for each weight and each word."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from regard import recipes
from regard.building.translators import build_translation
from regard.data.batch import pair_batch
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.storage.weights import save_weights
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.initialisation import initialise_from, vocabulary_sides
from regard.tasks.translation.model import TranslationModel
from regard.training.freezing import keep_fixed
from regard.training.losses.loss import CrossEntropy
from tests import configs
from tests.messages import check_message
from tests.small_runs import small, smaller

ATTENTION = dict(size=3)
RECURRENT = configs.recurrent(size=7, embedding=7, attention=ATTENTION)
TRANSFORMER = configs.transformer(size=8, layers=2, heads=2, feed_forward=11, attention=ATTENTION)
BAHDANAU = configs.changed(RECURRENT, wiring="bahdanau", cell="gru", size=5)
MODELS = [RECURRENT, BAHDANAU, configs.changed(RECURRENT, wiring="plain"), TRANSFORMER]


def words(*pieces):
    return Tokenizer.train([" ".join(pieces)], TokenizerSettings(kind="spaces"))


def saved(path, experiment, tokenizers, seed=1):
    """A run of this model with random weights."""
    folder = RunFolder(path)
    path.mkdir()
    tokenizers.save(folder)
    torch.manual_seed(seed)
    model = build_translation(experiment.model, len(tokenizers.source), len(tokenizers.target))
    save_weights(model, folder.model)
    folder.write(folder.config, recipes.dump(experiment))
    return model.state_dict()


THEIRS = Tokenizers(words("a", "b", "c", "d", "e"), words("x", "y", "z"))
THEIRS_MIXED = Tokenizers(words("c", "b", "a"), words("q", "a", "b", "b", "c", "c", "c"))
OURS = Tokenizers(words("e", "new", "b"), words("z", "w", "v", "u", "x", "t"))


@pytest.mark.parametrize("tied", ["none", "output"])
@pytest.mark.parametrize("config", [RECURRENT, TRANSFORMER], ids=lambda config: config.encoder.kind)
def test_shared_words_and_equal_shapes_are_copied(tmp_path, config, tied):
    config = replace(config, tied=tied)
    theirs = saved(tmp_path / "run", replace(small(), model=config), THEIRS)
    model = build_translation(config, len(OURS.source), len(OURS.target))
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    begun = initialise_from(tmp_path / "run", config, model, OURS)
    weights = model.state_dict()
    seen = set()
    for name, tensor in weights.items():
        for ours, other in ((OURS.source, THEIRS.source), (OURS.target, THEIRS.target)):
            if len(tensor) == len(ours) and len(theirs[name]) == len(other):
                seen.add(name)
                for number, piece in enumerate(ours.vocabulary):
                    row = fresh[name][number]
                    if piece in other.vocabulary:
                        row = theirs[name][other.vocabulary.index(piece)]
                    assert torch.equal(tensor[number], row), (name, piece)
        if name not in seen:
            assert torch.equal(tensor, theirs[name]), name
    assert len(seen) == 4
    assert begun.new == ()
    assert [(each.side, each.known, each.size) for each in begun.words] == [
        ("source", 2, 3),
        ("target", 2, 6),
    ]
    check_message(str(begun))


@pytest.mark.parametrize("before", ["none", "output", "all"])
@pytest.mark.parametrize("after", ["none", "output", "all"])
def test_tied_models_initialise_untied_models_and_the_reverse(tmp_path, before, after):
    shared, other = words("a", "b", "c"), words("c", "d", "a", "e")
    tokenizers = Tokenizers(shared, shared)
    theirs = saved(
        tmp_path / "run",
        replace(
            small(),
            model=configs.changed(RECURRENT, tied=before),
            data=replace(small().data, shared_vocabulary=True),
        ),
        tokenizers,
    )
    config = configs.changed(RECURRENT, tied=after)
    model = build_translation(config, len(other), len(other))
    begun = initialise_from(tmp_path / "run", config, model, Tokenizers(other, other))
    assert begun.new == ()
    assert [each.side for each in begun.words] == (
        ["shared"] if after == "all" else ["source", "target"]
    )
    distinct = {"none": 3, "output": 2, "all": 1}[after]
    assert len(begun.by_words) == distinct + 1  # and the bias of the logits
    rows = [other.vocabulary.index(piece) for piece in ("a", "c")]
    first = model.state_dict()["encoder.embedding.weight"][rows]
    expected = theirs["encoder.embedding.weight"][
        [shared.vocabulary.index(piece) for piece in ("a", "c")]
    ]
    assert torch.equal(first, expected)


def test_separate_vocabularies_initialise_a_shared_one_by_side(tmp_path):
    """A piece has one number on both sides here, and two there."""
    theirs = saved(tmp_path / "run", replace(small(), model=RECURRENT), THEIRS_MIXED)
    same = words("a", "b", "c")
    model = build_translation(RECURRENT, len(same), len(same))
    begun = initialise_from(tmp_path / "run", RECURRENT, model, Tokenizers(same, same))
    for name, other in (
        ("encoder.embedding.weight", THEIRS_MIXED.source),
        ("decoder.parts.projection.weight", THEIRS_MIXED.target),
    ):
        rows = [other.vocabulary.index(piece) for piece in same.vocabulary]
        assert torch.equal(model.state_dict()[name], theirs[name][rows])
    assert [(each.side, each.known) for each in begun.words] == [("source", 3), ("target", 3)]


def test_weights_of_other_shapes_are_newly_initialised_and_named(tmp_path):
    theirs = saved(tmp_path / "run", replace(small(), model=RECURRENT), THEIRS)
    config = configs.changed(RECURRENT, size=9, output="linear")
    model = build_translation(config, len(OURS.source), len(OURS.target))
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    begun = initialise_from(tmp_path / "run", config, model, OURS)
    assert "encoder.stack.layers.0.weight_hh_l0" in begun.new
    assert "decoder.parts.projection.weight" in begun.new
    for name in begun.new:
        assert torch.equal(model.state_dict()[name], fresh[name])
    for name in begun.copied:
        assert torch.equal(model.state_dict()[name], theirs[name])
    assert set(begun.by_words) == {
        "encoder.embedding.weight",
        "decoder.parts.embedding.weight",
        "decoder.parts.projection.bias",
    }
    assert f" and {len(begun.new) - 4} more" in str(begun)


def test_a_matrix_of_the_vocabularys_size_is_not_an_embedding():
    """Seven words, and seven units: only what grows with the vocabulary belongs to it."""
    seven = words("a", "b", "c")
    sides = vocabulary_sides(RECURRENT, Tokenizers(seven, words("x", "y", "z")))
    assert sides == {
        "encoder.embedding.weight": "source",
        "decoder.parts.embedding.weight": "target",
        "decoder.parts.projection.weight": "target",
        "decoder.parts.projection.bias": "target",
    }


def test_a_run_without_shared_weights_is_rejected(tmp_path):
    saved(tmp_path / "run", replace(small(), model=RECURRENT), THEIRS)
    strangers = Tokenizers(words("q"), words("r"))
    unrelated = configs.changed(
        RECURRENT, cell="gru", size=9, attention=ATTENTION | dict(score="general")
    )
    model = build_translation(unrelated, len(strangers.source), len(strangers.target))
    with pytest.raises(UserError, match=r"run shares no weights with this model"):
        initialise_from(tmp_path / "run", unrelated, model, strangers)
    with pytest.raises(UserError, match="is not a run"):
        initialise_from(tmp_path / "gone", unrelated, model, strangers)


def gradients(config, parts):
    """Return the gradients of a model's loss, with these parts frozen."""
    torch.manual_seed(3)
    model = build_translation(config, 11, 13).train()
    keep_fixed(model, parts)
    torch.manual_seed(4)
    CrossEntropy(0.1)(model(pair_batch([[4, 5, 6], [7, 2]], [[8, 9, 2], [12, 2]]))).backward()
    return {name: each.grad for name, each in model.named_parameters()}


@pytest.mark.parametrize("config", MODELS, ids=lambda config: getattr(config, "wiring", "-"))
def test_frozen_parts_have_no_gradient_and_the_rest_equal_gradients(config):
    """With every part that a model has, one after the other."""
    free = gradients(config, ())
    parts = {".".join(name.split(".")[:depth]) for name in free for depth in (1, 2, 3)}
    for part in sorted(parts):
        gradients_of_rest = gradients(config, (part,))
        for name, gradient in gradients_of_rest.items():
            if f"{name}.".startswith(f"{part}."):
                assert gradient is None
            else:
                torch.testing.assert_close(gradient, free[name], msg=f"{name}, {part} frozen")


def test_a_tied_weight_is_frozen_by_any_of_its_names():
    model = build_translation(configs.changed(RECURRENT, tied="output"), 11, 13)
    keep_fixed(model, ["decoder.parts.projection"])
    assert not model.decoder.parts.embedding.weight.requires_grad


def test_unknown_parts_to_freeze_are_rejected_by_name():
    model = build_translation(RECURRENT, 11, 13)
    named = (
        r"training.freeze is enc, .* its parts are: decoder, decoder.attention, decoder.parts, enco"
    )
    with pytest.raises(UserError, match=named):
        keep_fixed(model, ["encoder", "enc"])
    with pytest.raises(UserError, match="leaves nothing to train"):
        keep_fixed(build_translation(RECURRENT, 11, 13), ["encoder", "decoder"])


def begun(run, **training):
    experiment = smaller(seed=3, **training)
    data = replace(experiment.data, synthetic="reverse", tokenizers_path=run)
    return replace(experiment, data=data, training=replace(experiment.training, initial_run=run))


def test_a_run_starts_from_the_weights_of_another(run, tmp_path):
    """At a rate of nearly zero it is still there at its end."""
    plans = []
    train(begun(run, epochs=1, learning_rate=1e-30), tmp_path / "new", begin=plans.append)
    old, new = load_file(run / "model.safetensors"), load_file(tmp_path / "new/model.safetensors")
    assert all(np.array_equal(new[name], weights) for name, weights in old.items())
    assert plans[0].initialisation.new == ()
    assert plans[0].num_frozen == 0


def test_frozen_untrained_parameters_are_counted(run, tmp_path):
    plans = []
    how = dict(epochs=1, freeze=("encoder",))
    train(begun(run, **how), tmp_path / "begun", begin=plans.append)
    train(smaller(seed=3, **how), tmp_path / "new", begin=plans.append)
    assert plans[0].num_frozen > plans[0].num_frozen_new == 0
    assert plans[1].num_frozen == plans[1].num_frozen_new > 0


def test_an_initialised_run_resumes_bit_equal_without_the_initial_run(run, tmp_path):
    first = tmp_path / "first"
    shutil.copytree(run, first)
    how = dict(freeze=("encoder.embedding", "decoder.parts"), teacher_forcing=0.5)
    train(begun(first, epochs=2, **how), tmp_path / "whole")
    train(begun(first, epochs=1, **how), tmp_path / "parts")
    shutil.rmtree(first)
    plans = []
    longer = begun(first, epochs=2, **how)
    train(longer, tmp_path / "parts", resume=True, begin=plans.append)
    whole, parts, old = (
        load_file(path / "model.safetensors")
        for path in (tmp_path / "whole", tmp_path / "parts", run)
    )
    assert plans[0].initialisation is None
    for name, weights in whole.items():
        assert np.array_equal(weights, parts[name])
        frozen = name.startswith(how["freeze"])
        assert np.array_equal(weights, old[name]) == frozen, name
    frozen = sum(weights.size for name, weights in old.items() if name.startswith(how["freeze"]))
    assert plans[0].num_frozen == frozen
    assert TranslationModel.load(tmp_path / "parts").translate("a b").text is not None
    changed = begun(first, epochs=2, **{**how, "freeze": ("encoder",)})
    with pytest.raises(UserError, match=r"training.freeze was"):
        train(changed, tmp_path / "parts", resume=True)
