"""Balance losses and loads of models with experts, and gradients of all their weights."""

import pytest
import torch

from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.data.batch import pad, pair_batch
from regard.data.special_tokens import END, START
from regard.layers.experts import Experts
from tests import configs
from tests.contracts.choices import EXPERTS

TERMS = ["importance", "load"]


@pytest.fixture
def model():
    torch.manual_seed(3)
    config = configs.transformer(
        size=14, heads=7, layers=2, decoder_layers=1, dropout=0.0, experts=EXPERTS
    )
    return build_translation(config, 13, 17)


@pytest.fixture
def batch():
    return pair_batch([[4, 5, 6, 7, 8], [9, 10], [11, 12]], [[4, 5], [6, 7, 8, 9], [10, 11, 12]])


def experts(model):
    return [module for module in model.modules() if isinstance(module, Experts)]


def test_every_layer_adds_two_terms_and_every_side_a_measure(model, batch):
    output = model(batch)
    assert [term.name for term in output.penalties] == TERMS * 3
    assert all(term.is_mean for term in output.penalties)
    assert [measure.name for measure in output.measures] == ["encoder_load", "decoder_load"]
    for measure in output.measures:
        assert 1 <= measure.value <= EXPERTS.number / EXPERTS.active
    model.eval()
    output = model(batch)
    assert (output.penalties, output.measures) == ((), ())


def test_a_measure_is_the_mean_over_layers(model, batch):
    loads = []
    for module in experts(model.encoder):
        module.gate.register_forward_hook(
            lambda _, inputs, choice: loads.append(choice.experts.flatten().bincount(minlength=5))
        )
    measure, _ = model(batch).measures
    assert len(loads) == 2
    largest = [counts.max() / counts.double().mean() for counts in loads]
    assert measure.value.item() == pytest.approx(sum(largest).item() / 2)


def test_padding_of_both_sides_has_no_experts(model):
    targets = [[4, 5, END], [5] * 9 + [END]]
    batch = pair_batch([[4, 5, 6], [4] * 7], targets)
    encoded = model.encoder(batch.source, need_weights=True)
    output = model.decoder(batch.inputs, model.encode(batch.source), need_weights=True)
    for block, mask in (
        (encoded.attention[-1], batch.source.mask),
        (output.attention[-1], batch.mask),
    ):
        assert not mask.all()
        for layer in block.weights[:, :, 0].unbind(dim=1):
            torch.testing.assert_close(layer.sum(dim=-1), mask.float())
            assert layer[~mask].eq(0).all()


@pytest.mark.parametrize(
    "config",
    [
        configs.transformer(size=16, heads=4, dropout=0.0, experts=EXPERTS),
        configs.recurrent(size=16, layers=2, connections="residual", experts=EXPERTS),
    ],
    ids=["transformer", "recurrent"],
)
@torch.no_grad()
def test_steps_equal_a_forced_pass_with_end_among_the_inputs(config, batch):
    torch.manual_seed(3)
    model = build_translation(config, 13, 17).eval()
    inputs = torch.tensor([[START, END, 5, 6], [START, 4, END, 7], [START, 4, 5, END]])
    memories = model.encode(batch.source)
    whole, state = model.decoder(inputs, memories).features, model.decoder.start(memories)
    for position in range(inputs.size(1)):
        step, state = model.decoder.step(inputs[:, position : position + 1], state)
        torch.testing.assert_close(step.features[:, 0], whole[:, position])


def test_training_reaches_every_parameter_through_outputs_and_terms(model, batch):
    output = model(batch)
    terms = sum(term.value for term in output.penalties)
    (output.logits.square().mean() + terms).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


def test_classifiers_have_the_terms_of_their_encoder():
    torch.manual_seed(3)
    sizes = dict(size=14, heads=7, layers=2, experts=EXPERTS)
    classifier = build_classifier(configs.classifier("transformer", "mean", **sizes), 13, 0, 3)
    output = classifier(pad([[4, 5, 6], [7]]))
    assert [term.name for term in output.penalties] == TERMS * 2
    assert [measure.name for measure in output.measures] == ["encoder_load"]
