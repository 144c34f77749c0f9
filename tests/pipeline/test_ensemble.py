"""Ensembles of runs, compared with their members."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import regard
from regard.config import SearchConfig
from regard.data.examples import Pair
from regard.errors import UserError
from regard.metrics.alignment import trace_links
from regard.pipeline.evaluate import evaluate, save
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.tasks.evaluation import EvaluationOptions
from regard.tasks.translation.model import TranslationModel
from tests import configs
from tests.messages import check_message, raises
from tests.small_runs import RUNS, small

TEXTS = ["a b c", "", "z q r s", "b " * 9]
PAIRS = [("a b c", "x a"), ("z", "q r s"), ("", "a"), ("b c", "c b a z")]


CAPTIONER = RUNS / "captioner"


@pytest.fixture(scope="module")
def other(run, tmp_path_factory):
    """A run of another seed and size with the first one's tokenizers."""
    folder = tmp_path_factory.mktemp("runs") / "other"
    experiment = small(seed=5, epochs=1)
    data = replace(experiment.data, tokenizers_path=run)
    model = configs.changed(experiment.model, size=12, wiring="bahdanau", feeding="none")
    train(replace(experiment, data=data, model=model), folder)
    return folder


def test_tokenizers_of_another_run_are_used_unchanged(run, other):
    for name in ("source.tokenizer.json", "target.tokenizer.json"):
        assert (other / name).read_bytes() == (run / name).read_bytes()


def test_a_missing_tokenizers_path_is_rejected(tmp_path):
    experiment = small(epochs=1)
    data = replace(experiment.data, tokenizers_path=tmp_path / "gone")
    with raises(UserError):
        train(replace(experiment, data=data), tmp_path / "run")


@pytest.mark.parametrize("path", ["spm.model", "codes.bpe", "spm", "runs/captions"])
def test_subword_models_of_other_tools_are_rejected(tmp_path, path):
    (tmp_path / "spm").mkdir()
    for file in ("spm.model", "codes.bpe", "spm/spm.model", "spm/spm.vocab"):
        (tmp_path / file).write_bytes(b"#version: 0.2\n\x0a\x0f")
    shutil.copytree(CAPTIONER, tmp_path / "runs" / "captions")
    experiment = small(epochs=1)
    data = replace(experiment.data, tokenizers_path=tmp_path / path)
    with pytest.raises(UserError) as error:
        train(replace(experiment, data=data), tmp_path / "run")
    check_message(error.value)


