"""Translations: their number and order, independence of the batch, scores and traces."""

import math
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard.building.translators import build_translation
from regard.config import SearchConfig
from regard.data.special_tokens import END, UNKNOWN
from regard.errors import UserError
from regard.pipeline.train import train
from regard.search import beam
from regard.tasks.translation.limits import LengthLimit
from regard.tasks.translation.model import SCORED_AT_A_TIME, TranslationModel
from regard.trace import Trace
from tests import configs
from tests.messages import raises
from tests.small_runs import small


@pytest.fixture(scope="module")
def translator(run):
    return TranslationModel.load(run)


TEXTS = ["a b c", "", "z", "q r s t u v w", "   ", "a", "c b a", "unknown words", "b " * 40]


@pytest.mark.parametrize("beam", [1, 3])
def test_translations_do_not_depend_on_the_batch(translator, beam):
    search = SearchConfig(beam=beam, max_length=12)
    together = translator.translate(TEXTS, search=search, attention=False)
    assert [each.source for each in together] == TEXTS
    for text, found in zip(TEXTS, together, strict=True):
        alone = translator.translate(text, search=search, attention=False)
        assert alone.text == found.text
        assert alone.score == pytest.approx(found.score, abs=1e-4)


def test_blank_lines_have_blank_translations(translator):
    for found in translator.translate(["", " \t "]):
        assert found.text == ""
        assert found.trace is None


def test_texts_may_be_an_iterator(translator):
    outputs = translator.translate(iter(TEXTS), attention=False)
    assert outputs == translator.translate(TEXTS, attention=False)
    assert translator.translate(dict.fromkeys(TEXTS), attention=False) == outputs


@pytest.mark.parametrize("num_best", [0, -2])
def test_num_best_below_one_is_rejected(translator, num_best):
    with pytest.raises(UserError, match=f"num_best .* is {num_best}: expected 1 or more"):
        translator.translate("a b", num_best=num_best)


def test_a_beam_is_short_for_the_runs_search_with_this_beam(translator):
    own = translator.experiment.search
    outputs = translator.translate(TEXTS, beam=4, attention=False)
    assert outputs == translator.translate(TEXTS, search=replace(own, beam=4), attention=False)
    assert translator.translate("q r s", beam=4).trace.lattice.tokens


@pytest.mark.parametrize(
    "arguments",
    [
        {"beam": 2, "search": SearchConfig(beam=3)},
        {"beam": 0},
    ],
)
def test_an_impossible_beam_is_rejected(translator, arguments):
    with raises(UserError):
        translator.translate("a b", **arguments)


def test_a_trace_has_the_output_and_its_attention(translator):
    best = translator.translate("a b c", search=SearchConfig(beam=3, max_length=9), num_best=3)
    for output in (best, *best.alternatives):
        trace = output.trace
        assert trace.source.pieces == ("a", "b", "c", "<eos>")
        assert trace.target.text == output.text
        assert output.attention.shape == (1, 1, len(trace.target.pieces), 4)
        np.testing.assert_allclose(output.attention.sum(axis=-1), 1, rtol=1e-5)
        assert len(trace.steps) == len(trace.target.pieces)
        for step in trace.steps:
            assert step.top[0][1] >= step.log_probability - 1e-6
            assert step.entropy >= 0
        assert Trace.from_json(trace.to_json()) == trace
    assert len(best.alternatives) == 2
    assert best.score >= best.alternatives[0].score >= best.alternatives[1].score
    assert len({output.text for output in (best, *best.alternatives)}) == 3


def test_forced_scores_equal_those_of_the_search(translator):
    search = SearchConfig(max_length=30, length_penalty=0.0)  # a sum, as `score` gives
    outputs = translator.translate(["a b c", "z"], search=search)
    ended = [output for output in outputs if output.trace.target.pieces[-1] == "<eos>"]
    assert ended
    for output in ended:
        (scored,) = translator.score([(output.source, output.text)])
        assert scored.score == pytest.approx(output.score, abs=1e-4)
        np.testing.assert_allclose(scored.attention, output.attention, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("width", "num_best"), [(1, 1), (3, 2)])
