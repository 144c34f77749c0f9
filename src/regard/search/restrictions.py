"""Restrictions of a search that depend on the tokens of each hypothesis.

    prefix               log p_v = -inf  for every token v but the next one of the prefix
    no repeated n-gram   log p_v = -inf  if v completes n tokens that the hypothesis has already
    repetition penalty   theta log p_v   for every token v that the hypothesis has already

CTRL (Keskar et al. 2019, section 4.1; from memory) divides the logits of these tokens by theta, so
its effect depends on their sign, and a negative logit rises. Log probabilities have one sign, and
mixtures of models have no logits. Allowed tokens are not normalised again. Tokens of a prefix keep
the model's own log probabilities, whatever else forbids them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from regard.shapes import Float, Int, Tensor

FREE = -1
"""Token in place of a prefix where it has ended."""


@dataclass(frozen=True, kw_only=True)
class Restrictions:
    """Restrictions of all hypotheses. ValueError for values out of range."""

    no_repeat_ngram: int = 0
    """Number of tokens that a hypothesis may not have twice in one order; 0 for no limit."""
    repetition_penalty: float = 1.0
    """Factor of the log probabilities of repeated tokens, at least 1."""
    prefixes: tuple[tuple[int, ...], ...] = ()
    """First tokens of each sentence's hypotheses, up to its maximum; empty for none."""

    def __post_init__(self) -> None:
        if self.no_repeat_ngram < 0:
            raise ValueError(f"no_repeat_ngram is {self.no_repeat_ngram}: expected 0 or more")
        if not 1 <= self.repetition_penalty < torch.inf:
            raise ValueError(f"repetition_penalty is {self.repetition_penalty}: expected 1 or more")
        if any(token < 0 for prefix in self.prefixes for token in prefix):
            raise ValueError("prefixes has a negative token: expected tokens from 0 on")

    @property
    def limits_repetition(self) -> bool:
        """Whether tokens are restricted after the prefixes too."""
        return bool(self.no_repeat_ngram) or self.repetition_penalty != 1


@dataclass(frozen=True)
class TokenHistory:
    """Tokens of the hypotheses of each sentence, without the start token, and the restrictions that
    read them."""

    restrictions: Restrictions
    prefix: Int[Tensor, "batch prefix"]
    """Prefix of each sentence, then FREE."""
    tokens: Int[Tensor, "batch hypothesis position"]

    @classmethod
    def start(cls, restrictions: Restrictions | None, like: Int[Tensor, "batch"]) -> TokenHistory:
        """Return the history of one hypothesis without tokens for each sentence. `like` has the
        number of sentences and the device. ValueError for another number of prefixes."""
        restrictions = restrictions or Restrictions()
        prefixes = restrictions.prefixes or ((),) * len(like)
        if len(prefixes) != len(like):
            raise ValueError(
                f"prefixes has {len(prefixes)} entries for {len(like)} sentences: give one a "
                "sentence, or none"
            )
        longest = max(map(len, prefixes), default=0)
        rows = [[*prefix, *[FREE] * (longest - len(prefix))] for prefix in prefixes]
        prefix = torch.tensor(rows, dtype=torch.long, device=like.device).view(len(like), longest)
        return cls(restrictions, prefix, prefix.new_empty(len(like), 1, 0))

    @property
    def active(self) -> TokenHistory | None:
        """This history, or None if it restricts neither the next token nor a later one."""
        is_after_prefixes = self.tokens.size(2) >= self.prefix.size(1)
        return None if is_after_prefixes and not self.restrictions.limits_repetition else self

    def extend(
        self, parents: Int[Tensor, "batch hypothesis"], tokens: Int[Tensor, "batch hypothesis"]
    ) -> TokenHistory | None:
        """Return the `active` history of these hypotheses, each extended by a token."""
        index = parents[:, :, None].expand(-1, -1, self.tokens.size(2))
        extended = torch.cat([self.tokens.gather(1, index), tokens[:, :, None]], dim=2)
        return replace(self, tokens=extended).active

    def keep(self, sentences: Int[Tensor, "kept"]) -> TokenHistory:
        return replace(self, prefix=self.prefix[sentences], tokens=self.tokens[sentences])

    def restrict_(
        self, values: Float[Tensor, "batch hypothesis vocabulary"], forbidden: Int[Tensor, "_"]
    ) -> Float[Tensor, "batch hypothesis vocabulary"]:
        """Apply the restrictions to log probabilities in place, and exclude forbidden tokens."""
        length = self.tokens.size(2)
        next_tokens = self.prefix[:, None, length : length + 1].expand(-1, values.size(1), -1)
        is_forced = next_tokens != FREE
        next_tokens = next_tokens.clamp(min=0)
        own = values.gather(2, next_tokens)
        values.index_fill_(2, forbidden, -torch.inf)
        if self.restrictions.repetition_penalty != 1:
            # Keskar et al. 2019, section 4.1 (from memory) if repetition_penalty: x_i / (T theta),
            #     here theta log p_i
            repeated = values.gather(2, self.tokens) * self.restrictions.repetition_penalty
            values.scatter_(2, self.tokens, repeated)
        if 0 < self.restrictions.no_repeat_ngram <= length:
            self._exclude_repeated_(values, self.restrictions.no_repeat_ngram)
        if next_tokens.size(2):
            values.masked_fill_(is_forced, -torch.inf)
            own = torch.where(is_forced, own, values.gather(2, next_tokens))
            values.scatter_(2, next_tokens, own)
        return values

    def _exclude_repeated_(self, values: Tensor, size: int) -> None:
        """Exclude the tokens that would complete an n-gram of this size for the second time."""
        ngrams = self.tokens.unfold(2, size, 1)
        last = self.tokens[:, :, None, self.tokens.size(2) - size + 1 :]
        is_begun = (ngrams[..., :-1] == last).all(dim=3)
        bounds = torch.full_like(is_begun, torch.inf, dtype=values.dtype)
        bounds = bounds.masked_fill(is_begun, -torch.inf)
        values.scatter_reduce_(2, ngrams[..., -1], bounds, "amin")
