"""Vector of one step that enters the next step of Luong's decoder, with the state and the token."""

from __future__ import annotations

from regard.shapes import Tensor


class NoFeeding:
    """No vector: only the state and the token enter the next step."""

    size = 0

    def __call__(self, context: Tensor, features: Tensor) -> Tensor:
        del features
        return context[..., :0]


class ContextFeeding:
    """The context enters the next step."""

    def __init__(self, context_size: int) -> None:
        self.size = context_size

    def __call__(self, context: Tensor, features: Tensor) -> Tensor:
        del features
        return context


class AttentionalFeeding:
    """The attentional vector enters the next step ("input feeding", Luong et al. 2015, 3.3)."""

    def __init__(self, feature_size: int) -> None:
        self.size = feature_size

    def __call__(self, context: Tensor, features: Tensor) -> Tensor:
        del context
        return features


Feeding = NoFeeding | ContextFeeding | AttentionalFeeding
