"""What of attention fits where: a combination that does not names both sides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from regard.building import build_captioner, build_classifier, build_translation
from regard.config import (
    AttentionConfig,
    CaptionerConfig,
    ClassifierConfig,
    RecurrentConfig,
    TransformerConfig,
)
from regard.errors import UserError

ADDITIVE = AttentionConfig(score="additive", size=7)
OF_TARGETS = [
    AttentionConfig(scope="local_m", score="additive", size=7),
    AttentionConfig(scope="local_p", score="additive", size=7),
    AttentionConfig(score="coverage", size=7),
    AttentionConfig(score="location", size=7),
]


def translation(attention, **changes):
    config = RecurrentConfig(hidden=11, embedding=5, attention=attention)
    return build_translation(replace(config, **changes), 13, 17)


def transformer(attention):
    config = TransformerConfig(size=8, layers=1, heads=2, feed_forward=11, attention=attention)
    return build_translation(config, 13, 17)


def classifier(attention):
    return build_classifier(ClassifierConfig(embedding=5, hidden=7, attention=attention), 13, 0, 3)


def captioner(attention):
    return build_captioner(CaptionerConfig(channels=(3, 5), size=7, attention=attention), 16, 13)


@pytest.mark.parametrize("build", [transformer, classifier, captioner])
@pytest.mark.parametrize(
    "attention", OF_TARGETS, ids=["local_m", "local_p", "coverage", "location"]
)
def test_only_the_look_at_a_source_goes_along_with_its_target(build, attention):
    assert translation(attention)
    assert build(ADDITIVE)
    named = attention.scope if attention.scope != "global" else attention.score
    with pytest.raises(UserError, match=rf"model.attention.\w+ {named} .* of a recurrent decoder"):
        build(attention)


def test_what_is_beside_the_source_has_the_usual_attention():
    model = translation(OF_TARGETS[0], memory_vectors=3, looks_at_written=True)
    source, memory, written = model.decoder.look.looks
    assert type(source.attention).__name__ == "LocalAttention"
    assert type(memory.attention) is type(written.attention)
    assert type(memory.attention).__name__ == "Attention"


def test_a_remembering_score_sees_everything():
    with pytest.raises(UserError, match=r"score coverage goes with .*scope global, but .* local_m"):
        translation(replace(OF_TARGETS[2], scope="local_m"))


@pytest.mark.parametrize(
    "changes",
    [
        dict(query="input"),
        dict(keys=(0,)),
        dict(neighbours=1),
        dict(memory_vectors=3),
        dict(external=Path("vectors.npy")),
        dict(looks_at_written=True),
    ],
)
def test_who_looks_at_nothing_is_not_told_how(changes):
    (name,) = changes
    with pytest.raises(UserError, match=rf"model.{name} is .*, but model.wiring plain looks at no"):
        translation(ADDITIVE, wiring="plain", **changes)
