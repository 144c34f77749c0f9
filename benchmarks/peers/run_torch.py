"""torch's own nn.Transformer in a plain loop."""

import math

import torch
from peers import contestant, plain_loop
from peers.contestant import Stopwatch
from peers.plain_loop import PAD
from torch import Tensor, nn

LONGEST = 512


class Model(nn.Module):
    """One matrix of embeddings for both sides and the output, and sinusoidal positions (Vaswani et
    al. 2017); norms before sublayers, as in ours."""

    def __init__(self, sizes: contestant.Sizes, num_pieces: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_pieces, sizes.size)
        nn.init.normal_(self.embedding.weight, std=sizes.size**-0.5)
        self.dropout = nn.Dropout(contestant.TRANSFORMER_DROPOUT)
        self.stacks = nn.Transformer(
            sizes.size,
            sizes.heads,
            sizes.layers,
            sizes.layers,
            sizes.feed_forward,
            contestant.TRANSFORMER_DROPOUT,
            batch_first=True,
            norm_first=True,
        )
        places = torch.arange(LONGEST)[:, None]
        waves = 10_000 ** (-2 * torch.arange(sizes.size // 2) / sizes.size)
        angles = places * waves
        self.register_buffer("waves", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))

    def embed(self, tokens: Tensor) -> Tensor:
        scaled = math.sqrt(self.embedding.embedding_dim) * self.embedding(tokens)
        return self.dropout(scaled + self.waves[: tokens.size(1)])

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        length = inputs.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)
        features = self.stacks(
            self.embed(source),
            self.embed(inputs),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return nn.functional.linear(features, self.embedding.weight)


def main() -> None:
    benchmark, task = contestant.Benchmark(), contestant.task()
    torch.manual_seed(42)
    model = Model(contestant.SIZES[task.model], len(task.vocabulary)).to(task.device)
    loop = plain_loop.Loop(task, model, model)
    loop.run(Stopwatch(benchmark))


if __name__ == "__main__":
    main()
