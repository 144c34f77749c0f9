"""Samples in training, their rewards, and short trainings with each objective."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from regard.building.captioners import build_captioner
from regard.building.translators import build_translation
from regard.config import CaptionDataConfig, Experiment, TrainingConfig
from regard.data.batch import END, PAD, START, UNKNOWN, Images, pair_batch, with_targets
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import UserError
from regard.metrics.captions import CiderD
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.search import Limits, greedy
from regard.tasks.training.objectives import gleu, objective_of, sampler_of
from regard.tasks.training.sampling import Sampler
from regard.training.objectives.reward import (
    ExpectedReward,
    MinimumRisk,
    RewardObjective,
    SelfCritical,
)
from regard.training.schedule import Progress
from tests import configs
from tests.small_runs import smaller

TOKENIZER = Tokenizer.train(["a b c d e f g"], TokenizerSettings(kind="spaces"))
SIZE = len(TOKENIZER)
REFERENCES = [[4, 5, END], [6, 7, 8, 9, END], [4, END]]


def words_of(text, references):
    """Reward that depends on text and references."""
    return len(text.split()) + 0.01 * sum(len(each) for each in references)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return build_translation(configs.recurrent(size=7, attention=dict(size=5)), SIZE, SIZE)


def batch():
    return pair_batch([[4, 5, 6, END], [7, 8, END], [9, END]], REFERENCES)


def sampler(**options):
    return Sampler(TOKENIZER, words_of, "gleu", **{"num_samples": 6, "max_length": 7, **options})


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def sequences_of(samples):
    rows = zip(samples.batch.outputs, samples.batch.mask, strict=True)
    return [row[real].tolist() for row, real in rows]


def test_samples_are_sentence_by_sentence_with_their_sources_and_rewards(model):
    model.train()
    samples = sampler()(model, batch(), generator())
    assert model.training
    assert samples.sentences.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert torch.equal(samples.batch.source.ids, batch().source.ids)
    assert torch.equal(samples.batch.rows, samples.sentences)
    sequences = sequences_of(samples)
    assert not {PAD, START, UNKNOWN} & {token for each in sequences for token in each}
    for number, sequence, reward in zip(
        samples.sentences.tolist(), sequences, samples.rewards.tolist(), strict=True
    ):
        assert len(sequence) <= min(2 * len(REFERENCES[number]), 7)
        reference = TOKENIZER.decode(REFERENCES[number][:-1])
        words = len([token for token in sequence if token != END])
        assert reward == pytest.approx(words + 0.01 * len(reference))
    distinct = {(number // 6, *each) for number, each in enumerate(sequences)}
    assert samples.share_distinct == len(distinct) / 18


def test_the_generator_determines_the_samples(model):
    draws = [sequences_of(sampler()(model, batch(), generator(seed))) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_baselines_are_rewards_of_greedy_outputs_without_dropout(model):
    samples = sampler(has_baselines=True)(model.train(), batch(), generator())
    model.eval()
    limits = Limits(
        start=START, end=END, maximum=torch.tensor([6, 7, 4]), forbidden=(PAD, START, UNKNOWN)
    )
    outputs = greedy(model.decoder, model.encode(batch().source), limits)
    expected = [
        words_of(TOKENIZER.decode(output.tokens), [TOKENIZER.decode(reference[:-1])])
        for output, reference in zip(outputs, REFERENCES, strict=True)
    ]
    assert samples.baselines.tolist() == pytest.approx(
        [each for each in expected for _ in range(6)]
    )


def test_probabilities_that_are_not_finite_end_training_with_one_line(model):
    broken = copy.deepcopy(model).train()
    with torch.no_grad():
        broken.decoder.projection.weight.fill_(torch.nan)
    with pytest.raises(UserError, match=r"samples of the model .* not finite"):
        sampler()(broken, batch(), generator())
    assert broken.training


def test_equal_samples_and_empty_ones_are_rewarded(model):
    """A sample that is the end alone has no words."""
    certain = copy.deepcopy(model)
    with torch.no_grad():
        certain.decoder.projection.weight.zero_()
        certain.decoder.projection.bias.zero_()[END] = 1000.0
    rewards = {"gleu": gleu, "cider": CiderD([["a b"], ["c"]]).score}
    for name, reward in rewards.items():
        drawing = Sampler(TOKENIZER, reward, name, 3, 7, has_baselines=True)
        samples = drawing(certain, batch(), generator())
        assert sequences_of(samples) == [[END]] * 9
        assert samples.rewards.tolist() == samples.baselines.tolist() == [0.0] * 9
        assert samples.share_distinct == pytest.approx(1 / 3)
        for loss in (ExpectedReward(), SelfCritical(), MinimumRisk()):
            objective = RewardObjective(drawing, loss)
            value = objective(certain.train(), batch(), Progress(1, 1), generator()).sum
            slopes = torch.autograd.grad(value, [*certain.parameters()], allow_unused=True)
            assert all(float(slope.abs().max()) == 0 for slope in slopes if slope is not None)


def test_sets_are_distinct_with_the_reference(model):
    samples = sampler(has_references=True, num_samples=30)(model, batch(), generator())
    sequences = sequences_of(samples)
    pairs = [*zip(samples.sentences.tolist(), map(tuple, sequences), strict=True)]
    assert len({*pairs}) == len(pairs)
    assert all((number, tuple(each)) in pairs for number, each in enumerate(REFERENCES))
    assert samples.sentences.tolist() == sorted(samples.sentences.tolist())


def test_the_measured_reward_of_a_set_is_the_mean_of_the_draws(model):
    measures = []
    for has_references, loss in ((False, ExpectedReward()), (True, MinimumRisk())):
        drawing = sampler(has_references=has_references, num_samples=30)
        loss = RewardObjective(drawing, loss)(model, batch(), Progress(1, 1), generator())
        measures.append({each.name: float(each.value) for each in loss.measures})
    drawn, of_sets = measures
    assert 0 < of_sets["distinct"] < 1
    assert of_sets == pytest.approx(drawn)


def test_all_captions_of_an_image_are_references():
    config = configs.captioner(size=8, channels=(3, 4), embedding=5, attention=dict(size=5))
    captioner = build_captioner(config, 16, SIZE)
    images = Images(torch.zeros(2, 3, 16, 16, dtype=torch.uint8), torch.tensor([0, 0, 1]))
    texts = []
    reward = Sampler(
        TOKENIZER, lambda _, references: texts.append(references) or 0.0, "cider", 2, 7
    )
    samples = reward(captioner, with_targets(images, REFERENCES), generator())
    assert samples.batch.source.values.size(0) == 2
    assert samples.batch.source.rows.tolist() == [0, 0, 1]
    assert samples.batch.rows.tolist() == [0, 0, 1, 1, 2, 2]
    both = ["a b", "c d e f"]
    assert texts == [both] * 4 + [["a"]] * 2


def test_the_likelihood_needs_no_samples_and_rewards_need_them():
    rewards = {"cider": words_of, "gleu": gleu}
    assert sampler_of(TrainingConfig(objective="likelihood"), TOKENIZER, rewards, 9) is None
    config = TrainingConfig(objective="minimum_risk", samples=4)
    drawing = sampler_of(config, TOKENIZER, rewards, 9)
    assert drawing == Sampler(TOKENIZER, words_of, "cider", 4, 9, has_references=True)
    assert objective_of(config, drawing).likelihood_weight == 0
    google = replace(config, objective="expected_reward")
    assert objective_of(google, drawing).likelihood_weight == 0.017
    with pytest.raises(ValueError, match="expected a sampler"):
        objective_of(config)


def test_gleu_takes_the_best_reference():
    assert gleu("a b c d", ["x", "a b c d"]) == 1
    assert gleu("a, b", ["a , b"]) == 1  # words of 13a


@pytest.mark.parametrize("objective", ["expected_reward", "minimum_risk", "self_critical"])
def test_a_training_with_rewards_resumes_exactly(tmp_path, objective):
    """In the middle of an epoch of two batches."""
    experiment = smaller(objective=objective, samples=2, reward="gleu", updates=3, log_every=1)
    experiment = replace(experiment, data=replace(experiment.data, synthetic_size=80, dev_size=4))
    longer = replace(experiment, training=replace(experiment.training, updates=4))
    train(experiment, tmp_path / "resumed")
    train(longer, tmp_path / "resumed", resume=True)
    train(longer, tmp_path / "whole")
    first, second = (load_file(RunFolder(tmp_path / name).model) for name in ("resumed", "whole"))
    assert all(torch.equal(first[name], second[name]) for name in second)
    lines = map(json.loads, (tmp_path / "resumed" / "log.jsonl").read_text().splitlines())
    measures = [line["measures"] for line in lines if line["kind"] == "train"]
    assert len(measures) == 4
    names = {"reward", "distinct"} | ({"baseline"} if objective == "self_critical" else set())
    assert all(each.keys() == names and 0 <= each["reward"] <= 1 for each in measures)


def test_captions_are_trained_with_the_reward_of_captions(tmp_path):
    data = CaptionDataConfig(
        synthetic="shapes", synthetic_size=20, dev_size=5, test_size=5, image_size=16
    )
    training = TrainingConfig(objective="self_critical", epochs=1, samples=1, log_every=1)
    config = configs.captioner(size=8, channels=(3, 4), embedding=5, attention=dict(size=5))
    train(Experiment(data=data, model=config, training=training), tmp_path / "run")
    assert '"baseline"' in (tmp_path / "run" / "log.jsonl").read_text()
