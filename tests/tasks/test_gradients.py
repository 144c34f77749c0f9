"""Gradients of outputs as maps, against differences of log probabilities."""

import numpy as np
import pytest
import torch

from regard.building.classifiers import build_classifier
from regard.building.translators import build_translation
from regard.data.batch import START, pad
from regard.data.labels.encoded import EncodedSource, pad_sources
from regard.tasks.gradients import prediction_gradients, target_gradients
from tests import configs

SOURCE, TARGET = [4, 5, 6, 7], [8, 4, 2]
STEP = 1e-5
MODELS = {
    "convolution": configs.translation(
        "gated_convolution", "gated_convolution", size=5, layers=2, channels=(3,)
    ),
    "transformer": configs.transformer(size=6, heads=2, layers=1, feed_forward=7),
    "without attention": configs.recurrent(size=6, embedding=5, wiring="plain", encoder_cell="gru"),
}


def differences(embedding, compute):
    """Return the norm of the gradient of each output with respect to each position's embedding,
    from central differences."""
    changes = []
    for position in range(len(SOURCE)):
        for channel in range(embedding.embedding_dim):
            sides = []
            for step in (STEP, -STEP):

                def shifted(_module, _inputs, output, *, step=step):
                    output = output.clone()
                    output[0, position, channel] += step  # noqa: B023 (the hook is removed below)
                    return output

                hook = embedding.register_forward_hook(shifted)
                sides.append(compute().detach())
                hook.remove()
            changes.append((sides[0] - sides[1]) / (2 * STEP))
    gradients = torch.stack(changes).view(len(SOURCE), -1, changes[0].numel())
    return gradients.norm(dim=1).T.numpy()


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_shares_of_the_gradient_of_each_target_token(name):
    torch.manual_seed(3)
    model = build_translation(MODELS[name], 13, 11).double().eval()

    def log_probabilities():
        inputs = torch.tensor([[START, *TARGET[:-1]]])
        features = model.decoder(inputs, model.encode(pad([SOURCE]))).features[0]
        logs = model.decoder.project(features).log_softmax(dim=-1)
        return logs[range(len(TARGET)), TARGET]

    part = model.encoder
    embedding = part.embedder.embedding if hasattr(part, "embedder") else part.embedding
    norms = differences(embedding, log_probabilities)
    result = target_gradients(model, pad([SOURCE]), TARGET)
    assert result.kind == "gradient"
    expected = norms / norms.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result.weights[0, 0], expected, rtol=1e-4)
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("is_label", [True, False])
def test_a_prediction_has_one_row(is_label):
    torch.manual_seed(3)
    config = configs.classifier("gated_convolution", size=5, layers=1, channels=(3,))
    model = build_classifier(config, 13, 0, 3).double().eval()
    source = pad_sources([EncodedSource(SOURCE, None)])

    def output():
        predictions = model(source).predictions[0]
        return predictions.log_softmax(dim=0).amax() if is_label else predictions.sum()

    norms = differences(model.encoder.embedder.embedding, output)
    result = prediction_gradients(model, source, is_label=is_label)
    np.testing.assert_allclose(result.weights[0, 0], norms / norms.sum(), rtol=1e-4)


def test_positions_outside_every_window_have_no_gradient():
    """The last state of two layers of width 3 reads five positions."""
    torch.manual_seed(3)
    config = configs.classifier("gated_convolution", "last", size=5, layers=2, channels=(3,))
    model = build_classifier(config, 13, 0, 3).eval()
    source = pad_sources([EncodedSource([4, 5, 6, 7, 8, 9, 10], None)])
    weights = prediction_gradients(model, source, is_label=True).weights[0, 0, 0]
    assert (weights > 0).tolist() == [False] * 4 + [True] * 3


def test_gradients_are_computed_in_inference_mode():
    model = build_translation(MODELS["without attention"], 13, 11).eval()
    source = pad([SOURCE])
    with torch.inference_mode():
        weights = target_gradients(model, source, TARGET).weights
    np.testing.assert_allclose(weights.sum(axis=3), 1, rtol=1e-5)


def test_the_gradient_of_a_token_with_a_probability_near_one_is_exact():
    """1 - p has no correct digit in float32 if p is nearly 1."""
    torch.manual_seed(3)
    model = build_translation(MODELS["without attention"], 13, 11).eval()
    with torch.no_grad():
        model.decoder.projection.bias[TARGET] = 18.0
        model.decoder.projection.bias[TARGET[0]] = 36.0
    single = target_gradients(model, pad([SOURCE]), TARGET[:1]).weights
    double = target_gradients(model.double(), pad([SOURCE]), TARGET[:1]).weights
    np.testing.assert_allclose(single, double, rtol=1e-3)