@pytest.mark.parametrize("family", ["translation", "transformer"])
def test_returning_attention_changes_no_text(family, width, num_best, precision, trained):
    """And the weights of a search in bfloat16 are as exact as others."""
    translator = TranslationModel.load(trained(family))
    search = SearchConfig(beam=width, max_length=9, precision=precision)
    plain = translator.translate(TEXTS, search=search, num_best=num_best, attention=False)
    traced = translator.translate(TEXTS, search=search, num_best=num_best)
    for one, other in zip(plain, traced, strict=True):
        texts = ([each.text, *(rest.text for rest in each.alternatives)] for each in (one, other))
        assert len({tuple(each) for each in texts}) == 1
        assert other.score == pytest.approx(one.score, abs=1e-4)
        assert one.maps == ()
        for each in other.maps:
            assert each.weights.dtype == np.float32
            np.testing.assert_allclose(each.weights.sum(axis=3), 1, atol=1e-5)


def test_traces_beyond_attention_need_a_forced_pass(run, monkeypatch):
    reads = []
    translator = TranslationModel.load(run)
    read = translator._tracer._score

    def watched(written, **how):
        reads.append([each.text for each in written])
        return read(written, **how)

    monkeypatch.setattr(translator._tracer, "_score", watched)
    outputs = translator.translate(["a b c", "z"], search=SearchConfig(beam=2, max_length=9))
    for each in outputs:
        np.testing.assert_array_equal(each.attention, each.maps[0].weights)
    assert not reads
    first, second = (each.trace for each in outputs)
    assert reads == [["z", "a b c"]]  # sorted by length, in one batch
    assert first.attention == outputs[0].maps
    assert len(second.lattice.tokens) >= len(second.steps)


def test_copies_of_a_translation_hold_no_model(translator):
    translation = translator.translate(
        "a b c", search=SearchConfig(beam=3, max_length=9), num_best=2
    )
    written = pickle.dumps(translation)
    assert b"torch" not in written
    for one, other in zip(
        (translation, *translation.alternatives),
        (again := pickle.loads(written), *again.alternatives),
        strict=True,
    ):
        assert (one, one.trace, one.maps) == (other, other.trace, other.maps)
        assert one.lazy_trace.score == other.lazy_trace.score


def test_a_more_probable_target_scores_higher(translator):
    translation = translator.translate("a b c")
    right, wrong = translator.score([("a b c", translation.text), ("a b c", "z z z z z z")])
    assert right.score > wrong.score
    assert right.score == pytest.approx(sum(step.log_probability for step in right.trace.steps))


SIDES = ("source", "target")
PAIRS = [("a b c", "x"), ("z", "q r s"), ("a " * 31, "b " * 23), ("q", "a b"), ("b c", "c b")]


@pytest.fixture
def few_at_a_time(monkeypatch):
    """The bound on scored batches, lowered as far as the texts of these tests are shorter."""
    assert SCORED_AT_A_TIME.tokens == 4096
    bound = replace(SCORED_AT_A_TIME, tokens=256)
    monkeypatch.setattr("regard.tasks.translation.model.SCORED_AT_A_TIME", bound)
    return bound.tokens


@pytest.mark.parametrize("attention", [True, False])
def test_scores_do_not_depend_on_the_batch(translator, few_at_a_time, attention):
    every_alone = [translator.score([pair])[0] for pair in PAIRS]
    together = translator.score(PAIRS * 17, attention=attention)
    for pair, alone, found in zip(PAIRS * 17, every_alone * 17, together, strict=True):
        assert (found.source, found.text) == pair
        assert found.score == pytest.approx(alone.score, rel=1e-4)
        assert len(found.trace.steps) == len(alone.trace.steps)
        assert bool(found.trace.attention) is attention


def test_long_pairs_are_scored_in_small_batches(translator, few_at_a_time, monkeypatch):
    read, sizes = translator._tracer.forced, []

    def watched(written, **how):
        longest = (max(len(getattr(each, side)) for each in written) for side in SIDES)
        sizes.append((len(written), len(written) * sum(longest)))
        return read(written, **how)

    monkeypatch.setattr(translator._tracer, "forced", watched)
    translator.score([("a " * 250, "b " * 20), *PAIRS * 17], attention=False)
    assert sizes[0] == (1, 251 + 21)  # more than the bound, so alone
    assert max(positions for _, positions in sizes[1:]) <= few_at_a_time


