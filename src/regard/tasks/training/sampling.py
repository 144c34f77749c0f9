"""Samples of a model in training, with the rewards of their texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import nn

from regard.compiled.candidates import top_candidates
from regard.data.batch import END, PAD, START, UNKNOWN, PairBatch, Tokens, with_targets
from regard.data.text.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.contracts import Memory
from regard.models.memory import repeat_memory
from regard.models.seq2seq import Seq2Seq
from regard.names import RewardName
from regard.search import ImpossibleError, Limits, greedy, sample
from regard.shapes import Float, Int, Tensor
from regard.training.objectives.reward import Samples
from regard.training.recorder import REMEDY

Reward = Callable[[str, Sequence[str]], float]
"""Function from a generated text and its references to a reward."""


@dataclass(frozen=True)
class Sampler:
    """Sampler of a training with rewards.

    Samples are drawn without dropout. They have neither padding nor <unk>, and at most twice as
    many tokens as the reference. Texts are rewarded, so the reward does not depend on how a text is
    split into tokens. All captions of an image are references of its samples."""

    tokenizer: Tokenizer = field(repr=False)
    reward: Reward = field(repr=False)
    name: RewardName
    """Name of the reward, which identifies the sampler of a resumed run."""
    num_samples: int
    max_length: int
    has_baselines: bool = False
    """Whether greedy outputs are rewarded, as baselines."""
    has_references: bool = False
    """Whether the samples of a sentence are distinct, with its reference among them."""

    def __call__(self, model: nn.Module, batch: PairBatch, generator: torch.Generator) -> Samples:
        """Draw samples for a batch. The model stays in its mode. UserError if its probabilities are
        not finite."""
        was_training = model.training
        try:
            with torch.no_grad(), torch.autocast(batch.mask.device.type, enabled=False):
                return self._samples(cast(Seq2Seq, model.eval()), batch, generator)
        except ImpossibleError as error:
            raise UserError(
                "training stopped: samples of the model have probabilities that are not finite. "
                f"Nothing was saved after the last good state. {REMEDY}"
            ) from error
        finally:
            model.train(was_training)

    def _samples(self, model: Seq2Seq, batch: PairBatch, generator: torch.Generator) -> Samples:
        device = batch.mask.device
        targets = [
            tuple(row[real].tolist()) for row, real in zip(batch.outputs, batch.mask, strict=True)
        ]
        references = self._references(batch, targets)
        memories = model.encode(batch.source)
        rows = torch.arange(len(targets), device=device).repeat_interleave(self.num_samples)
        hypotheses = sample(
            model.decoder,
            tuple(repeat_memory(memory, rows) for memory in memories),
            self._limits(batch, rows),
            generator=generator if device.type == "cpu" else None,
        )
        numbers = rows.tolist()
        pairs = [*zip(numbers, (hypothesis.tokens for hypothesis in hypotheses), strict=True)]
        distinct, draws = Counter(pairs), None
        if self.has_references:
            sets = dict.fromkeys([*distinct, *enumerate(targets)])
            pairs = sorted(sets, key=lambda pair: pair[0])
            numbers = [number for number, _ in pairs]
            draws = torch.tensor([float(distinct[pair]) for pair in pairs], device=device)
        sentences = torch.tensor(numbers, device=device)
        rewards = [self._rewarded(tokens, references[number]) for number, tokens in pairs]
        baselines = None
        if self.has_baselines:
            baselines = self._baselines(model, batch, memories, references)[sentences]
        sampled = with_targets(batch.source, [tokens for _, tokens in pairs])
        return Samples(
            replace(sampled, rows=sentences).to(device),
            sentences,
            torch.tensor(rewards, device=device),
            baselines,
            len(distinct) / len(hypotheses),
            draws,
        )

    def _baselines(
        self,
        model: Seq2Seq,
        batch: PairBatch,
        memories: tuple[Memory, ...],
        references: Sequence[Sequence[str]],
    ) -> Float[Tensor, "batch"]:
        """Return the reward of the greedy output for each sentence."""
        rows = torch.arange(len(references), device=batch.mask.device)
        limits = self._limits(batch, rows)
        outputs = greedy(model.decoder, memories, limits, find=top_candidates)
        rewards = [
            self._rewarded(output.tokens, texts)
            for output, texts in zip(outputs, references, strict=True)
        ]
        return torch.tensor(rewards, device=batch.mask.device)

    def _limits(self, batch: PairBatch, rows: Int[Tensor, "sample"]) -> Limits:
        maximum = (2 * batch.mask.sum(dim=1)).clamp(max=self.max_length)[rows]
        unknown = (UNKNOWN,) if self.tokenizer.settings.unknown else ()
        return Limits(start=START, end=END, maximum=maximum, forbidden=(PAD, START, *unknown))

    def _references(self, batch: PairBatch, targets: Sequence[tuple[int, ...]]) -> list[list[str]]:
        """Return the texts that the samples of each sentence are compared with."""
        texts = [self._text(tokens) for tokens in targets]
        if isinstance(batch.source, Tokens) or batch.source.rows is None:
            return [[text] for text in texts]
        images = batch.source.rows.tolist()
        captions: defaultdict[int, list[str]] = defaultdict(list)
        for image, text in zip(images, texts, strict=True):
            captions[image].append(text)
        return [captions[image] for image in images]

    def _rewarded(self, tokens: Sequence[int], references: Sequence[str]) -> float:
        return self.reward(self._text(tokens), references)

    def _text(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(number for number in tokens if number != END)
