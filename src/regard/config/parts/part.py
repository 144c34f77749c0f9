"""Base of the parts of a model."""

from __future__ import annotations

from collections.abc import Iterator

from regard.config.checks import check_fields


class Part:
    """Base of encoders, decoders and heads. Their fields are checked when a record is made."""

    section = ""
    """Section of a recipe, for messages."""

    def __post_init__(self) -> None:
        check_fields(self.section, self)

    @property
    def attends(self) -> bool:
        """Whether the part has attention."""
        return False

    @property
    def max_sequence(self) -> int | None:
        """The longest source or target, in tokens. None if there is no limit."""
        return None

    @property
    def unused(self) -> Iterator[tuple[str, str]]:
        """Fields that are set and have no effect, each with the reason."""
        yield from ()


class EncoderPart(Part):
    """Base of encoders."""

    section = "model.encoder"


class DecoderPart(Part):
    """Base of decoders."""

    section = "model.decoder"


class HeadPart(Part):
    """Base of heads."""

    section = "model.head"
