"""Positions and probability of true tokens."""

import pytest
import torch

from regard.errors import UserError
from regard.training.objectives.teacher_forcing import TeacherForcing
from regard.training.schedule import Progress

INPUTS = torch.zeros(1009, 11, dtype=torch.long)


def mask(forcing: TeacherForcing, update: int = 1, seed: int = 7) -> torch.Tensor | None:
    generator = torch.Generator().manual_seed(seed)
    return forcing.mask(INPUTS, Progress(update, 11), generator)


def test_the_share_changes_linearly():
    forcing = TeacherForcing(1.0, 0.0)
    values = [forcing.share(Progress(update, 11)) for update in (1, 2, 6, 11, 12)]
    assert values == pytest.approx([1, 0.9, 0.5, 0, 0])
    assert TeacherForcing(0.3).share(Progress(11, 11)) == 0.3
    assert TeacherForcing(1.0, 0.5).share(Progress(1, 1)) == 1


def test_by_sentence_all_tokens_are_true_or_none():
    drawn = mask(TeacherForcing(0.3, by="sentence"))
    assert (drawn == drawn[:, :1]).all()
    assert 0.25 < drawn[:, 0].float().mean() < 0.35


def test_by_token_positions_are_independent():
    drawn = mask(TeacherForcing(0.3, by="token"))
    assert 0.28 < drawn.float().mean() < 0.32
    assert ((drawn.float().mean(0) - 0.3).abs() < 0.06).all()
    assert (drawn == drawn[:, :1]).all(dim=1).float().mean() < 0.05


def test_share_one_needs_no_mask_and_share_zero_is_all_false():
    assert mask(TeacherForcing()) is None
    assert not mask(TeacherForcing(1.0, 0.0), update=11).any()


def test_the_generator_determines_the_mask():
    forcing = TeacherForcing(0.5, by="token")
    assert torch.equal(mask(forcing), mask(forcing))
    assert not torch.equal(mask(forcing), mask(forcing, seed=8))


def test_shares_outside_zero_to_one_are_rejected():
    with pytest.raises(UserError, match="end is"):
        TeacherForcing(1.0, 1.5)
