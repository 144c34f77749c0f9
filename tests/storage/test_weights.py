"""Files of weights, and their mean compared with NumPy in float64."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import UserError
from regard.storage.weights import (
    load_weights,
    mean_weights,
    read_weights,
    save_weights,
    set_weights,
)
from tests.messages import raises
from tests.training.fakes import Tied, tiny_model


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path):
    model, other = Tied(), Tied()
    save_weights(model, tmp_path / "model.safetensors")
    assert sorted(load_file(tmp_path / "model.safetensors")) == [
        "embedding.weight",
        "mean",
        "output.bias",
    ]
    load_weights(other, tmp_path / "model.safetensors")
    assert other.output.weight is other.embedding.weight
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


def test_another_models_weights_are_refused(tmp_path):
    save_weights(Tied(), tmp_path / "model.safetensors")
    with pytest.raises(UserError, match=r"another model.*is missing"):
        load_weights(tiny_model(), tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"not this")
    with pytest.raises(UserError, match="cannot be read"):
        load_weights(tiny_model(), tmp_path / "model.safetensors")


def test_weights_beyond_float32_are_refused(tmp_path):
    """Models compute in float32 at most, in which a larger weight is infinite."""
    path = tmp_path / "model.safetensors"
    save_file({"output.bias": torch.tensor([1.0, 3e38], dtype=torch.float64)}, path)
    assert read_weights(path)["output.bias"].float().isfinite().all()
    save_file({"output.bias": torch.tensor([1.0, 4e38], dtype=torch.float64)}, path)
    with raises(UserError):
        read_weights(path)


def test_the_mean_is_computed_for_every_weight(tmp_path):
    models, files = [Tied() for _ in range(3)], []
    for number, model in enumerate(models):
        files.append(tmp_path / f"{number}.safetensors")
        save_weights(model, files[-1])
    mean = mean_weights(files)
    assert sorted(mean) == ["embedding.weight", "mean", "output.bias"]
    for name, tensor in mean.items():
        tensors = [model.state_dict()[name].numpy().astype(np.float64) for model in models]
        expected = (sum(tensors) / 3).astype(np.float32)
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(tensor.numpy(), expected)
    joined = Tied()
    set_weights(joined, mean, files[0])
    assert joined.output.weight is joined.embedding.weight
    assert torch.equal(joined.embedding.weight, mean["embedding.weight"])


def test_the_mean_of_one_is_itself_and_of_negated_weights_zero(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    weights = torch.randn(3, 5)
    save_file({"weights": weights, "half": weights.bfloat16()}, one)
    save_file({"weights": -weights, "half": -weights.bfloat16()}, other)
    assert torch.equal(mean_weights([one])["weights"], weights)
    mean = mean_weights([one, other])
    assert torch.equal(mean["weights"], torch.zeros(3, 5))
    assert mean["half"].dtype == torch.bfloat16


def test_weights_of_other_models_are_rejected(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(())}, one)
    save_file({"a": torch.zeros(2, 4), "b": torch.zeros(())}, other)
    with raises(UserError):
        mean_weights([one, other])
    save_file({"a": torch.zeros(2, 3), "c": torch.zeros(1)}, other)
    with pytest.raises(UserError, match=r"b is missing there, and one number here"):
        mean_weights([one, other])
