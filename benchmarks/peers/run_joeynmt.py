"""JoeyNMT 2.3. Training is its TrainManager, timed at every update. Decoding is its `predict` with
initial weights."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers import contestant
from peers.contestant import Counts, Stopwatch, Task

SPECIAL = {
    "unk_token": contestant.UNKNOWN,
    "pad_token": contestant.PAD,
    "bos_token": contestant.START,
    "eos_token": contestant.END,
    "unk_id": 0,  # this order is the only one it takes
    "pad_id": 1,
    "bos_id": 2,
    "eos_id": 3,
}


def lstm(attention: str) -> dict[str, Any]:
    """Return its configuration. Both kinds of its attention are in Luong's decoder."""
    embeddings = {
        "embedding_dim": contestant.EMBEDDING,
        "scale": False,
        "dropout": contestant.LSTM_DROPOUT,
    }
    layer = {
        "type": "recurrent",
        "rnn_type": "lstm",
        "embeddings": embeddings,
        "dropout": contestant.LSTM_DROPOUT,
        "num_layers": 1,
    }
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "normal",
        "embed_init_weight": 0.1,
        "bias_initializer": "zeros",
        "lstm_forget_gate": 1.0,
        "tied_embeddings": False,
        "tied_softmax": False,
        "encoder": {**layer, "hidden_size": contestant.HIDDEN // 2, "bidirectional": True},
        "decoder": {
            **layer,
            "hidden_size": contestant.HIDDEN,
            "hidden_dropout": contestant.LSTM_DROPOUT,
            "input_feeding": True,
            "init_hidden": "bridge",
            "attention": attention,
        },
    }


def transformer() -> dict[str, Any]:
    dropout, sizes = contestant.TRANSFORMER_DROPOUT, contestant.SIZES["transformer"]
    stack = {
        "type": "transformer",
        "num_layers": sizes.layers,
        "num_heads": sizes.heads,
        "embeddings": {"embedding_dim": sizes.size, "scale": True, "dropout": dropout},
        "hidden_size": sizes.size,
        "ff_size": sizes.feed_forward,
        "dropout": dropout,
        "layer_norm": "pre",
        "activation": "relu",
    }
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "bias_initializer": "zeros",
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {**stack},
        "decoder": {**stack},
    }


def settings_of(task: Task) -> dict[str, Any]:
    def side(language: str) -> dict[str, Any]:
        return {
            "lang": language,
            "level": "word",  # the pieces stand between spaces
            "max_length": 200,
            "min_length": 1,
            "voc_file": str(task.corpus / "vocabulary.txt"),
            "tokenizer_type": "none",
        }

    return {
        "name": task.model,
        "joeynmt_version": "2.3.0",
        "model_dir": str(task.work / "model"),
        "use_cuda": task.device == "cuda",
        "fp16": False,
        "random_seed": 42,
        "data": {
            "train": str(task.corpus / "train.pieces"),
            "dev": str(task.corpus / "val.pieces"),
            "test": str(task.corpus / "test.pieces"),
            "dataset_type": "plain",
            "src": side("en"),
            "trg": side("de"),
            "special_symbols": SPECIAL,
        },
        "testing": {
            "n_best": 1,
            "beam_size": 5,
            "beam_alpha": 1.0,
            "batch_size": 64,
            "batch_type": "sentence",
            "eval_metrics": [],
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.999],
            "learning_rate": 0.001,
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": 400,
            "clip_grad_norm": contestant.CLIP,
            "loss": "crossentropy",
            "label_smoothing": contestant.LABEL_SMOOTHING,
            "batch_size": task.batch_tokens,
            "batch_type": "token",
            "normalization": "tokens",
            "epochs": 10**6,
            "validation_freq": 10**9,
            "logging_freq": 100,
            "early_stopping_metric": "ppl",
            "overwrite": True,
            "shuffle": True,
        },
        "model": transformer() if task.model == "transformer" else lstm(task.model),
    }


def train(task: Task, stopwatch: Stopwatch) -> None:
    """Train with its own `train` until this process is ended."""
    import yaml
    from joeynmt import training

    step = training.TrainManager._train_step

    def timed(self: Any, batch: Any) -> Any:
        loss = step(self, batch)
        stopwatch(
            Counts(
                sentences=batch.nseqs,
                source=int(batch.src_length.sum()) - batch.nseqs,  # without the end
                target=int(batch.ntokens),
                source_positions=batch.src.numel(),
                target_positions=batch.trg.numel(),
            )
        )
        return loss

    training.TrainManager._train_step = timed
    settings = settings_of(task)
    folder = Path(settings["model_dir"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf8")
    training.train(rank=0, world_size=None, cfg=settings, skip_test=True)


def decoder(task: Task) -> contestant.Prepare:
    import torch
    from joeynmt.config import parse_global_args
    from joeynmt.data import load_data
    from joeynmt.model import build_model
    from joeynmt.prediction import predict

    (task.work / "model").mkdir(exist_ok=True)
    config = parse_global_args(settings_of(task), rank=0, mode="train")
    source, target, _, _, data = load_data(cfg=config.data, datasets=["test"])
    torch.manual_seed(42)
    model = build_model(config.model, src_vocab=source, trg_vocab=target).to(config.device).eval()
    every = {side: list(texts) for side, texts in data.data.items()}

    def prepare(asked: dict[str, Any]) -> Callable[[], int]:
        data.data = {side: texts[: asked["sentences"]] for side, texts in every.items()}
        data.indices = list(range(asked["sentences"]))
        data.reset_indices(random_subset=-1)
        settings = config.test._replace(
            beam_size=asked["beam"],
            batch_size=asked["batch"],
            batch_type="sentence",
            min_output_length=asked["tokens"],
            max_output_length=asked["tokens"],
        )

        @torch.no_grad()
        def decode() -> int:
            outputs = predict(
                model=model,
                data=data,
                compute_loss=False,
                device=config.device,
                rank=0,
                n_gpu=int(task.device == "cuda"),
                num_workers=0,
                normalization="batch",
                args=settings,
                autocast=config.autocast,
            )
            return sum(len(tokens) for tokens in outputs[3])

        return decode

    return prepare


def main() -> None:
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    benchmark, task = contestant.Benchmark(), contestant.task()
    if task.task == "train":
        train(task, Stopwatch(benchmark))
    else:
        contestant.answer_decoding(benchmark, decoder(task))


if __name__ == "__main__":
    main()
