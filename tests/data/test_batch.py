"""The smallest way from encoded pairs to a batch."""

from __future__ import annotations

import torch

from regard.data.batch import END, START, pad, pair_batch


def test_padding_is_masked() -> None:
    tokens = pad([[5, 7], [11], [13, 17, 19]])
    assert tokens.ids.tolist() == [[5, 7, 0], [11, 0, 0], [13, 17, 19]]
    assert tokens.mask.tolist() == [[True, True, False], [True, False, False], [True, True, True]]


def test_inputs_are_the_outputs_one_step_later() -> None:
    batch = pair_batch([[5, END], [7, 11, END]], [[13, 17, END], [19, END]])
    assert batch.source.ids.tolist() == [[5, END, 0], [7, 11, END]]
    assert batch.outputs.tolist() == [[13, 17, END], [19, END, 0]]
    assert batch.inputs.tolist() == [[START, 13, 17], [START, 19, END]]
    assert torch.equal(batch.mask, batch.outputs != 0)
