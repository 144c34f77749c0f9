"""GNMT's decoder: contexts in every layer, and the lowest layer computed before the others."""

import numpy as np
import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import START, pad
from regard.errors import UserError
from regard.exporting import onnx_recurrent
from regard.models.recurrent.unrolling import unroll
from tests import configs
from tests.compiled.recurrent.test_fused_loop import is_fused
from tests.oracles import recurrent as oracle

SOURCE = pad([[4, 5, 6, 7, 8], [9, 10], [11, 12, 4]])
INPUTS = torch.tensor([[START, 4, 5, 6], [START, 7, 8, 3], [START, 9, 11, 3]])
DEEP = dict(layers=4, connections="residual", query="first_layer")


def make(**values):
    torch.manual_seed(3)
    values = {"wiring": "gnmt", "attention": dict(size=11), **DEEP, **values}
    return build_translation(configs.recurrent(size=7, embedding=5, **values), 13, 17)


def results(model, run):
    """Return features, attention weights and the gradients of all parameters."""
    output = run(model.encode(SOURCE))
    weights = output.attention[0].weights
    (output.features.square().sum() + weights.square().sum()).backward()
    gradients = [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]
    model.zero_grad()
    return [output.features.detach(), weights.detach(), *gradients]


@pytest.mark.parametrize(
    ("wiring", "connections"),
    [
        ("gnmt", "none"),
        ("gnmt", "residual"),
        ("gnmt", "fast_forward"),
        ("bahdanau", "residual"),
        ("bahdanau", "fast_forward"),
    ],
)
@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_the_lowest_layer_first_equals_step_by_step(cell, wiring, connections):
    model = make(cell=cell, wiring=wiring, connections=connections).double()
    decoder = model.decoder
    assert is_fused(model)
    expected = results(
        model,
        lambda memories: unroll(decoder, INPUTS, decoder.start(memories), need_weights=True),
    )
    ours = results(model, lambda memories: decoder(INPUTS, memories, need_weights=True))
    for result, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(result, other, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_target_equals_the_equations():
    model = make(cell="lstm", output="linear", bridge="zero").double().eval()
    decoder, memories = model.decoder, model.encode(SOURCE)
    output = decoder(INPUTS, memories, need_weights=True)
    cross, layers = decoder.attention, decoder.parts.stack.layers
    weights = [[oracle.of_layer(layer, "lstm")] for layer in layers]
    score = cross.attention.score
    for row, memory in enumerate(memories[0].values):
        values = memory[SOURCE.mask[row]]
        keys = score.prepare(values).projected.numpy()
        states = [oracle.zeros(layer) for (layer,) in weights]
        for position, token in enumerate(INPUTS[row]):
            query = score.query_weight.numpy() @ states[0].hidden
            scores = np.exp(np.tanh(keys + query) @ score.vector.numpy())
            shown = output.attention[0].weights[row, 0, 0, position, : len(values)]
            np.testing.assert_allclose(shown, scores / scores.sum(), atol=1e-12)
            context = shown.numpy() @ values.numpy()
            embedded = decoder.parts.embedding(token).numpy()
            outputs, states = oracle.residual(
                weights, [np.concatenate([embedded, context])], [context], states
            )
            feature = np.concatenate([context, outputs[-1][0]])
            np.testing.assert_allclose(output.features[row, position], feature, atol=1e-12)


@pytest.mark.parametrize(
    "values",
    [
        dict(query="state"),
        dict(gate=True),
        dict(memory_vectors=3),
        dict(attention=dict(score="general")),
        dict(query="last_two"),
    ],
    ids=str,
)
@torch.no_grad()
def test_other_attention_runs_step_by_step(values):
    model = make(**values).double().eval()
    assert not is_fused(model)
    memories = model.encode(SOURCE)
    state = model.decoder.start(memories)
    expected = unroll(model.decoder, INPUTS, state, need_weights=False)
    torch.testing.assert_close(model.decoder(INPUTS, memories).features, expected.features)


@torch.no_grad()
def test_features_can_be_the_top_output_alone():
    """The projection to logits has the size of the states, as in the paper."""
    ours, theirs = (make(output=output).double().eval() for output in ("state", "linear"))
    assert ours.decoder.projection.in_features == 7
    theirs.load_state_dict(
        ours.state_dict() | {"decoder.parts.projection.weight": theirs.decoder.projection.weight}
    )
    features = [model.decoder(INPUTS, model.encode(SOURCE)).features for model in (ours, theirs)]
    torch.testing.assert_close(features[0], features[1][..., 7:])


def test_one_layer_is_bahdanaus_decoder():
    ours, theirs = (
        make(wiring=wiring, layers=1, query="state", connections="none", gate=True).double()
        for wiring in ("gnmt", "bahdanau")
    )
    assert is_fused(ours)
    theirs.load_state_dict(ours.state_dict())
    features = [model.decoder(INPUTS, model.encode(SOURCE)).features for model in (ours, theirs)]
    torch.testing.assert_close(*features)


def test_the_context_enters_every_layer():
    model = make()
    sizes = [layer.input_size for layer in model.decoder.parts.stack.layers]
    assert sizes == [5 + 7, 7 + 7, 7 + 7, 7 + 7]


def test_onnx_names_the_wiring():
    with pytest.raises(UserError, match="wiring of this model is gnmt"):
        onnx_recurrent.export_recurrent(make())
