"""A model that copies writes names that are not in its training data."""

import math
import random
from dataclasses import replace

import pytest

from regard.building.translators import build_translation
from regard.config import DataConfig, Experiment, SearchConfig, TrainingConfig
from regard.errors import UserError
from regard.pipeline.export import export
from regard.pipeline.train import train
from regard.runs.folder import RunFolder
from regard.tasks.translation.initialisation import initialise_from
from regard.tasks.translation.loaded import TranslationRun
from regard.tasks.translation.model import TranslationModel
from regard.viewing.labels import LabelledMap
from tests import configs
from tests.messages import check_message, raises

FRAMES = (("call {} now", "ruf {} an"), ("{} sleeps", "{} schläft"))
UNSEEN = ["call Brno now", "Graz sleeps", "call Linz now", "Bern sleeps"]
EXPECTED = ["ruf Brno an", "Graz schläft", "ruf Linz an", "Bern schläft"]


def name(draw):
    return "".join(draw.choice("bdgklmnprst") + draw.choice("aeiou") for _ in range(3)).title()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """Pairs of two frames with a different name each, so that every name is an unknown word."""
    draw, path = random.Random(2), tmp_path_factory.mktemp("data") / "pairs.tsv"
    rows = [(name(draw), *draw.choice(FRAMES)) for _ in range(200)]
    text = "".join(f"{source.format(n)}\t{target.format(n)}\n" for n, source, target in rows)
    path.write_text(text, encoding="utf8")
    data = DataConfig(
        path=path, min_count=9, dev_size=10, test_size=0, batch_tokens=None, batch_sentences=16
    )
    training = TrainingConfig(epochs=3, learning_rate=0.04, metric="exact_match")
    model = configs.recurrent(size=16, attention=dict(size=11))
    return Experiment(data=data, model=replace(model, copy="pointer_generator"), training=training)


@pytest.fixture(scope="module")
def folder(experiment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "copies"
    train(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def plain(experiment, folder, tmp_path_factory):
    """Run without copying, initialised from the run with it."""
    without_copying = replace(
        experiment,
        data=replace(experiment.data, tokenizers_path=folder),
        model=replace(experiment.model, copy="none"),
        training=replace(experiment.training, epochs=1, initial_run=folder),
    )
    path = tmp_path_factory.mktemp("runs") / "plain"
    train(without_copying, path)
    return path


@pytest.fixture(scope="module")
def translator(folder):
    return TranslationModel.load(folder)


@pytest.mark.parametrize("beam", [1, 4])
def test_unseen_names_are_copied(translator, beam):
    outputs = translator.translate(UNSEEN, search=SearchConfig(beam=beam))
    assert [output.text for output in outputs] == EXPECTED


def test_a_model_without_copying_cannot_write_them(plain):
    outputs = TranslationModel.load(plain).translate(UNSEEN, attention=False)
    assert all("Brno" not in output.text for output in outputs)


def test_a_trace_has_the_copied_words(translator):
    output = translator.translate(UNSEEN[0], search=SearchConfig(beam=3), num_best=2)
    assert output.trace.target.pieces == ("ruf", "Brno", "an", "<eos>")
    assert [step.token for step in output.trace.steps] == list(output.trace.target.pieces)
    assert output.trace.steps[1].top[0][0] == "Brno"
    assert "Brno" in output.trace.lattice.tokens[1]
    assert output.attention[0, 0, 1].argmax() == 1


def test_steps_and_figures_show_which_words_were_copied(translator, folder, plain):
    lazy_trace = translator.translate(UNSEEN[0]).lazy_trace
    assert lazy_trace.full.copied == (False, True, False, False)
    assert all(0 <= step.copied <= 1 for step in lazy_trace.full.steps)
    drawn = LabelledMap.of_trace(lazy_trace.figure)
    assert drawn.row_labels == ("ruf", "Brno←", "an", "<eos>")
    check_message(drawn.note)
    both = TranslationModel.load(folder, folder).translate(UNSEEN[0]).trace
    for step, alone in zip(both.steps, lazy_trace.full.steps, strict=True):
        assert step.copied == pytest.approx(alone.copied, abs=1e-6)
    without = TranslationModel.load(plain).translate(UNSEEN[0]).trace
    assert {step.copied for step in without.steps} == {None}


def test_scores_of_given_targets_are_those_of_the_search(translator):
    (output,) = translator.translate(UNSEEN[:1], search=SearchConfig(beam=1, length_penalty=0.0))
    given, impossible = translator.score(
        [(UNSEEN[0], EXPECTED[0]), (UNSEEN[0], "ruf Graz an")], attention=True
    )
    total = sum(step.log_probability for step in output.trace.steps)
    assert given.score == pytest.approx(total, abs=1e-4)
    assert math.isfinite(impossible.score)
    assert impossible.score < given.score - 1


def test_translations_do_not_depend_on_the_batch(translator):
    together = translator.translate([*UNSEEN, "call Zürich and Chur and Olten now"])
    for text, output in zip(UNSEEN, together, strict=False):
        assert translator.translate(text).score == pytest.approx(output.score, abs=1e-4)


def test_an_ensemble_copies(folder, translator):
    ensemble = TranslationModel.load(folder, folder)
    for beam in (1, 3):
        search = SearchConfig(beam=beam)
        alone = translator.translate(UNSEEN, search=search, attention=False)
        together = ensemble.translate(UNSEEN, search=search, attention=False)
        for output, single in zip(together, alone, strict=True):
            assert output.text == single.text
            assert output.score == pytest.approx(single.score, abs=1e-4)


def test_what_a_model_that_copies_rejects(experiment, folder, translator, tmp_path):
    with pytest.raises(UserError, match=r"model\.copy pointer_generator\): leave it out"):
        translator.translate("Brno", search=SearchConfig(unknown_replacement=True))
    with raises(UserError, "--model.copy"):
        export(folder, "onnx", tmp_path / "export")
    with raises(UserError):
        configs.changed(experiment.model, wiring="plain")


def test_runs_with_different_outputs_are_no_ensemble(folder, plain):
    with pytest.raises(UserError, match=r"model\.copy is pointer_generator and none"):
        TranslationModel.load(folder, plain)


def test_a_run_without_copying_initialises_one_with_it(experiment, folder, tmp_path):
    first = TranslationRun.load(folder)
    plain = replace(first.config, copy="none")
    model = build_translation(plain, len(first.tokenizers.source), len(first.tokenizers.target))
    report = initialise_from(folder, plain, model, first.tokenizers)
    assert report.new == ()
    inner = first.model.decoder.inner.state_dict()
    assert all((weight == inner[name]).all() for name, weight in model.decoder.state_dict().items())


def test_copying_starts_from_a_run_without_it(experiment, plain):
    first = TranslationRun.load(plain)
    sizes = len(first.tokenizers.source), len(first.tokenizers.target)
    model = build_translation(experiment.model, *sizes)
    report = initialise_from(plain, experiment.model, model, first.tokenizers)
    assert set(report.new) == {"decoder.gate.weight", "decoder.gate.bias"}
    inner = model.decoder.inner.state_dict()
    weights = first.model.decoder.state_dict()
    assert all((weight == inner[name]).all() for name, weight in weights.items())


def test_tokenizers_of_the_run_have_no_copied_words(folder):
    assert "Brno" not in RunFolder(folder).target_tokenizer.read_text(encoding="utf8")
