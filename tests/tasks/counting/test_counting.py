"""The counting task without its command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.data.generated.counting import MAX_VOCAB_SIZE, to_numbers
from regard.errors import UserError
from regard.models.contracts import HeadOutput
from regard.tasks.counting.counting import (
    Adam,
    Counter,
    accuracy,
    as_trained,
    build_counter,
    build_optimizer,
    check_writable,
    count_letters,
    fit,
    load,
    model_file,
    predicted_counts,
    save,
    settle,
    training_letters,
    two_rates,
)
from regard.tasks.counting.settings import MAX_LETTERS, CountingSettings

SMALL = CountingSettings(steps=5, batchsize=7, hidden=13, max_len=3, vocab_size=2)


def trained(settings: CountingSettings, seed: int = 0) -> Counter:
    model = build_counter(settings, seed)
    generator = torch.Generator().manual_seed(seed)
    letters, optimizer = training_letters(settings), build_optimizer(model, settings)
    losses = list(fit(model, letters, optimizer, settings, generator))
    assert len(losses) == settings.steps
    return Counter(model, settings, len(losses))


def test_saving_and_loading_preserves_a_model(tmp_path: Path) -> None:
    settings = replace(SMALL, separate_values=True, variable_length=True, lr=0.03)
    counter = trained(settings)
    assert save(counter, tmp_path / "new") == model_file(tmp_path / "new")
    again = load(tmp_path / "new")
    assert (again.settings, again.step) == (settings, 5)
    for name, weight in counter.model.state_dict().items():
        assert again.model.state_dict()[name].equal(weight)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("normaliser", ["softmax", "sigmoid", "scaled_softmax"])
def test_a_model_that_returns_numbers_is_saved_with_its_settings(
    tmp_path: Path, normaliser: str
) -> None:
    counter = trained(replace(SMALL, answer="number", normaliser=normaliser))
    again = load(save(counter, tmp_path).parent)
    assert again.settings == counter.settings
    letters = torch.tensor(to_numbers("ABBABA AB"))
    assert count_letters(again, letters).counts == count_letters(counter, letters).counts


def test_predicted_numbers_are_rounded_and_not_negative() -> None:
    output = HeadOutput(torch.tensor([[-0.7, 0.4, 2.6]]))
    counts = predicted_counts(output, replace(SMALL, answer="number"))
    assert counts.tolist() == [[0, 0, 3]]


@pytest.mark.parametrize(("answer", "rates"), [("class", [0.01, 0.1]), ("number", [0.01])])
def test_numbers_have_one_learning_rate(answer: str, rates: list[float]) -> None:
    settings = replace(SMALL, answer=answer)
    model = build_counter(settings, 0)
    optimizer = build_optimizer(model, settings)
    assert [rate for _, rate in optimizer.groups] == pytest.approx(rates)
    assert len(optimizer.parameters) == len(list(model.parameters()))


def test_the_same_seed_trains_the_same_model() -> None:
    one, same, other = (trained(SMALL, seed).model.state_dict() for seed in (3, 3, 4))
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["head.queries"].equal(other["head.queries"])


def test_building_does_not_change_the_global_seed() -> None:
    state = torch.get_rng_state()
    build_counter(SMALL, seed=9)
    assert torch.get_rng_state().equal(state)


def test_learning_rates_are_constant_then_fall_to_zero() -> None:
    assert [settle(progress) for progress in (0.0, 0.5, 0.8)] == pytest.approx([1, 1, 1])
    assert settle(0.9) == pytest.approx(0.5)
    assert settle(1.0) == 0


def test_every_parameter_learns_at_one_of_two_rates() -> None:
    model = build_counter(SMALL, 0)
    (first, low), (last, high) = two_rates(model, 0.01).groups
    assert (low, high) == (0.01, 0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {names[id(parameter)] for parameter in last} == {
        f"head.{layer}.{part}" for layer in ("norm", "output") for part in ("weight", "bias")
    }
    assert len(first) + len(last) == len(names)


def test_adam_equals_torchs_adam() -> None:
    generator = torch.Generator().manual_seed(1)
    mine, theirs = (
        [torch.nn.Parameter(torch.linspace(-1, 1, size)) for size in (3, 5)] for _ in range(2)
    )
    ours = Adam([([mine[0]], 0.02), ([mine[1]], 0.3)], (0.8, 0.9))
    groups = [{"params": [theirs[0]], "lr": 0.02}, {"params": [theirs[1]], "lr": 0.3}]
    torchs = torch.optim.Adam(groups, betas=(0.8, 0.9))
    for factor in (1.0, 0.5, 0.1):
        gradients = [torch.randn(each.shape, generator=generator) for each in theirs]
        ours.step(gradients, factor)
        for other, gradient in zip(theirs, gradients, strict=True):
            other.grad = gradient
        for group, peak in zip(torchs.param_groups, (0.02, 0.3), strict=True):
            group["lr"] = peak * factor
        torchs.step()
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other)


def test_accuracy_requires_every_count_to_be_right() -> None:
    class Always(torch.nn.Module):
        """Model that always predicts one A and no B."""

        def forward(self, letters: torch.Tensor) -> HeadOutput:
            logits = torch.zeros(letters.size(0), 2, 4)
            logits[:, 0, 1] = logits[:, 1, 0] = 1
            return HeadOutput(logits)

    # of the 27 sequences of 3 symbols, those with one A and two blanks: 3
    assert accuracy(Always(), SMALL, 3, 20_011, seed=1) == pytest.approx(3 / 27, abs=0.01)


def test_a_counted_sequence_has_letters_counts_and_weights() -> None:
    counter = trained(SMALL)
    counted = count_letters(counter, torch.tensor(to_numbers("A B")))
    assert counted.text == "A B"
    assert counted.trace.source.pieces == ("A", " ", "B")
    assert counted.trace.target.pieces == tuple(
        f"{letter}={count}" for letter, count in zip("AB", counted.counts, strict=True)
    )
    assert counted.trace.map().weights.sum(axis=-1) == pytest.approx(1)


def test_short_sequences_are_padded_as_in_training() -> None:
    letters = torch.tensor([[1, 2]])
    assert as_trained(letters, SMALL).tolist() == [[1, 2]]
    assert as_trained(letters, replace(SMALL, variable_length=True)).tolist() == [[1, 2, 0]]


def test_files_that_are_not_models_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model at .*model\.safetensors: train one"):
        load(tmp_path)
    model_file(tmp_path).write_bytes(b"not weights")
    with pytest.raises(UserError, match="not a model of the counting task"):
        load(tmp_path)


def test_an_impossible_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write a model into"):
        check_writable(tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 0), ("batchsize", -1), ("hidden", 1), ("max_len", 0), ("vocab_size", 27),
     ("vocab_size", 0), ("lr", 0.0), ("lr", float("nan"))],
)  # fmt: skip
def test_invalid_settings_are_named(name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"^{name} is {value}: expected"):
        replace(SMALL, **{name: value})


def test_vocabularies_are_limited_to_the_alphabet() -> None:
    assert MAX_LETTERS == MAX_VOCAB_SIZE


def test_training_restores_the_floating_point_mode() -> None:
    model = build_counter(SMALL, 0)
    generator = torch.Generator().manual_seed(0)
    steps = fit(model, training_letters(SMALL), two_rates(model, 0.01), SMALL, generator)
    next(steps)
    steps.close()
    assert (torch.tensor(1e-38) / 1000).item() > 0
