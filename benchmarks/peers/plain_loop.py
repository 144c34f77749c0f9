"""A training loop in plain PyTorch, for libraries without one: batches of similar lengths, cross
entropy with label smoothing, gradient clipping and AdamW."""

from collections.abc import Callable, Iterator

import torch
from peers import contestant
from peers.contestant import Counts, Stopwatch, Task
from torch import Tensor, nn

PAD, START, END, UNKNOWN = 0, 1, 2, 3

Logits = Callable[[Tensor, Tensor], Tensor]
"""Function from sources and shifted targets to logits."""


def numbers(task: Task, part: str, side: str) -> list[list[int]]:
    """Return the ids of each line's subwords and of the end token."""
    place = {piece: number for number, piece in enumerate(task.vocabulary)}
    return [[place.get(each, UNKNOWN) for each in line] + [END] for line in task.lines(part, side)]


def pad(sequences: list[list[int]], device: str) -> Tensor:
    longest = max(map(len, sequences))
    rows = [each + [PAD] * (longest - len(each)) for each in sequences]
    return torch.tensor(rows, device=device)


def batches(pairs: list[tuple[list[int], list[int]]], positions: int) -> Iterator[list[int]]:
    """Yield indices of pairs of similar lengths, with at most `positions` on the longer side."""
    generator = torch.Generator().manual_seed(42)
    lengths = [max(len(source), len(target)) for source, target in pairs]
    while True:
        shuffled = torch.randperm(len(pairs), generator=generator).tolist()
        order = sorted(shuffled, key=lambda place: (lengths[place], len(pairs[place][0])))
        cut: list[list[int]] = [[]]
        for place in order:  # lengths increase, so this pair is the longest of the batch
            if (len(cut[-1]) + 1) * lengths[place] > positions:
                cut.append([])
            cut[-1].append(place)
        for number in torch.randperm(len(cut), generator=generator).tolist():
            yield cut[number]


class Loop:
    """Training of one model."""

    def __init__(self, task: Task, model: nn.Module, logits: Logits) -> None:
        self.task = task
        self.model = model.train()
        self.logits = logits
        fused = task.device == "cuda"
        self.adam = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=fused)
        sides = (numbers(task, "train", side) for side in ("en", "de"))
        self.pairs = list(zip(*sides, strict=True))

    def tensors(self) -> Iterator[tuple[Tensor, Tensor]]:
        for places in batches(self.pairs, self.task.batch_tokens):
            sides = zip(*(self.pairs[place] for place in places), strict=True)
            source, target = (pad(list(side), self.task.device) for side in sides)
            yield source, target

    def gradients(self, source: Tensor, target: Tensor) -> None:
        inputs = torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1)
        with torch.autocast(
            self.task.device, torch.bfloat16, enabled=self.task.precision == "bfloat16"
        ):
            logits = self.logits(source, inputs)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1),
                target.flatten(),
                ignore_index=PAD,
                label_smoothing=contestant.LABEL_SMOOTHING,
            )
        self.adam.zero_grad()
        loss.backward()

    def run(self, stopwatch: Stopwatch) -> None:
        for source, target in self.tensors():
            self.gradients(source, target)
            nn.utils.clip_grad_norm_(self.model.parameters(), contestant.CLIP)
            self.adam.step()
            stopwatch(
                Counts(
                    sentences=source.size(0),
                    source=int((source != PAD).sum()) - source.size(0),  # without the end
                    target=int((target != PAD).sum()),
                    source_positions=source.numel(),
                    target_positions=target.numel(),
                )
            )
