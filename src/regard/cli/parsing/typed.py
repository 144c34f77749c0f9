"""Typed text, which may have bytes that are not text."""

from __future__ import annotations


def is_text(typed: str) -> bool:
    """Whether it was UTF-8. Bytes of arguments that are not arrive as surrogates (PEP 383)."""
    return not any("\ud800" <= letter <= "\udfff" for letter in typed)