def test_blank_pairs_have_no_score(translator):
    assert all(math.isnan(each.score) for each in translator.score([("a", ""), ("a", " \t\u200b")]))
    blank, empty, found = translator.score([("", "a"), ("a", ""), ("a", "b")])
    assert math.isnan(blank.score)
    assert blank.trace is None
    assert math.isnan(empty.score)
    assert empty.trace is None
    assert len(found.trace.steps) == 2
    data = replace(translator.experiment.data, source_end=False, target_end=False)
    endless = TranslationModel(
        replace(translator.experiment, data=data), translator.tokenizers, translator.model
    )
    blank, empty, found = endless.score([(" ", "a"), ("a", ""), ("a", "b")])
    assert [math.isnan(each.score) for each in (blank, empty, found)] == [True, True, False]
    assert blank.trace is empty.trace is None
    assert endless.score([]) == []


def test_length_limits_are_respected(translator):
    long = translator.translate(TEXTS, search=SearchConfig(min_length=6, max_length=6))
    assert all(len(each.trace.target.pieces) == 6 for each in long if each.trace)


def test_a_minimum_length_raises_the_maximum_of_the_ratio(translator):
    search = replace(translator.experiment.search, min_length=60)
    assert search.max_length is None
    assert len(translator.translate("a b", search=search).trace.target.pieces) >= 60


def test_a_minimum_length_above_the_learned_positions_is_rejected(translator):
    model = configs.transformer(size=8, heads=2, positions="learned", max_positions=20)
    sizes = len(translator.tokenizers.source), len(translator.tokenizers.target)
    data = replace(translator.data, max_length=20)
    experiment = replace(translator.experiment, model=model, data=data)
    limited = TranslationModel(experiment, translator.tokenizers, build_translation(model, *sizes))
    with pytest.raises(UserError, match=r"min_length is 21, .* for 20 tokens"):
        limited.translate("a b", search=SearchConfig(min_length=21))
    output = limited.translate("a b", search=SearchConfig(min_length=20))
    assert len(output.trace.target.pieces) == 20


def test_attention_that_was_not_requested_is_an_error(translator):
    with pytest.raises(ValueError, match="attention=False"):
        _ = translator.translate("a", attention=False).attention


def test_the_longest_output_follows_the_training_data(run):
    translator = TranslationModel.load(run)
    ratio = translator.experiment.search.max_ratio
    assert ratio == pytest.approx(2, abs=0.05)
    nn.init.constant_(translator.model.decoder.projection.bias[END : END + 1].detach(), -1e9)
    translation = translator.translate("a b c")
    assert len(translation.trace.target.pieces) == np.ceil(ratio * 4) + 10


def test_greedy_scores_equal_those_of_a_beam_of_one(run):
    translator = TranslationModel.load(run)
    usual = translator.experiment.search
    greedy_output = translator.translate("a b c", search=replace(usual, beam=1), attention=False)
    (read,) = translator.score([("a b c", greedy_output.text)])
    assert greedy_output.score == pytest.approx(read.score / len(read.trace.steps), abs=1e-5)


def test_options_that_need_attention_are_rejected_without_it(run, tmp_path):
    plain = small(epochs=1)
    model = configs.changed(plain.model, wiring="plain", feeding="none")
    train(replace(plain, model=model), tmp_path / "plain")
    translator = TranslationModel.load(tmp_path / "plain")
    usual = translator.experiment.search
    with pytest.raises(UserError, match="no attention that could cover the source"):
        translator.translate("a b c", search=replace(usual, beam=3, coverage_penalty=0.2))
    with raises(UserError, "search.unknown_replacement"):
        translator.translate("a b c", search=replace(usual, unknown_replacement=True))


@pytest.fixture(params=["translation", "transformer"])
def lacking(request, trained):
    """A model that takes <unk> for the likeliest word, wherever it is not sure."""
    translator = TranslationModel.load(trained(request.param))
    with torch.no_grad():
        translator.model.decoder.projection.bias[UNKNOWN] += 4
    return translator


