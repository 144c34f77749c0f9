"""Combinations of attention that do not fit are refused with the names of both fields."""

import re
from pathlib import Path

import pytest

from regard.building.translators import build_translation
from regard.config import AttentionConfig
from regard.errors import UserError
from tests import configs
from tests.messages import check_message, raises

OF_DECODERS = [dict(scope="local_m"), dict(scope="local_p"), dict(score="coverage")]


def built(attention=None, **values):
    model = configs.recurrent(size=11, embedding=5, attention=attention or {}, **values)
    return build_translation(model, 13, 17)


@pytest.mark.parametrize("values", OF_DECODERS, ids=str)
def test_only_recurrent_decoders_have_local_scopes_and_scores_with_a_history(values):
    assert built(values)
    with pytest.raises((UserError, TypeError)):
        AttentionConfig(**values)


def test_memories_besides_the_source_have_plain_attention():
    model = built(dict(scope="local_m"), memory_vectors=3, intra_attention=True)
    source, memory, own = model.decoder.attention.attentions
    assert type(source.attention).__name__ == "LocalAttention"
    assert type(memory.attention) is type(own.attention)
    assert type(memory.attention).__name__ == "Attention"


@pytest.mark.parametrize(
    "attention",
    [
        dict(score="coverage", scope="local_m"),
        dict(sampling="hard", scope="local_p"),
        dict(sampling="hard", score="location"),
        dict(sampling="hard", normaliser="sparsemax"),
        dict(score="dot"),
    ],
    ids=str,
)
def test_attention_that_does_not_fit_is_refused(attention):
    with raises(UserError, "model.decoder.attention"):
        built(attention, encoder_size=10)


def test_all_fields_of_attention_and_the_options_that_unset_them_are_named():
    with pytest.raises(UserError) as caught:
        built(wiring="plain", gate=True, key_layers=(0, -1), attention=dict(doubly_stochastic=1.0))
    check_message(str(caught.value))


@pytest.mark.parametrize(
    "changes",
    [
        dict(query="input"),
        dict(key_layers=(0,)),
        dict(context_window=1),
        dict(memory_vectors=3),
        dict(extra_vectors=Path("vectors.npy")),
        dict(intra_attention=True),
        dict(gate=True),
        dict(attention=dict(sampling="hard")),
        dict(attention=dict(doubly_stochastic=1.0)),
    ],
    ids=str,
)
def test_a_decoder_without_attention_has_no_fields_of_it(changes):
    (name,) = changes
    value = changes[name]
    name = f"attention.{next(iter(value))}" if name == "attention" else name
    words = re.escape(f"model.decoder.{name} is set, but model.decoder.wiring plain has no")
    with pytest.raises(UserError, match=words):
        built(wiring="plain", **changes)


@pytest.mark.parametrize(
    "values",
    [
        dict(key_layers=(3,)),
        dict(value_layers=()),
        dict(bridge="copy", encoder_size=10),
        dict(bridge="copy", decoder_layers=2),
        dict(wiring="bahdanau", feeding="context"),
    ],
    ids=str,
)
def test_a_decoder_that_does_not_fit_its_encoder_is_refused(values):
    with raises(UserError, "model.decoder"):
        built(**values)


def test_tied_embeddings_need_one_size():
    with raises(UserError, "model.tied"):
        configs.recurrent(tied="all", encoder_embedding=5, decoder_embedding=7)
    with raises(UserError, "model.tied"):
        built(tied="output")
