"""Scores by free decoding: each source once, any of its targets right."""

import json

from regard.data.text import Pair
from regard.pipeline.evaluation import evaluate, save
from regard.pipeline.folder import RunFolder
from regard.pipeline.translator import Translator


def test_any_of_a_sources_targets_is_right(run):
    translator = Translator.load(run)
    search = translator.experiment.search
    written = translator.translate("a b c").text
    pairs = [Pair("a b c", "z z", 1), Pair("a b c", f"  {written} ", 2), Pair("b", "q q q", 3)]
    evaluation = evaluate(translator, pairs, search)
    values = {score.name: score.value for score in evaluation.scores}
    assert evaluation.num_pairs == 3
    assert [output.references for output in evaluation.outputs] == [
        ("z z", written),
        ("q q q",),
    ]
    assert values["exact match"] == 50
    assert all(score.signature for score in evaluation.scores)


def test_results_keep_raw_output_and_what_was_there_before(run):
    translator = Translator.load(run)
    folder = RunFolder(run)
    evaluation = evaluate(translator, [Pair("a", "a", 1)], translator.experiment.search)
    save(folder, evaluation, folder.dev)
    save(folder, evaluation, folder.test)
    page = json.loads(folder.results.read_text())
    assert set(page) == {str(folder.dev), str(folder.test)}
    assert page[str(folder.dev)]["outputs"][0]["source"] == "a"
    assert {score["name"] for score in page[str(folder.dev)]["scores"]} >= {"BLEU", "chrF", "TER"}
