"""Scores by free decoding: each source once, any of its targets right."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from regard.config import SearchConfig
from regard.data.examples import Pair
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.pipeline.evaluate import evaluate, save
from regard.runs.folder import RunFolder
from regard.runs.results import saved_evaluations
from regard.tasks.evaluation import EvaluationOptions
from regard.tasks.generation import GeneratedText
from regard.tasks.translation import evaluation as translation
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.model import TranslationModel


def test_every_target_of_a_source_is_a_reference(run):
    translator = TranslationModel.load(run)
    written = translator.translate("a b c").text
    pairs = [Pair("a b c", "z z", 1), Pair("a b c", f"  {written} ", 2), Pair("b", "q q q", 3)]
    evaluation = evaluate(translator, pairs)
    values = {score.name: score.value for score in evaluation.scores}
    assert evaluation.num_pairs == 3
    assert [output.references for output in evaluation.outputs] == [
        ("z z", written),
        ("q q q",),
    ]
    assert values["exact match"] == 50
    assert all(score.signature for score in evaluation.scores)


def test_error_rates_are_scored_on_request(run):
    translator = TranslationModel.load(run)
    written = translator.translate("a b c").text
    pairs = [Pair("a b c", f"{written} z", 1)]
    plain = evaluate(translator, pairs)
    options = EvaluationOptions(translator.experiment.search, error_rates=True)
    rates = evaluate(translator, pairs, options).scores[len(plain.scores) :]
    words = len(written.split()) + 1
    assert [score.name for score in rates] == ["WER", "CER"]
    assert rates[0].value == pytest.approx(100 / words)
    assert rates[1].value == pytest.approx(200 / len(f"{written} z"))


def test_results_have_raw_outputs_and_earlier_entries(run, tmp_path, monkeypatch):
    translator = TranslationModel.load(run)
    folder = RunFolder(shutil.copytree(run, tmp_path / "run"))
    folder.results.unlink(missing_ok=True)  # of a test that has evaluated the shared run
    evaluation = evaluate(translator, [Pair("a", "a", 1)])
    monkeypatch.chdir(tmp_path)
    for path in (folder.dev, Path("run/test.tsv"), Path("mine.tsv")):
        save(folder, evaluation, path)
    page = saved_evaluations(folder)
    assert set(page) == {"dev.tsv", "test.tsv", str(tmp_path / "mine.tsv")}
    (entry,) = page["dev.tsv"]
    results = {"scores", "slices", "outputs", "environment"}
    assert set(entry) == {"num_pairs", "search", "lowercase", "tokenized", "ensemble"} | results
    assert entry["outputs"][0]["source"] == "a"
    assert {score["name"] for score in entry["scores"]} >= {"BLEU", "chrF", "TER"}


def test_results_have_the_search_and_keep_other_entries(run, tmp_path):
    translator = TranslationModel.load(run)
    folder = RunFolder(shutil.copytree(run, tmp_path / "run"))
    folder.results.unlink(missing_ok=True)  # of a test that has evaluated the shared run
    pairs = [Pair("a", "a", 1), Pair("b", "B", 2)]
    usual = EvaluationOptions(translator.experiment.search)
    wider = replace(usual, search=replace(usual.search, beam=3))
    for _ in range(2):
        save(folder, evaluate(translator, pairs, usual), folder.test)
    assert len(saved_evaluations(folder)["test.tsv"]) == 1
    save(folder, evaluate(translator, pairs[:1], usual), folder.test)
    save(folder, evaluate(translator, pairs, wider), folder.test)
    save(folder, evaluate(translator, pairs, replace(usual, lowercase=True)), folder.test)
    entries = saved_evaluations(folder)["test.tsv"]
    assert [entry["num_pairs"] for entry in entries] == [2, 1, 2, 2]
    assert [entry["search"]["beam"] for entry in entries] == [1, 1, 3, 1]
    assert [entry["lowercase"] for entry in entries] == [False, False, False, True]


def scored(cutting, *texts, **options):
    """Return the scores of these texts with themselves in capitals as references."""
    target = Tokenizer.train(texts, TokenizerSettings(kind=cutting))
    pairs = [Pair(str(number), text.title(), number) for number, text in enumerate(texts)]

    class Reciting(TranslationModel):
        def __init__(self):
            self.tokenizers = Tokenizers(target, target)

        def translate(self, sources, *, search, attention):
            return [GeneratedText(source, texts[int(source)], 0.0) for source in sources]

    return translation.evaluate(
        Reciting(), pairs, EvaluationOptions(SearchConfig(), **options)
    ).scores


def judged(texts, **how):
    """sacrebleu's own BLEU of the same."""
    metric = BLEU(force=True, **how)
    value = metric.corpus_score(list(texts), [[text.title() for text in texts]]).score
    return pytest.approx(value), str(metric.get_signature())


CAPTIONS = ("a man in blue.", "two dogs (brown) run , and 3 more .", "the End")


@pytest.mark.parametrize(("cutting", "cut_as"), [("words", "13a"), ("spaces", "none")])
def test_tokenized_and_lowercased_scores_are_added(cutting, cut_as):
    usual = scored(cutting, *CAPTIONS)
    both = scored(cutting, *CAPTIONS, lowercase=True, tokenized=True)
    lowered = both[len(usual) :]
    assert both[: len(usual)] == usual
    assert [score.name for score in lowered] == [score.name for score in usual]
    assert (both[0].value, both[0].signature) == judged(CAPTIONS, tokenize="13a")
    older = judged(CAPTIONS, tokenize=cut_as, lowercase=True)
    assert (lowered[0].value, lowered[0].signature) == older
    assert lowered[0].value > both[0].value


def test_equal_scores_are_not_repeated():
    usual = scored("spaces", *CAPTIONS)
    assert scored("words", *CAPTIONS, tokenized=True) == scored("words", *CAPTIONS)
    (bleu,) = scored("spaces", *CAPTIONS, tokenized=True)[len(usual) :]
    assert (bleu.value, bleu.signature) == judged(CAPTIONS, tokenize="none")
