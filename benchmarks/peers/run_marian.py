"""MarianMTModel of transformers. Training is a plain loop, because it has none of its own for this.
Decoding is its `generate` with initial weights."""

from collections.abc import Callable
from typing import Any

import torch
from peers import contestant, plain_loop
from peers.contestant import Stopwatch, Task
from peers.plain_loop import END, PAD, START
from torch import Tensor
from transformers import MarianConfig, MarianMTModel


def build(task: Task) -> MarianMTModel:
    torch.manual_seed(42)
    sizes, num_pieces = contestant.SIZES[task.model], len(task.vocabulary)
    settings = MarianConfig(
        vocab_size=num_pieces,
        decoder_vocab_size=num_pieces,
        d_model=sizes.size,
        encoder_layers=sizes.layers,
        decoder_layers=sizes.layers,
        encoder_ffn_dim=sizes.feed_forward,
        decoder_ffn_dim=sizes.feed_forward,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        max_position_embeddings=256,
        activation_function="relu",
        dropout=contestant.TRANSFORMER_DROPOUT,
        attention_dropout=contestant.TRANSFORMER_DROPOUT,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
    )
    return MarianMTModel(settings).to(task.device)


def train(task: Task, benchmark: contestant.Benchmark) -> None:
    model = build(task)

    def logits(source: Tensor, inputs: Tensor) -> Tensor:
        return model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits

    wait = torch.cuda.synchronize if task.device == "cuda" else None
    plain_loop.Loop(task, model, logits).run(Stopwatch(benchmark, wait))


def decoder(task: Task) -> contestant.Prepare:
    model = build(task).eval()
    every = plain_loop.numbers(task, "test", "en")

    def prepare(asked: dict[str, Any]) -> Callable[[], int]:
        sources = sorted(every[: asked["sentences"]], key=len)
        parts = [
            sources[first : first + asked["batch"]]
            for first in range(0, len(sources), asked["batch"])
        ]

        @torch.no_grad()
        def decode() -> int:
            num_tokens = 0
            for part in parts:
                source = plain_loop.pad(part, task.device)
                outputs = model.generate(
                    input_ids=source,
                    attention_mask=(source != PAD).long(),
                    num_beams=asked["beam"],
                    do_sample=False,
                    min_new_tokens=asked["tokens"],
                    max_new_tokens=asked["tokens"],
                )
                num_tokens += outputs.size(0) * (outputs.size(1) - 1)
            return num_tokens

        return decode

    return prepare


def main() -> None:
    benchmark, task = contestant.Benchmark(), contestant.task()
    if task.task == "train":
        train(task, benchmark)
    else:
        contestant.answer_decoding(benchmark, decoder(task))


if __name__ == "__main__":
    main()
