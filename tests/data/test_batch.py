"""The smallest way from encoded pairs to a batch."""

from __future__ import annotations

from dataclasses import replace

import torch

from regard.data.batch import END, START, Images, pad, pair_batch, with_targets


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


def test_selected_sentences_are_those_of_the_batch() -> None:
    batch = pair_batch([[5, END], [7, 11, END], [13, END]], [[13, 17, END], [19, END], [5, 7, END]])
    chosen = batch.select(torch.tensor([2, 0]))
    assert len(batch) == 3
    assert len(chosen) == 2
    assert chosen.source.ids.tolist() == [[13, END, 0], [5, END, 0]]
    assert chosen.outputs.tolist() == [[5, 7, END], [13, 17, END]]
    assert chosen.mask.all()


def test_selected_captions_have_their_images_once() -> None:
    values = torch.arange(3 * 3 * 2 * 2, dtype=torch.uint8).view(3, 3, 2, 2)
    captions = with_targets(Images(values), [[5, END], [7, END], [11, END], [13, END]])
    batch = replace(captions, rows=torch.tensor([0, 2, 2, 1]))
    chosen = batch.select(torch.tensor([3, 1, 2]))
    assert chosen.rows is not None
    images = chosen.source.values[chosen.rows]  # type: ignore[union-attr]
    assert torch.equal(images, values[[1, 2, 2]])
    assert len(chosen.source.values) == 2  # type: ignore[union-attr]
    assert chosen.outputs[:, 0].tolist() == [13, 7, 11]
