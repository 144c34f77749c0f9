"""A batch moved to a GPU keeps what the CPU knew of it, so that no step waits for the GPU.

No GPU is needed: the operations that would wait are counted on the CPU.
"""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard import kernels
from regard.attention import hidden, masks
from regard.building.translators import build_translation
from regard.data.batch import Tokens, pair_batch
from regard.layers.recurrent import lengths as padding
from tests import configs


class Waits(TorchDispatchMode):
    """Names of the operations that make the CPU wait for a GPU."""

    NAMES = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        name = function.overloadpacket.__name__
        of_lengths = name == "_local_scalar_dense" and arguments[0].dtype == torch.int64
        if name in self.NAMES and not of_lengths:  # lengths stay on the CPU
            self.names.append(name)
        if name == "index" and any(
            place is not None and place.dtype == torch.bool for place in arguments[1]
        ):
            self.names.append("index")
        return function(*arguments, **(keywords or {}))


def moved(batch):
    """Return a batch as after a move to another device, but with its tensors on the CPU."""
    there = batch.to("meta")
    source = replace(batch.source, lengths=there.source.lengths)
    return replace(batch, source=source, places=batch.mask.flatten().nonzero()[:, 0])


@pytest.mark.parametrize("lengths", [(5, 5, 5), (5, 3, 1)])
@pytest.mark.parametrize("wiring", ["luong", "plain"])
def test_moving_a_batch_to_a_gpu_does_not_synchronise(monkeypatch, wiring, lengths):
    monkeypatch.setattr(kernels, "_LIBRARY", None)
    for module in (hidden, masks, padding):
        monkeypatch.setattr(module, "is_free_to_read", lambda tensor: False)  # as on a GPU
    general = dict(score="general")
    config = configs.recurrent(size=7, embedding=5, wiring=wiring, attention=general)
    model = build_translation(config, 11, 13)
    batch = pair_batch([[4] * length for length in lengths], [[5] * length for length in lengths])
    expected, there = model(batch), moved(batch)
    with Waits() as waits:
        results = model(there)
    assert waits.names == []
    torch.testing.assert_close(results.features, expected.features)
    assert torch.equal(results.targets, expected.targets)
    with Waits() as waits:
        model(batch)
    assert waits.names


def test_moved_masks_keep_their_lengths_unless_they_are_invalid():
    tokens = pair_batch([[4, 5], [6]], [[7], [8]]).source
    assert tokens.to("cpu").lengths is None
    assert tokens.to("meta").lengths == (2, 1)
    assert tokens.to("meta").to("meta").lengths == (2, 1)
    assert Tokens(tokens.ids, tokens.mask.flip(1)).to("meta").lengths is None
