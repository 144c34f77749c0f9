"""Parameters against the paper's, FLOPs against torch's own counter and by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard import recipes
from regard.building.translators import build_translation
from regard.config import DataConfig, Experiment, ExpertsConfig, TrainingConfig
from regard.data.batch import pair_batch
from regard.pipeline.cost import cost_of
from regard.recipes.published import PUBLISHED, SYSTEMS
from regard.tasks.training.cost import ASSUMED_WORDS, VocabularySizes, num_multiplied
from tests import configs
from tests.docs.pages import ROOT

SUBWORDS = DataConfig(tokenizer="bpe", vocabulary_size=101, shared_vocabulary=True)


@pytest.mark.parametrize(
    ("name", "millions", "within", "flops"),
    [("wmt14-transformer-base", 65, 0.03, 3.3e18), ("wmt14-transformer-big", 213, 0.01, 2.3e19)],
)
def test_parameter_counts_equal_published_ones(name, millions, within, flops):
    cost = cost_of(recipes.load(recipes.find(name)))
    assert cost.num_parameters / 1e6 == pytest.approx(millions, rel=within)
    assert cost.sizes == VocabularySizes(37000, 37000, False)
    # theirs is what eight GPUs could have done at their peak in the time, ours what was to be done
    assert 0.25 < cost.training / flops < 0.5
    published = PUBLISHED[name][0]
    assert published.flops == pytest.approx(flops, rel=0.02)  # the paper prints two digits


def test_gnmt_has_the_published_numbers_of_parameters_and_multiplications():
    """278 million, and 214 million for each step of both sides (Shazeer et al. 2017, table 2)."""
    cost = cost_of(recipes.load(recipes.find("wmt14-gnmt")))
    assert cost.num_parameters / 1e6 == pytest.approx(278, rel=0.02)
    assert (cost.source_token + cost.target_token) / 6e6 == pytest.approx(214, rel=0.02)


def test_experts_have_the_published_numbers_of_parameters_and_multiplications():
    """8.7 billion, and 85 million for each step of both sides (Shazeer et al. 2017, table 2)."""
    cost = cost_of(recipes.load(recipes.find("wmt14-moe")))
    assert cost.num_parameters / 1e9 == pytest.approx(8.7, rel=0.01)
    assert (cost.source_token + cost.target_token) / 6e6 == pytest.approx(85, rel=0.03)


def columns(*layers):
    """Return the number of weights of LSTMs, given their sizes and the sizes of their inputs."""
    return sum(4 * size * (inputs + size) for size, inputs in layers)


BY_HAND = {
    "wmt14-bytenet": (
        1.2 * (800 * 1600 + 30 * (2 * 1600 * 800 + 3 * 800**2)),
        (800 + 1600) * 1600 + 30 * (2 * 1600 * 800 + 3 * 800**2) + 1600 * 800 + 800 * 323,
    ),
    "wmt14-deep-att": (
        2 * columns((512, 256), *[(512, 1024 + 512)] * 8) + 2 * (512 + 1024) * 1024,
        columns((512, 256 + 1024), *[(512, 1024 + 512)] * 6) + (1024 + 512 + 30000) * 512,
    ),
    "wmt14-moe": (
        2 * columns((512, 512)) + columns((512, 1024)) + (4 * 2 + 2 * 2) * 1024**2,
        columns((1024, 1024 + 512), (1024, 1024 + 512))
        + (4 * 2 + 2 * 2) * 1024**2
        + (512 + 1024) * 512
        + 32000 * 1024,
    ),
}
"""Multiplications for a source token and for a target token, worked out from the papers' sizes."""


@pytest.mark.parametrize("name", BY_HAND)
def test_multiplications_of_recipes_equal_those_worked_out_by_hand(name):
    cost = cost_of(recipes.load(recipes.find(name)))
    assert (cost.source_token / 6, cost.target_token / 6) == pytest.approx(BY_HAND[name])


class TwoOfThree(nn.Module):
    """Three linear layers, of which each token is multiplied by two, with a bias and a table."""

    num_multiplied = 2 * 7 * 11

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(7, 11) for _ in range(3))


def test_modules_count_the_weights_that_a_token_uses():
    side = nn.Sequential(nn.Embedding(13, 7), TwoOfThree(), nn.Linear(11, 5))
    assert num_multiplied(side) == 2 * 7 * 11 + 11 * 5
    assert num_multiplied(TwoOfThree()) == 2 * 7 * 11


def test_published_costs_are_of_recipes():
    assert PUBLISHED.keys() <= {*recipes.names()}


