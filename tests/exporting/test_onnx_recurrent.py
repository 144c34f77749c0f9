"""ONNX graphs of recurrent models give equal numbers in onnxruntime."""

from typing import get_args

import numpy as np
import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import pad
from regard.errors import UserError
from regard.models.memory import first_and_last
from regard.names import NormaliserName
from tests import configs, needs
from tests.messages import raises

onnxruntime = needs.export("onnxruntime")
export_recurrent = needs.export("regard.exporting.onnx_recurrent").export_recurrent

SOURCES = [[4, 5, 6, 7, 8, 2], [9, 10, 2], [11, 2]]
SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE = 13, 17

MODELS = {
    f"{cell}, {wiring}": dict(cell=cell, wiring=wiring)
    for cell in ("elman", "gru", "lstm")
    for wiring in ("bahdanau", "luong", "plain")
}
MODELS |= {
    f"fed by {name}": dict(wiring="luong", feeding=name) for name in ("context", "attentional")
}
MODELS["state output"] = dict(output="state", wiring="bahdanau")
MODELS |= {f"{name} output": dict(output=name) for name in ("linear", "tanh", "deep", "summed")}
MODELS |= {"deep, plain": dict(output="deep", wiring="plain")}
MODELS |= {f"{name} bridge": dict(bridge=name) for name in ("copy", "zero")}
MODELS |= {
    "layers": dict(layers=3, cell="gru"),
    "both directions": dict(bidirectional=True, encoder_size=14, layers=2),
    "elman both ways": dict(bidirectional=True, encoder_size=14, cell="elman"),
    "another size": dict(bidirectional=True, encoder_size=10, wiring="bahdanau"),
    "tied": dict(tied="output", embedding=7),
}
SCORES = {
    name: dict(attention=dict(score=name, size=11, temperature=0.5))
    for name in ("dot", "scaled_dot", "general", "additive", "concat", "shared_additive", "cosine")
}


def build(**changes):
    torch.manual_seed(3)
    fields = dict(size=7, embedding=5, attention=dict(size=11)) | changes
    model = build_translation(
        configs.recurrent(**fields), SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE
    )
    for parameter in model.parameters():  # biases that start at zero could be lost unseen
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


class Session:
    """A graph in onnxruntime that takes and gives arrays by name."""

    def __init__(self, model):
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        self.inputs = {each.name for each in self.session.get_inputs()}
        self.outputs = [each.name for each in self.session.get_outputs()]

    def __call__(self, **inputs):
        outputs = self.session.run(None, {name: inputs[name] for name in self.inputs})
        return dict(zip(self.outputs, outputs, strict=True))


def encode(session, sources):
    tokens = pad(sources)
    lengths = tokens.mask.sum(dim=1).numpy()
    outputs = session(source=tokens.ids.numpy(), lengths=lengths)
    return {**outputs, "lengths": lengths}


def go_on(inputs, outputs):
    return inputs | {name.removeprefix("next_"): array for name, array in outputs.items()}


def close(array, tensor):
    np.testing.assert_allclose(array, tensor.detach().numpy(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("changes", [*MODELS.values(), *SCORES.values()], ids=[*MODELS, *SCORES])
def test_encoder_and_steps_equal_those_of_the_model(changes):
    model = build(**changes)
    graphs = export_recurrent(model)
    encoder, decoder = Session(graphs.encoder), Session(graphs.decoder)
    inputs = encode(encoder, SOURCES)
    memories = model.encode(pad(SOURCES))
    state = model.decoder.start(memories)
    close(inputs["hidden"], state.hidden[:, 0])
    if state.cell is not None:
        close(inputs["cell"], state.cell[:, 0])
    if "values" in inputs:
        close(inputs["values"], memories[0].values)
        assert inputs.get("fed", np.zeros((3, 0))).shape == state.fed[:, 0].shape
    for tokens in ([1, 1, 1], [4, 5, 6], [16, 3, 9]):
        outputs = decoder(token=np.array(tokens), **inputs)
        output, state = model.decoder.step(torch.tensor(tokens)[:, None], state, need_weights=True)
        close(outputs["logits"], model.decoder.project(output.features)[:, 0])
        close(outputs["next_hidden"], state.hidden[:, 0])
        if output.attention:
            close(outputs["weights"], output.attention[0].weights[:, 0, 0, 0])
            assert outputs["weights"][1, 3:].max() == 0
        inputs = go_on(inputs, outputs)


def test_one_graph_accepts_any_batch_and_length():
    session = Session(export_recurrent(build(bidirectional=True, encoder_size=14)).encoder)
    alone = [encode(session, [source]) for source in SOURCES]
    together = encode(session, SOURCES)
    for number, source in enumerate(SOURCES):
        for name in ("keys", "values"):
            part = together[name][number, : len(source)]
            np.testing.assert_allclose(part, alone[number][name][0], rtol=1e-5, atol=1e-6)


def test_a_weight_that_is_used_twice_is_stored_once():
    graphs = export_recurrent(build(tied="output", embedding=7))
    sizes = [list(each.dims) for each in graphs.decoder.graph.initializer]
    assert sizes.count([TARGET_VOCABULARY_SIZE, 7]) == 1


@pytest.mark.parametrize("normaliser", sorted({*get_args(NormaliserName)} - {"softmax"}))
def test_unsupported_normalisers_are_named_as_in_a_recipe(normaliser):
    with pytest.raises(UserError, match=f"is {normaliser}: train with softmax"):
        export_recurrent(build(attention=dict(normaliser=normaliser)))


def test_other_models_are_refused():
    config = configs.transformer(size=8, heads=2, layers=1, feed_forward=16)
    with pytest.raises(UserError, match="TransformerDecoder: use --to ctranslate2"):
        export_recurrent(build_translation(config, SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE))
    for kinds in (("transformer", "recurrent"), ("recurrent", "transformer")):
        mixed = build_translation(
            configs.translation(*kinds, size=8), SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE
        )
        with pytest.raises(UserError, match="no export format supports this combination"):
            export_recurrent(mixed)
    model = build()
    model.build_memory = first_and_last
    with pytest.raises(UserError, match="top layer"):
        export_recurrent(model)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_other_stacks_are_refused(part):
    model = build(layers=3, **{f"{part}_connections": "residual"})
    with raises(UserError):
        export_recurrent(model)
