"""The pointer-generator against a loop over words in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.building.translators import build_translation
from regard.data.batch import END, PAD, START, Tokens, pad, with_targets
from regard.models.contracts import Copying, CopyingDecoder
from regard.models.pointer_generator import log_mixture
from regard.search import Limits, forced, greedy, sample
from regard.training.losses.loss import CrossEntropy
from regard.training.losses.pointer_loss import pointer_loss
from tests import configs
from tests.oracles import pointer

NUM_SOURCE, NUM_TARGET = 13, 11
COPIES = [[5, 11, 12, 12, END], [12, 4, END]]
"""Numbers of source pieces: those of the target's 11 words, and 11 and 12 of unknown ones."""
MODELS = {
    "luong": configs.recurrent(size=7, embedding=5, attention=dict(size=11)),
    "fused": configs.recurrent(
        size=7, embedding=5, wiring="bahdanau", attention=dict(size=11), output="deep"
    ),
    "memories": configs.recurrent(size=7, embedding=5, memory_vectors=3, value_layers=(0, 1)),
    "local": configs.recurrent(size=7, attention=dict(scope="local_p", window=2)),
    "sparse": configs.recurrent(size=7, attention=dict(normaliser="sparsemax")),
    "transformer": configs.transformer(size=14, heads=7, layers=2, feed_forward=11),
}


def source(*rows):
    """Return a batch of sources with their copies, or some of its rows without padding."""
    tokens = pad([[4, 6, 7, 7, END], [8, 4, END]])
    tokens = replace(tokens, copies=pad(COPIES).ids)
    if not rows:
        return tokens
    size = int(tokens.mask[list(rows)].sum(dim=1).max())
    part = [values[list(rows), :size] for values in (tokens.ids, tokens.mask, tokens.copies)]
    return Tokens(part[0], part[1], copies=part[2])


def batch():
    return with_targets(source(), [[5, 11, 12, 4, END], [12, END]])


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(5)
    config = configs.changed(MODELS[request.param], copy="pointer_generator")
    return build_translation(config, NUM_SOURCE, NUM_TARGET).double().eval()


def expected(model, batch):
    """Return the mixture and the generator's probabilities of each real target position."""
    decoder = model.decoder
    memories = model.encode(batch.source)
    inputs = torch.where(batch.inputs < NUM_TARGET, batch.inputs, 3)
    output = decoder.inner(inputs, memories, need_weights=True)
    weights = next(block for block in output.attention if block.kind == "cross").weights
    arrays = [values.detach().numpy() for values in (weights, memories[0].values, output.features)]
    weights, values, features = arrays
    own = torch.softmax(decoder.projection(output.features), dim=-1).detach().numpy()
    gate = decoder.gate.weight[0].detach().numpy(), float(decoder.gate.bias)
    mixtures, generators = [], []
    for row, place in batch.mask.nonzero().tolist():
        heads = weights[row, -1, :, place]
        mean = sum(heads) / len(heads)
        # Predictive attention (Luong et al. 2015, eq. 10) has sums below 1
        context = np.zeros(values.shape[2])
        for position, weight in enumerate(mean):
            context += weight * values[row, position]
        logit = gate[1] + gate[0] @ np.concatenate([context, features[row, place]])
        numbers = batch.source.copies[row].tolist()
        mixed = pointer.mixture(
            own[row, place], mean, values[row], features[row, place], gate, numbers
        )
        generate = 1 / (1 + np.exp(-logit))
        rest = (mixed - generate * np.append(own[row, place], np.zeros(len(numbers)))) / sum(mean)
        mixtures.append(generate * np.append(own[row, place], np.zeros(len(numbers))) + rest)
        generators.append(own[row, place])
    return mixtures, generators


