"""Captions of drawn scenes and of pictures in files."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard
from regard import recipes
from regard.cli import main
from regard.config import (
    CaptionDataConfig,
    Experiment,
    SearchConfig,
    TrainingConfig,
)
from regard.data.examples import Pair
from regard.data.generated.scenes import Scene, captions, draw, scenes
from regard.data.images import array_file
from regard.errors import UserError
from regard.models.vision.backbone import Backbone
from regard.pipeline.cost import cost_of
from regard.pipeline.train import train
from regard.tasks.captioning import images
from regard.tasks.captioning.evaluation import evaluate
from regard.tasks.captioning.images import ImageSources
from regard.tasks.captioning.model import CaptionModel
from regard.tasks.evaluation import EvaluationOptions
from tests import configs
from tests.messages import check_message, raises


def small(data, **model):
    return Experiment(
        name="shapes",
        data=replace(data, image_size=32, batch_sentences=16),
        model=configs.captioner(**{"size": 12, "channels": (4, 8, 8), **model}),
        training=TrainingConfig(epochs=1, learning_rate=0.01, device="cpu"),
    )


DRAWN = CaptionDataConfig(synthetic="shapes", synthetic_size=24, dev_size=10, test_size=10)
SCENE = "large red circle top left; small blue square centre"


@pytest.mark.parametrize(
    "model",
    [
        dict(embedding=8, attention=dict(doubly_stochastic=1.0)),
        dict(gate=False),
        dict(attention=dict(sampling="hard")),
        dict(wiring="luong", feeding="attentional"),
        dict(decoder="transformer", layers=1, heads=2),
    ],
)
def test_every_captioner_trains_captions_and_attends(tmp_path, model):
    train(small(DRAWN, **model), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    assert isinstance(captioner, CaptionModel)
    assert len(captioner.caption(SCENE, num_best=2).alternatives) == 1
    check_message(repr(captioner))
    output = captioner.caption(SCENE)
    (block,) = [each for each in output.maps if each.kind == "image"]
    assert block.weights.shape[2:] == (len(output.trace.target.pieces), 16)
    np.testing.assert_allclose(block.weights.sum(axis=-1), 1, atol=1e-4)
    assert output.trace.source.text == SCENE
    assert output.lazy_trace.image().shape[0] == 3
    assert pickle.loads(pickle.dumps(output)).lazy_trace.image() is None
    alone, again = captioner.caption([SCENE, "small white triangle bottom"], attention=False)
    assert alone.text == output.text
    assert alone.trace is again.trace is None


def test_captions_without_attention_are_scored_as_true_or_false(tmp_path):
    train(small(DRAWN, wiring="plain", gate=False), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    options = EvaluationOptions(SearchConfig(max_length=3), held_out=True)
    pairs = [Pair(SCENE, caption, 1) for caption in captions(Scene.of(SCENE))]
    names = [score.name for score in evaluate(captioner, pairs, options).scores]
    assert [name for name in names if name.startswith("true")] == ["true", "true, 2 shapes"]
    assert "attention" not in names


def test_captions_have_known_words_only_unless_unknown_ones_are_allowed(tmp_path):
    train(small(replace(DRAWN, min_count=1000)), tmp_path / "run")  # every word is unknown
    captioner = regard.load(tmp_path / "run")
    search = SearchConfig(max_length=3, min_length=2)
    allowed = captioner.caption(SCENE, search=replace(search, unknown="allow")).text
    assert set(allowed.split()) == {"<unk>"}
    assert captioner.caption(SCENE, search=replace(search, min_length=0)).text == ""


def test_a_resumed_run_is_bit_equal_with_its_baseline(tmp_path):
    experiment = small(DRAWN, attention=dict(sampling="hard"))
    twice = replace(experiment, training=replace(experiment.training, epochs=2))
    train(twice, tmp_path / "whole")
    train(experiment, tmp_path / "parts")
    train(twice, tmp_path / "parts", resume=True)
    whole, parts = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")
    )
    assert whole == parts
    model = regard.load(tmp_path / "parts").model
    assert float(model.penalties[0].baseline) < 0


@pytest.fixture
def folder(tmp_path):
    """Pictures with a .csv, one of which is broken and one missing."""
    rows = ["file,caption"]
    for number, scene in enumerate(scenes(20, seed=5)):
        draw(scene, 40).convert("L" if number % 2 else "RGBA").save(tmp_path / f"{number}.png")
        rows += [f'{number}.png,"{caption}"' for caption in captions(scene)[:2]]
    (tmp_path / "broken.png").write_text("no picture")
    rows += ["broken.png,a broken thing", "gone.png,a lost thing"]
    (tmp_path / "captions.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_image_files_are_read_and_broken_ones_named(folder, capsys):
    data = CaptionDataConfig(path=folder / "captions.csv", dev_size=4, test_size=4)
    lines = []
    train(small(data), folder / "run", begin=lambda plan: lines.extend(plan.left_out))
    (line,) = lines
    assert line.startswith("left out ")
    assert "cannot read the image" in line
    captioner = regard.load(folder / "run")
    assert captioner.caption(folder / "3.png").text
    with pytest.raises(UserError, match=r"cannot read the image .*broken.png"):
        captioner.caption(folder / "broken.png")
    with pytest.raises(UserError, match="cannot read the image"):
        captioner.caption(SCENE)  # this run was not trained on scenes


def test_a_run_is_evaluated_on_its_test_captions_from_any_folder(
    folder, tmp_path_factory, monkeypatch, capsys
):
    monkeypatch.chdir(folder)
    train(small(CaptionDataConfig(path=Path("captions.csv"), dev_size=4, test_size=4)), Path("run"))
    images = [
        {"filename": f"{n}.png", "split": split, "sentences": [{"raw": "a circle"}]}
        for n, split in enumerate(["train", "train", "test"])
    ]
    (folder / "dataset.json").write_text(json.dumps({"images": images}))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert main.run(["evaluate", str(folder / "run")]) == 0
    assert "left out" not in capsys.readouterr().out
    assert main.run(["evaluate", str(folder / "run"), str(folder / "dataset.json")]) == 0
    out = capsys.readouterr().out
    assert "scored on the test captions\n" in out
    assert "1 image, 1 caption" in out

    test_alone = {"images": [{**each, "split": "test"} for each in images]}
    (folder / "dataset.json").write_text(json.dumps(test_alone))
    data = CaptionDataConfig(path=folder / "dataset.json")
    with pytest.raises(UserError, match=r"no training captions: all are for dev or test"):
        train(small(data), folder / "again")


def test_training_without_a_readable_image_is_rejected(folder):
    listed = folder / "train.txt"
    listed.write_text("broken.png\ngone.png\n")
    data = CaptionDataConfig(path=folder / "captions.csv", train_list=listed)
    dev = folder / "dev.txt"
    dev.write_text("1.png\n2.png\n")
    with raises(UserError):
        train(small(replace(data, dev_list=dev, test_size=0)), folder / "run")


def test_evaluation_uses_every_caption_of_an_image_as_a_reference(tmp_path):
    train(small(DRAWN), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    from regard.data.text.parallel import read_pairs

    pairs = read_pairs(tmp_path / "run" / "test.tsv").pairs
    options, progress = EvaluationOptions(captioner.experiment.search), []
    scored = evaluate(
        captioner,
        pairs,
        replace(options, held_out=True),
        on_progress=lambda *each: progress.append(each),
    )
    assert progress[-1] == ("captioning", 0, 2)
    assert (len(pairs), len(scored.outputs)) == (10, 2)
    assert all(len(each.references) == 5 for each in scored.outputs)
    names = [score.name for score in scored.scores]
    assert names[:4] == ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4"]
    assert names[-3:] == ["true", "true, 1 shape", "true, 3 shapes"]
    plain = evaluate(captioner, pairs, options)
    assert plain.scores == scored.scores[:-3]
    assert plain.outputs == scored.outputs


def test_captions_without_their_images_name_the_option(tmp_path):
    names = [str(tmp_path / f"{number}.jpg") for number in range(3)]
    message = f"none of the 3 images is in {tmp_path}, such as 0.jpg: .* --data.images"
    with pytest.raises(UserError, match=message):
        ImageSources(8).image_set(names)


def test_an_image_set_has_every_image_once(tmp_path):
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png")
    name = str(tmp_path / "a.png")
    image_set, left_out = ImageSources(8).image_set([name, name, "gone"])
    assert image_set.names == (name,)
    assert image_set.values.shape == (2, 3, 8, 8)
    assert left_out[0].startswith("left out 1 image: cannot read the image gone")
    with pytest.raises(UserError, match="cannot read any of the 1 images"):
        ImageSources(8).image_set(["gone"])


def test_inconsistent_options_are_one_line(tmp_path):
    with raises(UserError):
        replace(small(DRAWN), data=replace(DRAWN, image_size=33))
    experiment = small(DRAWN)
    wrong = replace(experiment, training=replace(experiment.training, metric="accuracy"))
    with raises(UserError, "training.metric"):
        train(wrong, tmp_path / "run")


def test_the_recipe_has_the_papers_settings():
    experiment = recipes.load(recipes.find("shapes-caption"))
    decoder = experiment.model.decoder
    assert decoder.gate
    assert decoder.attention.sampling == "soft"
    assert decoder.attention.score == "additive"
    assert decoder.attention.doubly_stochastic > 0


@pytest.fixture
def network(tmp_path):
    """A pretrained one, which makes four by four cells."""
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic"
    )
    transformers.ResNetModel(config).save_pretrained(tmp_path / "network")
    return str(tmp_path / "network")


@pytest.mark.parametrize("learns", [False, True])
def test_a_pretrained_backbone_encodes_the_images(folder, network, learns):
    data = CaptionDataConfig(path=folder / "captions.csv", dev_size=4, test_size=4)
    model = dict(encoder="backbone", name=network, fine_tune=learns)
    experiment = replace(small(data), model=configs.captioner(size=12, **model))
    train(experiment, folder / "run")
    before = Backbone.load(network).digest()
    shutil.rmtree(network)  # the run has its own
    captioner = regard.load(folder / "run")
    (block,) = captioner.caption(folder / "3.png").maps
    assert block.weights.shape[-1] == 16
    if learns:
        assert captioner.model.encoder.backbone.digest() != before
    else:
        assert captioner.sources.backbone.digest() == before
    more = replace(experiment, training=replace(experiment.training, epochs=2))
    train(more, folder / "run", resume=True)
    weights = folder / "run" / "backbone" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))
    with raises(UserError, "model.safetensors"):
        regard.load(folder / "run")


def test_a_trained_backbone_is_counted_in_the_parameters(network):
    costs = []
    experiment = small(CaptionDataConfig(path=Path("captions.csv")))
    backbone = configs.captioner(encoder="backbone", size=12, name=network)
    for model in (experiment.model, backbone, configs.changed(backbone, fine_tune=True)):
        costs.append(cost_of(replace(experiment, model=model)))
    assert len({each.num_parameters for each in costs}) == 3
    weights = sum(each.numel() for each in Backbone.load(network).network.parameters())
    assert costs[2].num_parameters - costs[1].num_parameters == weights
    assert costs[2].source_token > costs[1].source_token


def test_search_options_for_texts_are_rejected_for_images(tmp_path):
    train(small(DRAWN), tmp_path / "run")
    captioner = regard.load(tmp_path / "run")
    with pytest.raises(UserError, match="an image has none"):
        captioner.caption(SCENE, search=SearchConfig(unknown_replacement=True))
    with pytest.raises(UserError, match=r"search.max_ratio needs the words of a source"):
        evaluate(
            captioner, [Pair("gone", "a dog", 1)], EvaluationOptions(SearchConfig(max_ratio=2.0))
        )
    covering = SearchConfig(beam=2, coverage_penalty=0.2, max_length=5)
    assert captioner.caption(SCENE, search=covering).score < 0


def test_grid_features_are_cached_and_continue_after_an_interruption(folder, network, monkeypatch):
    monkeypatch.setattr(images, "AT_A_TIME", 2)
    monkeypatch.setattr(array_file, "NOTED_AFTER", 2)
    sources = ImageSources(32, backbone=Backbone.load(network).eval())
    names = [str(folder / f"{number}.png") for number in range(8)]
    first, _ = sources.image_set(names[:3])
    features_of, seen = ImageSources.features_of, []

    def break_off(self, given):
        seen.append(len(given))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return features_of(self, given)

    monkeypatch.setattr(ImageSources, "features_of", break_off)
    with pytest.raises(KeyboardInterrupt):
        sources.image_set(names)
    image_set, _ = sources.image_set(names)
    assert sum(seen) == 8 + 2  # those that it was broken off at were begun twice
    np.testing.assert_allclose(image_set.values[:3], first.values, atol=1e-3)
    sources.image_set(names)
    assert sum(seen) == 8 + 2
    draw(scenes(1)[0], 40).save(names[0])  # another picture of the same name
    sources.image_set(names)
    assert sum(seen) == 8 + 2 + 8
