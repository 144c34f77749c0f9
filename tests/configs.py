"""Models for tests, from fields without their sections: every field goes to the parts that have it.

recurrent(size=7, embedding=5, attention=dict(size=11))     encoder and decoder
recurrent(size=7, encoder_size=14, bidirectional=True)      a field of one part by its name
changed(model, wiring="plain")                              the same, for a model that exists
"""

from dataclasses import fields, is_dataclass, replace

from regard.config import (
    KINDS,
    CaptionModelConfig,
    ClassificationModelConfig,
    RecurrentDecoderConfig,
    TranslationModelConfig,
)


def translation(encoder="recurrent", decoder="recurrent", **values):
    """Return a model from text to text."""
    kinds = KINDS["translate"]
    model = TranslationModelConfig(
        encoder=kinds["encoder"][encoder](), decoder=kinds["decoder"][decoder]()
    )
    return changed(model, **values)


def recurrent(**values):
    """Return a recurrent encoder with a recurrent decoder."""
    return translation(**values)


def transformer(**values):
    """Return a Transformer."""
    return translation("transformer", "transformer", **values)


def classifier(encoder="recurrent", head="attention", **values):
    """Return a model from a source to labels or numbers."""
    kinds = KINDS["classify"]
    model = ClassificationModelConfig(
        encoder=kinds["encoder"][encoder](), head=kinds["head"][head]()
    )
    return changed(model, **values)


def captioner(decoder="recurrent", encoder="convolutional", **values):
    """Return a model from images to text; a recurrent decoder has the wiring of show, attend and
    tell."""
    part = KINDS["caption"]["decoder"][decoder]()
    if isinstance(part, RecurrentDecoderConfig):
        part = replace(part, wiring="bahdanau", gate=True, output="deep")
    encoder = KINDS["caption"]["encoder"][encoder]()
    return changed(CaptionModelConfig(encoder=encoder, decoder=part), **values)


def changed(model, **values):
    """Return the model with these values in the parts that have the fields."""
    sections = {"": model, **model.parts}
    changes = {section: {} for section in sections}
    for name, value in values.items():
        for section, field in _places(sections, name):
            now = getattr(sections[section], field)
            if is_dataclass(now):
                value = _as_fields(value)
                changes[section][field] = replace(now, **value)
            else:
                changes[section][field] = value
    parts = {part: replace(model.parts[part], **changes[part]) for part in model.parts}
    return replace(model, **parts, **changes[""])


def _places(sections, name):
    """Return the sections that get a field, and its name there."""
    part, _, field = name.partition("_")
    if part in sections and field in _names(sections[part]):
        return [(part, field)]
    if name in _names(sections[""]):
        return [("", name)]
    places = [(section, name) for section, record in sections.items() if name in _names(record)]
    if not places:
        raise TypeError(f"no part of {type(sections['']).__name__} has a field {name}")
    return places


def _names(record):
    return {field.name for field in fields(record)}


def _as_fields(value):
    if isinstance(value, dict):
        return value
    return {field.name: getattr(value, field.name) for field in fields(value)}
