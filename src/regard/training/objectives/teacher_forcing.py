"""Teacher forcing: the choice between true and predicted tokens as decoder inputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.errors import UserError
from regard.names import ForcingUnit
from regard.shapes import Bool, Int, Tensor
from regard.training.schedule import Progress


@dataclass(frozen=True)
class TeacherForcing:
    """Probability of a true token as decoder input. It changes linearly from `start` in the first
    update to `end` in the last (Bengio et al. 2015, section 2.4); without `end` it is constant."""

    start: float = 1.0
    end: float | None = None
    by: ForcingUnit = "sentence"
    """Unit of the random choice: one draw for a sentence or for a token."""

    def __post_init__(self) -> None:
        for name, share in (("start", self.start), ("end", self.end)):
            if share is not None and not 0 <= share <= 1:
                raise UserError(f"teacher forcing's {name} is {share}: expected 0 to 1")

    def share(self, progress: Progress) -> float:
        """Return the probability of a true token in this update."""
        end = self.start if self.end is None else self.end
        done = (progress.update - 1) / max(progress.total - 1, 1)
        # Bengio et al. 2015, section 2.4 if teacher_forcing_end: e_i = k - c i
        return self.start + (end - self.start) * min(done, 1.0)

    def mask(
        self,
        inputs: Int[Tensor, "batch target"],
        progress: Progress,
        generator: torch.Generator,
    ) -> Bool[Tensor, "batch target"] | None:
        """Return a mask that is True for true tokens, or None if all are true. It is drawn on the
        CPU, so that every device gets equal numbers."""
        share = self.share(progress)
        if share >= 1:
            return None
        batch, target = inputs.shape
        draws = torch.rand(batch, 1 if self.by == "sentence" else target, generator=generator)
        return (draws < share).expand(batch, target).to(inputs.device)


ALL_TRUE = TeacherForcing()
"""Teacher forcing with true tokens alone."""
