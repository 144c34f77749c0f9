"""Traces have all attention maps of a model, each of the size of its sequences."""

from dataclasses import replace

import torch

from regard.building.translators import build_translation
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings
from regard.models.contracts import AttentionBlock
from regard.tasks.translation.encoding import Tokenizers
from regard.tasks.translation.model import TranslationModel


def test_traces_have_the_encoders_self_attention(run):
    translator = TranslationModel.load(run)
    encoder = translator.model.encoder

    class Attending(torch.nn.Module):
        """Encoder that returns self-attention of each position to itself."""

        def forward(self, source, *, need_weights=False):
            encoded = encoder(source, need_weights=need_weights)
            if not need_weights:
                return encoded
            weights = torch.eye(source.ids.size(1)).expand(source.ids.size(0), 2, 3, -1, -1)
            return replace(encoded, attention=(AttentionBlock("encoder", weights),))

    translator.model.encoder = Attending()
    for text, pieces in (("a b c", 4), ("a b c d e", 6)):
        found, _ = translator.translate([text, "a b c d e f g"])
        itself = found.trace.map("encoder")
        assert itself.weights.shape == (2, 3, pieces, pieces)
        assert found.trace.map("cross").weights.shape[3] == pieces


def test_traces_have_the_tokenizers_word_numbers(run):
    experiment = TranslationModel.load(run).experiment
    texts = ["the cat, sat.", "die Katze sass, (ja)."]
    bpe = Tokenizer.train(texts, TokenizerSettings(kind="bpe", size=40))
    words = Tokenizer.train(texts, TokenizerSettings(kind="words"))
    for tokenizer in (bpe, words):
        model = build_translation(experiment.model, len(tokenizer), len(tokenizer))
        translator = TranslationModel(experiment, Tokenizers(tokenizer, tokenizer), model)
        (found,) = translator.score([("the cat, sat.", "die Katze sass, (ja).")])
        assert set(found.trace.source.words) == set(range(5 + 1))
        assert set(found.trace.target.words) == set(range(8 + 1))
