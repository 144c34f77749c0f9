"""Ours, as recipes: the models that the peers are measured with, in our words."""

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
    """What `regard train` reads. It cuts the text itself, into the pieces that the others get."""
    generated = model == "transformer-base"
    return {
        "about": f"What benchmarks/training_speed.py measures as {model}.",
        "data": {
            "path": str(corpus / "train.en"),
            "target_path": str(corpus / "train.de"),
            "tokenizer": "spaces" if generated else "bpe",
            "vocabulary_size": GENERATED_VOCABULARY if generated else VOCABULARY,
            "shared_vocabulary": True,
            "dev_size": 0,
            "test_size": 0,
            # Ours counts both sides' positions, the others the longer side's.
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
