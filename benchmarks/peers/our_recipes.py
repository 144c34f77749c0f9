"""Recipes of the models with which the peers are compared."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from peers import contestant
from peers.corpus import VOCABULARY

LSTM = {
    "kind": "recurrent",
    "cell": "lstm",
    "size": contestant.HIDDEN,
    "embedding": contestant.EMBEDDING,
}


def recurrent(**decoder: Any) -> dict[str, Any]:
    return {
        "dropout": contestant.LSTM_DROPOUT,
        "encoder": {**LSTM, "bidirectional": True},
        "decoder": {**LSTM, "bridge": "linear", **decoder},
    }


def luong(**decoder: Any) -> dict[str, Any]:
    return recurrent(wiring="luong", output="tanh", attention={"score": "general"}, **decoder)


def transformer(sizes: contestant.Sizes) -> dict[str, Any]:
    dropout = contestant.TRANSFORMER_DROPOUT
    part = {
        "kind": "transformer",
        "layers": sizes.layers,
        "heads": sizes.heads,
        "feed_forward": sizes.feed_forward,
        "attention": {"score": "scaled_dot", "dropout": dropout},
    }
    return {
        "size": sizes.size,
        "dropout": dropout,
        "tied": "all",
        "encoder": part,
        "decoder": deepcopy(part),
    }


MODELS = {
    "luong": luong(),
    "luong-fed": luong(feeding="attentional"),
    "bahdanau": recurrent(
        wiring="bahdanau",
        output="deep",
        attention={"score": "additive", "size": contestant.HIDDEN},
    ),
    **{name: transformer(sizes) for name, sizes in contestant.SIZES.items()},
}

EQUAL_LENGTHS = "-equal-lengths"
"""Suffix of the name of a model whose batches have sources of equal length, like OpenNMT-py's."""


def recipe(name: str, batch_tokens: int, corpus: Path) -> dict[str, Any]:
    """Return the recipe for `regard train`. It tokenizes text into the subwords of the peers."""
    model = name.removesuffix(EQUAL_LENGTHS)
    return {
        "format": 2,
        "about": f"The model {name} of benchmarks/training_speed.py.",
        "data": {
            "path": str(corpus / "train.en"),
            "target_path": str(corpus / "train.de"),
            "tokenizer": "bpe",
            "vocabulary_size": VOCABULARY,
            "shared_vocabulary": True,
            "dev_size": 0,
            "test_size": 0,
            # Regard counts the positions of both sides, the peers those of the longer side.
            "batch_tokens": 2 * batch_tokens,
            "equal_lengths": name.endswith(EQUAL_LENGTHS),
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
