"""Initialisation of a captioner with the weights of another run."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from regard.data.batch import PAD
from regard.data.text.tokenizer import Tokenizer
from regard.models.seq2seq import Seq2Seq
from regard.names import Side
from regard.tasks.captioning.model import CaptionModel
from regard.tasks.training.initialisation import Initialisation, WordWeights, copy_weights


def initialise_from(run: Path, model: Seq2Seq, tokenizer: Tokenizer) -> Initialisation:
    """Copy the weights that a captioner shares with another run. UserError if that is no run of a
    captioner, or shares no weights with the model."""
    initial = CaptionModel.load(run, device="cpu")
    return copy_weights(
        run,
        initial.model.state_dict(),
        _word_weights(initial.model, initial.tokenizer),
        model,
        _word_weights(model, tokenizer),
    )


def _word_weights(model: Seq2Seq, tokenizer: Tokenizer) -> WordWeights:
    """Return the weights with a row for each word: the embedding of words, which has a row for
    padding, and the layer that computes logits."""
    sides: dict[str, Side] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        is_embedding = isinstance(module, nn.Embedding) and module.padding_idx == PAD
        if is_embedding or module is model.decoder.projection:
            for weight, _ in module.named_parameters():
                sides[f"{name}.{weight}"] = "target"
    return WordWeights({"target": tokenizer}, sides)
