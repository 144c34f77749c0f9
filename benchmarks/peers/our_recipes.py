"""Recipes of the models with which the peers are compared."""

from pathlib import Path
from typing import Any

from peers import contestant
from peers.corpus import GENERATED_VOCABULARY, VOCABULARY

LSTM = {
    "cell": "lstm",
    "hidden": contestant.HIDDEN,
    "encoder_hidden": contestant.HIDDEN // 2,
    "embedding": contestant.EMBEDDING,
    "bidirectional": True,
    "bridge": "linear",
    "dropout": contestant.LSTM_DROPOUT,
}
LUONG = {**LSTM, "wiring": "luong", "output": "tanh", "attention": {"score": "general"}}


def transformer(sizes: contestant.Sizes) -> dict[str, Any]:
    dropout = contestant.TRANSFORMER_DROPOUT
    return {
        "family": "transformer",
        "size": sizes.size,
        "layers": sizes.layers,
        "heads": sizes.heads,
        "feed_forward": sizes.feed_forward,
        "dropout": dropout,
        "tied": "all",
        "attention": {"score": "scaled_dot", "dropout": dropout},
    }


MODELS = {
    "luong": LUONG,
    "luong-fed": {**LUONG, "feeding": "attentional"},
    "bahdanau": {
        **LSTM,
        "wiring": "bahdanau",
        "output": "deep",
        "attention": {"score": "additive", "size": contestant.HIDDEN},
    },
    **{name: transformer(sizes) for name, sizes in contestant.SIZES.items()},
}


def recipe(model: str, batch_tokens: int, corpus: Path) -> dict[str, Any]:
    """Return the recipe for `regard train`. It tokenizes text into the subwords of the peers."""
    generated = model == "transformer-base"
    return {
        "about": f"The model {model} of benchmarks/training_speed.py.",
        "data": {
            "path": str(corpus / "train.en"),
            "target_path": str(corpus / "train.de"),
            "tokenizer": "spaces" if generated else "bpe",
            "vocabulary_size": GENERATED_VOCABULARY if generated else VOCABULARY,
            "shared_vocabulary": True,
            "dev_size": 0,
            "test_size": 0,
            # Regard counts the positions of both sides, the peers those of the longer side.
            "batch_tokens": 2 * batch_tokens,
        },
        "model": MODELS[model],
        "training": {
            "epochs": 100,
            "learning_rate": 0.001,
            "clip": contestant.CLIP,
            "label_smoothing": contestant.LABEL_SMOOTHING,
            "log_every": 100,
        },
    }