PRINTED = {
    "ByteNet": {},
    "Deep-Att + PosUnk": {"en-fr": 1.0e20},
    "GNMT + RL": {"en-de": 2.3e19, "en-fr": 1.4e20},
    "ConvS2S": {"en-de": 9.6e18, "en-fr": 1.5e20},
    "MoE": {"en-de": 2.0e19, "en-fr": 1.2e20},
    "Transformer (base)": {"en-de": 3.3e18, "en-fr": 3.3e18},
    "Transformer (big)": {"en-de": 2.3e19, "en-fr": 2.3e19},
}
"""FLOPs in table 2 of Vaswani et al. 2017, which has two digits."""


def test_costs_of_all_systems_are_those_of_the_table():
    """GPUs, hours and FLOPs a second give the printed numbers up to rounding."""
    assert [system.name for system in SYSTEMS] == [*PRINTED]
    for system in SYSTEMS:
        flops = {cost.languages: cost.flops for cost in system.costs}
        assert flops == pytest.approx(PRINTED[system.name], rel=0.03), system.name
        assert flops.keys() <= system.pairs.keys()


def scientific(number):
    """Return a number of two digits as the page writes it."""
    digits, exponent = f"{number:.1e}".split("e+")
    return f"{digits} · 10{exponent.translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def test_the_page_on_cost_has_the_numbers_of_all_systems():
    page = (ROOT / "docs" / "transformer.md").read_text(encoding="utf8")
    for system in SYSTEMS:
        cost = cost_of(recipes.load(recipes.find(system.recipe)))
        pair = cost.source_token + cost.target_token
        cells = [system.name, f"{cost.num_parameters / 1e6:,.0f}", f"{pair / 6e6:,.0f}"]
        for languages in ("en-de", "en-fr"):
            is_known = languages in system.pairs
            cells.append(scientific(system.one_pass(languages, pair)) if is_known else "")
            printed = PRINTED[system.name].get(languages)
            cells.append("none" if printed is None else scientific(printed))
        assert f"| {' | '.join(cells)} |".replace("|  |", "| |") in page