def test_probabilities_are_those_of_the_equations_and_sum_to_one(model):
    pairs = batch()
    output = model.decoder(pairs.inputs, model.encode(pairs.source))
    result = pairs.real(output.features).exp().detach().numpy()
    mixtures, _ = expected(model, pairs)
    np.testing.assert_allclose(result, mixtures, atol=1e-12)
    np.testing.assert_allclose(result.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_equations(model, label_smoothing):
    pairs = batch()
    mixtures, generators = expected(model, pairs)
    targets = pairs.real(pairs.outputs).tolist()
    if any(mixed[target] == 0 for mixed, target in zip(mixtures, targets, strict=True)):
        pytest.skip("the attention has no weight on a copied word")
    result = CrossEntropy(label_smoothing)(model(pairs))
    right = pointer.loss(mixtures, generators, targets, label_smoothing)
    np.testing.assert_allclose(result.item(), right, rtol=1e-12)


def test_the_gradient_of_the_loss_reaches_every_parameter(model):
    CrossEntropy(0.1)(model(batch())).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.abs().sum() > 0, name


def test_gradients_are_those_of_finite_differences():
    torch.manual_seed(2)
    numbers = torch.tensor([[4, 7, 8, 7], [0, 8, 8, 2]])
    first = torch.tensor([[0, 1, 2, 1], [0, 1, 1, 3]])
    targets = torch.tensor([[4, 7, 3], [8, 6, 2]])

    def copying(gate, scores):
        weights = torch.softmax(scores, dim=-1)
        return Copying(gate, weights, numbers[:, None].expand(weights.shape))

    def loss(logits, gate, scores):
        parts = copying(gate, scores)
        flat = Copying(
            parts.gate.flatten(), parts.weights.flatten(0, 1), parts.numbers.flatten(0, 1)
        )

        return pointer_loss(logits.flatten(0, 1), flat, targets.flatten(), 0.1)

    def mixture(logits, gate, scores):
        mixed = log_mixture(logits.log_softmax(-1), copying(gate, scores), first)
        return mixed.gather(-1, targets[..., None])

    shapes = (2, 3, 7), (2, 3), (2, 3, 4)
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradcheck(mixture, inputs)


def test_a_target_without_any_probability_has_a_finite_loss_without_gradient():
    logits = torch.zeros(1, 7, requires_grad=True)
    copying = Copying(torch.zeros(1), torch.tensor([[1.0, 0.0]]), torch.tensor([[4, 8]]))

    result = pointer_loss(logits, copying, torch.tensor([8]))
    result.backward()
    assert 20 < result.item() < 40
    assert logits.grad.eq(0).all()


def test_without_attention_to_any_position_words_are_generated():
    logits = torch.randn(1, 1, 7).log_softmax(-1)
    numbers = torch.tensor([[[0, 0]]])
    copying = Copying(torch.zeros(1, 1), torch.zeros(1, 1, 2), numbers)
    result = log_mixture(logits, copying, torch.zeros(1, 2, dtype=torch.long))
    torch.testing.assert_close(result[..., :7], logits)
    assert result[..., 7:].eq(-torch.inf).all()


def test_a_gate_that_always_generates_gives_the_plain_model(model):
    with torch.no_grad():
        model.decoder.gate.weight.zero_()
        model.decoder.gate.bias.fill_(1e4)
    pairs = batch()
    memories = model.encode(pairs.source)
    result = model.decoder(pairs.inputs, memories).features[..., :NUM_TARGET]
    inputs = torch.where(pairs.inputs < NUM_TARGET, pairs.inputs, 3)
    plain = model.decoder.inner(inputs, memories, need_weights=True)
    assert torch.equal(result, model.decoder.projection(plain.features).log_softmax(dim=-1))


def test_an_unknown_word_is_read_as_unknown_and_generated_again(model):
    """A gate that always copies, and attention: the outputs are words of the source alone."""
    with torch.no_grad():
        model.decoder.gate.weight.zero_()
        model.decoder.gate.bias.fill_(-1e4)
    limits = Limits(start=START, end=None, maximum=6, forbidden=(PAD, START))
    memories = model.encode(source())
    for results in (
        greedy(model.decoder, memories, limits),
        sample(model.decoder, memories, limits, generator=torch.Generator().manual_seed(1)),
    ):
        for hypothesis, numbers in zip(results, COPIES, strict=True):
            assert set(hypothesis.tokens) <= set(numbers)


def test_forced_decoding_scores_copied_words(model):
    pairs = batch()
    memories = model.encode(pairs.source)
    result = forced(
        model.decoder, memories, pairs.inputs, pairs.outputs, pairs.mask, num_top=NUM_TARGET
    )
    mixtures, _ = expected(model, pairs)
    targets = pairs.real(pairs.outputs).tolist()
    right = [mixed[target] for mixed, target in zip(mixtures, targets, strict=True)]
    scores = pairs.real(result.log_probabilities).exp().detach()
    np.testing.assert_allclose(scores, right, atol=1e-12)
    assert result.entropy.isfinite().all()


def test_a_memory_without_numbers_is_an_error(model):
    tokens = replace(source(), copies=None)
    with pytest.raises(ValueError, match=r"Tokens\.copies"):
        model.decoder.start(model.encode(tokens))


def test_only_a_pointer_generator_is_a_copying_decoder(model):
    assert isinstance(model.decoder, CopyingDecoder)
    assert not isinstance(model.decoder.inner, CopyingDecoder)