@pytest.mark.parametrize(("beam", "num_best"), [(1, 1), (3, 2)])
def test_unknown_words_may_be_forbidden(lacking, beam, num_best):
    usual = SearchConfig(beam=beam, max_length=7)
    texts = ["a Ω c", "x Ψ", "b"]
    plain, allowed, forbidden = (
        lacking.translate(texts, search=replace(usual, unknown=rule), num_best=num_best)
        for rule in (None, "allow", "forbid")
    )
    assert plain == allowed
    assert any("<unk>" in each.text for each in plain)
    for each in forbidden:
        for hypothesis in (each, *each.alternatives):
            assert "<unk>" not in hypothesis.trace.target.pieces
    with raises(UserError, "search.unknown"):
        replace(usual, unknown="forbid", unknown_replacement=True)


@pytest.mark.parametrize(("beam", "num_best"), [(1, 1), (3, 1), (5, 4)])
def test_an_unknown_word_is_replaced_by_the_attended_word(lacking, beam, num_best):
    usual = SearchConfig(beam=beam, max_length=7)
    search = replace(usual, unknown_replacement=True)
    texts = ["a Ω c", "", "x Ψ", "b"]
    before = lacking.translate(texts, search=usual, num_best=num_best)
    after = lacking.translate(texts, search=search, num_best=num_best)
    fast = lacking.translate(texts, search=search, num_best=num_best, attention=False)
    count = 0
    for same in zip(before, after, fast, strict=True):
        ranked = ((each, *each.alternatives) for each in same)
        for plain, found, untraced in zip(*ranked, strict=True):
            assert found.trace == plain.trace
            assert (untraced.text, untraced.score) == (found.text, found.score)
            assert untraced.trace is None
            words, expected = found.source.split(), []
            for place, piece in enumerate(found.trace.target.pieces if found.trace else ()):
                if piece == "<unk>":
                    seen = sum(head[place] for head in found.attention[-1])
                    piece = words[seen[: len(words)].argmax()]
                expected += [piece] * (piece != "<eos>")
            assert found.text == " ".join(expected)
            count += found.text != plain.text
    assert count >= 3 * num_best


def test_a_lexicon_without_unknown_replacement_is_rejected(run, tmp_path):
    translator = TranslationModel.load(run)
    with raises(UserError, "search.lexicon"):
        translator.translate("a", search=SearchConfig(lexicon=tmp_path / "lexicon.tsv"))


def test_early_stopping_of_the_configuration_reaches_the_search(run, monkeypatch):
    seen = []

    def watched(decoder, memories, limits, settings, **how):
        seen.append(settings.early_stopping)
        return beam(decoder, memories, limits, settings, **how)

    monkeypatch.setattr("regard.tasks.generation.beam_search", watched)
    for early in (True, False):
        search = SearchConfig(beam=2, early_stopping=early)
        TranslationModel.load(run).translate("a b", search=search, attention=False)
    assert seen == [True, False]


def test_long_sources_are_refused_and_the_others_translated(translator):
    assert translator.source_limit() == LengthLimit(2 * translator.data.max_length)
    texts = ["a b", "a " * 125_000, "", "b", "a " * 2_000]
    began = time.process_time()
    results = translator.translate(texts)
    assert time.process_time() - began < 5
    assert [each.is_refused for each in results] == [False, True, False, False, True]
    assert [each.text for each in results][1:3] == ["", ""]
    assert results[1].trace is None
    assert results[0] == translator.translate("a b")
    search = replace(translator.experiment.search, max_source=2, max_length=3)  # "a", end
    bounded = translator.translate(["a b", "a"], search=search)
    assert [each.is_refused for each in bounded] == [True, False]


def test_pairs_beyond_the_length_limit_have_no_score(translator):
    long, short = translator.score([("a " * 6_000, "b"), ("a", "b")])
    assert (long.is_refused, math.isnan(long.score), long.trace) == (True, True, None)
    assert not short.is_refused
    assert short.score == pytest.approx(translator.score([("a", "b")])[0].score)
