"""Experts of built models."""

import torch

from regard import recipes
from regard.building.translators import build_translation
from regard.layers.experts import Experts


@torch.no_grad()
def test_experts_between_recurrent_layers_change_little_at_first():
    """Their sigmoid begins near 0, so that layers above read the states and learn to attend."""
    config = recipes.load(recipes.find("multi30k-gnmt-experts")).model
    model = build_translation(config, 9, 9)
    experts = [module for module in model.modules() if isinstance(module, Experts)]
    assert len(experts) == 2
    for mixture in experts:
        states = torch.randn(1, 50, mixture.gate.weight.size(1)) / 4
        assert mixture.eval()(states).mean() < 0.06