def test_tied_all_needs_a_shared_vocabulary(run, tmp_path):
    experiment = small(epochs=1)
    model = configs.changed(experiment.model, tied="all", size=8, embedding=8, feeding="none")
    data = replace(experiment.data, tokenizers_path=run, shared_vocabulary=True)
    different = RunFolder(shutil.copytree(run, tmp_path / "different"))
    page = json.loads(different.target_tokenizer.read_text())
    vocabulary = page["tokenizer"]["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    different.target_tokenizer.write_text(json.dumps(page))
    data = replace(data, tokenizers_path=different.path)
    with pytest.raises(UserError, match=r"model.tied all shares the embeddings"):
        train(replace(experiment, data=data, model=model), tmp_path / "run")


@pytest.mark.parametrize(("beam", "num_best"), [(1, 1), (4, 3)])
def test_an_ensemble_of_one_run_twice_equals_the_run(run, beam, num_best):
    search = SearchConfig(beam=beam, max_length=9)
    alone = TranslationModel.load(run).translate(TEXTS, search=search, num_best=num_best)
    twice = TranslationModel.load(run, run).translate(TEXTS, search=search, num_best=num_best)
    for one, both in zip(alone, twice, strict=True):
        ranked = ((each, *each.alternatives) for each in (both, one))
        for ours, theirs in zip(*ranked, strict=True):
            assert ours.text == theirs.text
            assert ours.score == pytest.approx(theirs.score, abs=1e-5)
            if ours.trace:
                first, second = ours.trace.maps("cross")
                assert ours.trace.map("cross") == first
                np.testing.assert_allclose(first.weights, theirs.attention, atol=1e-6)
                np.testing.assert_array_equal(second.weights, first.weights)


def test_scores_are_the_mean_of_the_probabilities(run, other):
    members = [TranslationModel.load(each).score(PAIRS) for each in (run, other)]
    together = regard.load(run, other).score(PAIRS)
    for both, one, two in zip(together, *members, strict=True):
        if both.trace is None:
            assert one.trace is two.trace is None
            continue
        steps = [[step.log_probability for step in each.trace.steps] for each in (one, two)]
        expected = np.log(np.exp(steps).mean(axis=0))
        np.testing.assert_allclose(
            [step.log_probability for step in both.trace.steps], expected, atol=1e-5
        )
        assert both.score == pytest.approx(expected.sum(), abs=1e-4)
        maps = [each.weights for each in both.trace.maps("cross")]
        for found, alone in zip(maps, (one, two), strict=True):
            np.testing.assert_allclose(found, alone.attention, atol=1e-6)


def test_search_scores_equal_forced_scores(run, other):
    together = TranslationModel.load(run, other)
    search = SearchConfig(beam=3, length_penalty=0.0, coverage_penalty=0.0, max_length=30)
    outputs = [output for output in together.translate(TEXTS, search=search) if output.trace]
    again = together.score([(output.source, output.text) for output in outputs])
    for output, scored in zip(outputs, again, strict=True):
        if output.text and output.trace.target.pieces[-1] == "<eos>":
            assert scored.score == pytest.approx(output.score, abs=1e-4)


def test_links_use_the_mean_over_members(run, other):
    trace = TranslationModel.load(run, other).translate("a b c d").trace
    mean = sum(each.weights[0, 0] for each in trace.maps("cross")) / 2
    expected = {
        (int(row.argmax()), place)
        for place, row in enumerate(mean)
        if trace.target.pieces[place] != "<eos>" and row.argmax() < 4
    }
    assert set(trace_links(trace)) == expected


def test_members_with_other_vocabularies_are_rejected(run, other, tmp_path):
    experiment = small(epochs=1)
    data = replace(experiment.data, synthetic_size=60, limit=5, dev_size=2, test_size=2)
    train(replace(experiment, data=data), tmp_path / "few")
    with raises(UserError):
        regard.load(run, tmp_path / "few")
    copy = RunFolder(shutil.copytree(other, tmp_path / "copy"))
    copy.record.unlink()
    page = copy.target_tokenizer.read_text()
    copy.target_tokenizer.write_text(page.replace('"lowercase": false', '"lowercase": true'))
    with pytest.raises(UserError, match="their target tokenizers differ"):
        regard.load(run, copy.path)
    copy.target_tokenizer.write_text(page)
    copy.config.write_text(copy.config.read_text().replace("target_end: true", "target_end: false"))
    with pytest.raises(UserError, match=r"data.target_end is true for only one of them"):
        regard.load(run, copy.path)
    page = json.loads(page)
    vocabulary = page["tokenizer"]["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    copy.target_tokenizer.write_text(json.dumps(page))
    with raises(UserError):
        regard.load(run, copy.path)


def test_members_that_were_trained_on_other_data_are_named(run, other, tmp_path, caplog):
    TranslationModel.load(run, other)
    assert caplog.messages == []
    files = []
    for name in ("one", "two"):
        shutil.copytree(run, tmp_path / name)
        folder = RunFolder(tmp_path / name)
        session = json.loads(folder.environment.read_text())[-1]
        folder.write(folder.environment, json.dumps([session | {"data": {"pairs.tsv": name}}]))
        files.append(folder.path)
    TranslationModel.load(run, files[0])  # data that are not recorded
    assert caplog.messages == []
    TranslationModel.load(*files)
    assert caplog.messages == [f"{files[1]} was trained on other files than {files[0]}"]


def test_results_name_the_members(run, other, tmp_path):
    folder = RunFolder(shutil.copytree(run, tmp_path / "run"))
    folder.results.unlink(missing_ok=True)  # of a test that has evaluated the shared run
    together, pairs = TranslationModel.load(folder.path, other), [Pair("a b", "a b", 1)]
    for ensemble in ((), (str(other),), (str(other),)):
        options = EvaluationOptions(together.experiment.search, ensemble=ensemble)
        save(folder, evaluate(together, pairs, options), folder.test)
    entries = json.loads(folder.results.read_text())["test.tsv"]
    assert [each["ensemble"] for each in entries] == [[], [str(other)]]


def test_lengths_are_limited_by_every_member(run, tmp_path):
    experiment = small(epochs=1)
    data = replace(experiment.data, tokenizers_path=run, max_length=12)
    model = configs.transformer(size=8, layers=1, heads=2, feed_forward=8)
    for name, positions in (
        ("long", model),
        ("short", configs.changed(model, positions="learned")),
    ):
        chosen = configs.changed(positions, max_positions=12)
        train(replace(experiment, data=data, model=chosen), tmp_path / name)
    together = regard.load(tmp_path / "long", tmp_path / "short")
    translation = together.translate("a b c", search=SearchConfig(max_length=40, min_length=12))
    assert len(translation.trace.steps) == 12
    assert together.translate("a " * 20).is_refused
    assert not together.translate("a " * 11).is_refused