@pytest.mark.parametrize("tied", ["none", "output", "all"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_flops_equal_torchs_counter(tied, positions):
    """In the matrix products of a real forward and backward pass, on as many source tokens as
    target tokens."""
    config = configs.transformer(
        size=16, layers=2, decoder_layers=3, feed_forward=24, tied=tied, positions=positions
    )
    model = build_translation(config, 101, 101)
    tokens = [[4, 5, 6, 7, 8, 9, 2]] * 3
    batch = pair_batch(tokens, tokens)
    with FlopCounterMode(display=False) as counter:
        model(batch).logits.sum().backward()
    products = (torch.ops.aten.mm, torch.ops.aten.addmm)
    counted = sum(counter.get_flop_counts()["Global"].get(each, 0) for each in products)
    cost = cost_of(Experiment(model=config, data=SUBWORDS))
    assert 21 * (cost.source_token + cost.target_token) == counted
    assert cost.num_parameters == sum(weight.numel() for weight in model.parameters())


def test_flops_of_experts_equal_torchs_counter():
    """In float64, in which grouped products are products of each expert."""
    experts = ExpertsConfig(number=5, active=2, size=7)
    config = configs.transformer(
        size=16, layers=2, decoder_layers=1, feed_forward=24, experts=experts
    )
    model = build_translation(config, 101, 101).double()
    tokens = [[4, 5, 6, 7, 8, 9, 2]] * 3
    with FlopCounterMode(display=False) as counter:
        output = model(pair_batch(tokens, tokens))
        terms = sum(term.value for term in output.penalties)
        (output.logits.sum() + terms).backward()
    products = (torch.ops.aten.mm, torch.ops.aten.addmm)
    counted = sum(counter.get_flop_counts()["Global"].get(each, 0) for each in products)
    cost = cost_of(Experiment(model=config, data=replace(SUBWORDS, shared_vocabulary=False)))
    assert 21 * (cost.source_token + cost.target_token) == counted


def test_experts_of_a_recipe_cost_as_much_as_one_feed_forward_network():
    """Except for the gates: two weights for each expert and each number of a state."""
    dense, sparse = (
        cost_of(recipes.load(recipes.find(name)))
        for name in ("multi30k-transformer", "multi30k-transformer-experts")
    )
    gates = 6 * 4 * 2 * 8 * 128
    assert sparse.source_token == dense.source_token + gates
    assert sparse.target_token == dense.target_token + gates
    inner_units = 8 * (8 * 128 - 256)  # of both sides
    biases = 8 * 7 * 128
    more = inner_units * (2 * 128 + 1) + biases + 2 * gates // 6
    assert sparse.num_parameters == dense.num_parameters + more


def test_flops_of_a_recurrent_model_worked_out_by_hand():
    model = configs.recurrent(
        cell="gru", size=7, embedding=5, bridge="copy", output="linear", wiring="plain"
    )
    cost = cost_of(Experiment(model=model, data=SUBWORDS))
    gates = 3 * 7 * (5 + 7)
    assert cost.source_token == 6 * gates
    assert cost.target_token == 6 * (gates + 7 * 101)
    biases = 2 * (2 * 3 * 7) + 101
    assert cost.num_parameters == 2 * gates + 7 * 101 + 2 * 101 * 5 + biases


def test_updates_tokens_and_accumulation_multiply():
    data = replace(SUBWORDS, batch_tokens=1000)
    training = TrainingConfig(updates=30, accumulate=4)
    cost = cost_of(Experiment(data=data, training=training))
    assert cost.batch_tokens == 4000
    assert cost.update == 2000 * (cost.source_token + cost.target_token)
    assert cost.training == 30 * cost.update
    by_epochs = cost_of(Experiment(data=data))
    assert (by_epochs.batch_tokens, by_epochs.training) == (1000, None)
    by_sentences = cost_of(Experiment(data=replace(data, batch_sentences=32), training=training))
    assert (by_sentences.update, by_sentences.training) == (None, None)


def test_assumed_vocabularies_are_named():
    def sizes(**data):
        known = cost_of(Experiment(data=DataConfig(**data))).sizes
        return known.source, known.target, known.is_assumed

    assert sizes(tokenizer="unigram") == (8000, 8000, False)
    assert sizes(tokenizer="words") == (ASSUMED_WORDS, ASSUMED_WORDS, True)
    assert sizes(tokenizer="bpe", vocabulary_size=500, target_tokenizer="words") == (500, 500, True)
    assert sizes(vocabulary=("a", "b")) == (5, 5, False)  # with padding, start and end
    assert sizes(synthetic="copy", synthetic_size=500, tokenizer="spaces") == (30, 30, False)
    assert sizes(tokenizer="characters") == (100, 100, True)
    assert sizes(tokenizer="characters", target_tokenizer="spaces") == (100, 100, True)
    assert sizes(tokenizer="spaces") == (ASSUMED_WORDS, ASSUMED_WORDS, True)
    assert sizes(tokenizer="characters", target_tokenizer="bpe") == (100, 8000, True)


def test_only_vocabularies_and_labels_are_printed():
    """Images and numbers have no vocabulary, and the classes of a file are labels, not words."""
    sizes = {name: str(cost_of(recipes.load(recipes.find(name))).sizes) for name in SIZES}
    assert sizes == SIZES


SIZES = {
    "wmt14-transformer-base": "vocabulary 37,000",
    "numbers": "vocabulary 64 and 44",
    "shapes-caption": "vocabulary 32",
    "captions": "vocabulary 8,000, assumed: only the data gives it",
    "trec": "vocabulary 8,000, 2 labels, assumed: only the data gives it",
    "drinks": "vocabulary 34",
    "series": "",
    "values": "",
}


def test_models_of_characters_have_a_small_vocabulary():
    """A run on Multi30k has 2.5 million parameters."""
    cost = cost_of(recipes.load(recipes.find("multi30k-bytenet")))
    assert cost.num_parameters / 1e6 == pytest.approx(2.5, rel=0.02)


REWARDS = {
    ("expected_reward", None): (2 + 6 + 6, 5 * (2 + 6) + 6),
    ("expected_reward", 0.0): (2 + 6, 5 * (2 + 6)),
    ("minimum_risk", None): (2 + 6, 5 * 2 + 6 * 6),
    ("self_critical", None): (2 + 6, 5 * 2 + 2 + 5 * 6),
}
"""FLOPs for each weight that a token of the source, and one of the reference, is multiplied by: to
draw five samples, for the greedy output, to train on them, and for the likelihood."""


@pytest.mark.parametrize(("objective", "weight"), REWARDS)
def test_samples_of_a_reward_are_counted(objective, weight):
    training = TrainingConfig(objective=objective, likelihood_weight=weight)
    cost = cost_of(Experiment(model=configs.recurrent(size=7), data=SUBWORDS, training=training))
    source, target = REWARDS[objective, weight]
    expected = source * cost.source_token + target * cost.target_token
    likelihood = 6 * (cost.source_token + cost.target_token)
    assert cost.times_likelihood(training) == pytest.approx(expected / likelihood)


def test_other_objectives_cost_their_passes():
    cost = cost_of(Experiment(data=SUBWORDS))
    assert cost.times_likelihood(TrainingConfig()) == 1
    assert cost.times_likelihood(TrainingConfig(r_drop=0.5)) == 2
    empty = replace(cost, source_token=0, target_token=0)  # a bag of words with a learned query
    assert empty.times_likelihood(TrainingConfig()) == 1
