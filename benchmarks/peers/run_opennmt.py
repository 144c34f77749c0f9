"""OpenNMT-py 3.5.1. Training is its `train`, timed at every update. Decoding is its
InferenceEnginePY with a checkpoint of two updates, which `convert` converts for CTranslate2."""

import argparse
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from peers import contestant
from peers.contestant import Counts, Stopwatch, Task

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # its checkpoints hold its options

LSTM = {
    "encoder_type": "brnn",
    "decoder_type": "rnn",
    "rnn_type": "LSTM",
    "enc_layers": 1,
    "dec_layers": 1,
    "input_feed": 1,
    "dropout": [contestant.LSTM_DROPOUT],
    "bridge": True,
    "learning_rate": 0.001,
}
SIZES = contestant.SIZES["transformer"]
MODELS = {
    "luong": {**LSTM, "global_attention": "general"},
    "bahdanau": {**LSTM, "global_attention": "mlp"},
    "transformer": {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": SIZES.layers,
        "dec_layers": SIZES.layers,
        "transformer_ff": SIZES.feed_forward,
        "heads": SIZES.heads,
        "position_encoding": True,
        "dropout": [contestant.TRANSFORMER_DROPOUT],
        "attention_dropout": [contestant.TRANSFORMER_DROPOUT],
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "decay_method": "noam",
        "warmup_steps": 400,
        "learning_rate": 2.0,
        "adam_beta2": 0.998,
    },
}


def configuration(task: Task, updates: int) -> str:
    """Write the configuration of `train` and the vocabulary with counts; return its path."""
    seen = Counter(p for side in ("en", "de") for line in task.lines("train", side) for p in line)
    vocabulary = task.work / "vocabulary.txt"
    pieces = task.vocabulary[4:]  # it has special tokens of its own
    vocabulary.write_text("".join(f"{p}\t{seen[p]}\n" for p in pieces), encoding="utf8")
    settings = {
        "save_data": str(task.work / "data"),
        "src_vocab": str(vocabulary),
        "tgt_vocab": str(vocabulary),
        "share_vocab": True,
        "overwrite": True,
        "src_vocab_size": len(pieces) + 4,
        "tgt_vocab_size": len(pieces) + 4,
        "vocab_size_multiple": 1,
        "data": {
            "pairs": {
                "path_src": str(task.pieces("train", "en")),
                "path_tgt": str(task.pieces("train", "de")),
                "transforms": [],
                "weight": 1,
            }
        },
        "save_model": str(task.work / "model"),
        "save_checkpoint_steps": updates,
        "train_steps": updates,
        "valid_steps": 10**9,
        "report_every": 100,
        "seed": 42,
        "num_workers": 0,
        "bucket_size": 29_000,
        "batch_type": "tokens",
        "batch_size": task.batch_tokens,
        "batch_size_multiple": 1,
        "accum_count": [1],
        "normalization": "tokens",
        "optim": "adam",
        "max_grad_norm": contestant.CLIP,
        "label_smoothing": contestant.LABEL_SMOOTHING,
        "param_init": 0.0,
        "param_init_glorot": True,
        "model_dtype": "fp32",
        "hidden_size": contestant.HIDDEN,
        "word_vec_size": contestant.EMBEDDING,
        "world_size": 1,
        "gpu_ranks": [0] if task.device == "cuda" else [],
        **MODELS[task.model],
    }
    path = task.work / "settings.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf8")
    return str(path)


def train(task: Task, stopwatch: Stopwatch | None, updates: int) -> None:
    """Train with its own command. The stopwatch is called after the batches of an update.

    With accumulation over one batch, this is the whole update."""
    from onmt import trainer
    from onmt.bin.train import _get_parser
    from onmt.bin.train import train as run

    update = trainer.Trainer._gradient_accumulation

    def timed(self: Any, batches: list[dict[str, Any]], *rest: Any) -> None:
        update(self, batches, *rest)
        for batch in batches:
            target = batch["tgt"][:, 1:, 0]  # without the start
            stopwatch(
                Counts(
                    sentences=target.size(0),
                    source=int(batch["srclen"].sum()),
                    target=int(target.ne(self.train_loss.padding_idx).sum()),
                    source_positions=batch["src"].size(0) * batch["src"].size(1),
                    target_positions=target.numel(),
                )
            )

    if stopwatch is not None:
        trainer.Trainer._gradient_accumulation = timed
    options, _ = _get_parser().parse_known_args(["-config", configuration(task, updates)])
    run(options)


def checkpoint(task: Task) -> Path:
    """Return a checkpoint of two updates. With forced lengths, weights do not affect the speed."""
    train(task, None, updates=2)
    return task.work / "model_step_2.pt"


def decoder(task: Task) -> contestant.Prepare:
    from onmt.bin.translate import _get_parser
    from onmt.inference_engine import InferenceEnginePY
    from onmt.utils.parse import ArgumentParser

    model = checkpoint(task)
    lines = task.pieces("test", "en").read_text(encoding="utf8").splitlines(keepends=True)
    source, output = task.work / "source", task.work / "output"

    def prepare(asked: dict[str, Any]) -> Callable[[], int]:
        source.write_text("".join(lines[: asked["sentences"]]), encoding="utf8")
        arguments = {
            "model": model,
            "src": source,
            "output": output,
            "beam_size": asked["beam"],
            "batch_size": asked["batch"],
            "batch_type": "sents",
            "min_length": asked["tokens"],
            "max_length": asked["tokens"],
            "max_length_ratio": 0,
            "gpu": 0 if task.device == "cuda" else -1,
        }
        words = [str(word) for name, value in arguments.items() for word in (f"-{name}", value)]
        options = _get_parser().parse_args(words)
        ArgumentParser.validate_translate_opts(options)
        ArgumentParser._get_all_transform_translate(options)
        ArgumentParser._validate_transforms_opts(options)
        ArgumentParser.validate_translate_opts_dynamic(options)
        engine = InferenceEnginePY(options)

        def decode() -> int:
            engine.infer_file()
            return sum(len(line.split()) for line in output.open(encoding="utf8"))

        return decode

    return prepare


def convert(task: Task) -> None:
    """Write CTranslate2's model into the folder `converted`. Its converter and OpenNMT-py use
    different names for the same kind of attention."""
    import ctranslate2
    import torch

    path = checkpoint(task)
    saved = torch.load(path, weights_only=False)
    saved["opt"].self_attn_type = "scaled-dot"
    torch.save(saved, path)
    torch.serialization.add_safe_globals([argparse.Namespace])
    converter = ctranslate2.converters.OpenNMTPyConverter(str(path))
    converter.convert(str(task.work / "converted"), force=True)


def main() -> None:
    benchmark, task = contestant.Benchmark(), contestant.task()
    match task.task:
        case "train":
            train(task, Stopwatch(benchmark), updates=10**6)
        case "decode":
            contestant.answer_decoding(benchmark, decoder(task))
        case "convert":
            convert(task)


if __name__ == "__main__":
    main()
