"""Choice of fonts for labels, and advice on fonts to install.

matplotlib (from 3.11) shapes letters and orders right-to-left text, but it does not choose fonts.
Its own font has Latin, Greek, Cyrillic, Arabic and Hebrew letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Protocol, runtime_checkable

BASE = "DejaVu Sans"
"""Font of matplotlib. It is preferred, so that figures look alike on every machine."""

EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH"}
REGIONS = {
    "zh": "SC", "cmn": "SC", "zho": "SC", "zh-tw": "TC", "zh-hant": "TC", "zh-hk": "HK",
    "yue": "HK", "ja": "JP", "jpn": "JP", "ko": "KR", "kor": "KR",
}  # fmt: skip
"""Regions by language code. Ideographs are drawn differently in China, Taiwan, Hong Kong, Japan and
Korea."""
REGIONAL_FONTS = {
    "SC": ("Noto Sans CJK SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei"),
    "TC": ("Noto Sans CJK TC", "Source Han Sans TC", "PingFang TC", "Microsoft JhengHei"),
    "HK": ("Noto Sans CJK HK", "Source Han Sans HK", "PingFang HK", "Microsoft JhengHei"),
    "JP": ("Noto Sans CJK JP", "Source Han Sans", "Hiragino Sans", "Yu Gothic"),
    "KR": ("Noto Sans CJK KR", "Source Han Sans K", "Apple SD Gothic Neo", "Malgun Gothic"),
}
NOT_FOR_TEXT = re.compile(r"Last Resort|STIXSize|cm[a-z]+\d+$")
"""Families that hold only boxes or formula signs."""


class MissingFontWarning(UserWarning):
    """Warning about characters that no font has, with the font to install."""


@runtime_checkable
class Fonts(Protocol):
    """Available fonts."""

    def families(self) -> Sequence[str]:
        """Return the names of all font families, the best for text first."""

    def characters(self, family: str) -> AbstractSet[int]:
        """Return the code points of a family; empty if there is no such family."""


class MachineFonts:
    """Fonts of this machine."""

    def families(self) -> Sequence[str]:
        return _families()

    def characters(self, family: str) -> AbstractSet[int]:
        return _characters(family)


@dataclass(frozen=True)
class Choice:
    """Font families for one label, best first, and the characters that no font has."""

    label: str
    families: tuple[str, ...]
    missing: tuple[str, ...] = ()


def choose(labels: Sequence[str], fonts: Fonts, language: str | None = None) -> list[Choice]:
    """Return for each label the first family with all of its characters, or several families that
    have them together.

    The base font is tried first, then the usual fonts of the label's scripts, then all others.
    `language` is a code such as "ja", which decides the form of ideographs; without it they are
    Japanese if any label has kana, Korean if any has Hangul, else Chinese."""
    region = _region(labels, language)
    return [_choose(label, fonts, region) for label in labels]


def _choose(label: str, fonts: Fonts, region: str) -> Choice:
    needed = frozenset(ord(c) for c in label if unicodedata.category(c) not in ("Cf", "Zs"))
    partial: list[str] = []
    missing = needed
    for family in _candidates(label, fonts, region):
        characters = fonts.characters(family)
        if needed <= characters:
            return Choice(label, tuple(dict.fromkeys((family, BASE))))
        if missing & characters:
            partial.append(family)
            missing = missing - characters
    return Choice(label, tuple(dict.fromkeys((*partial, BASE))), tuple(map(chr, sorted(missing))))


def _candidates(label: str, fonts: Fonts, region: str) -> Iterator[str]:
    scripts = sorted({_script(character) for character in label})
    usual = [
        REGIONAL_FONTS[region] if script in EAST_ASIAN else (f"Noto Sans {script.title()}",)
        for script in scripts
    ]
    yield from dict.fromkeys((BASE, *chain.from_iterable(usual)))
    yield from fonts.families()


def _script(character: str) -> str:
    """Return the first word of a character's Unicode name, which is the script of a letter."""
    return re.split("[ -]", unicodedata.name(character, "UNKNOWN"))[0]


def _region(labels: Sequence[str], language: str | None) -> str:
    code = (language or "").lower().replace("_", "-")
    for known in (code, code.split("-")[0]):
        if known in REGIONS:
            return REGIONS[known]
    scripts = {_script(character) for label in labels for character in label}
    return "JP" if scripts & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in scripts else "SC"


def advice(choices: Iterable[Choice]) -> list[str]:
    """Return one line for each script without a font: its name, its labels and the font to
    install."""
    labels: dict[str, list[str]] = defaultdict(list)
    for choice in choices:
        for kind in {_kind(character) for character in choice.missing}:
            if choice.label not in labels[kind]:
                labels[kind].append(choice.label)
    return [_advice(kind, affected) for kind, affected in sorted(labels.items())]


def _kind(character: str) -> str:
    script = _script(character)
    if script in EAST_ASIAN:
        return "Chinese" if script in ("CJK", "IDEOGRAPHIC") else script.title()
    is_letter = unicodedata.category(character)[0] in "LM"
    return script.title() if is_letter and script != "UNKNOWN" else ""


def _advice(kind: str, labels: list[str]) -> str:
    shown = ", ".join(f"'{label}'" for label in labels[:3]) + " …" * (len(labels) > 3)
    package, family = "fonts-noto-core", f"Noto Sans {kind}"
    if not kind:
        package, family = "fonts-noto", "a font that has them"
    elif kind == "Chinese" or kind.upper() in EAST_ASIAN:
        package, family = "fonts-noto-cjk", "Noto Sans CJK"
    characters = f"{kind} characters" if kind else "characters"
    return (
        f"no font on this machine has the {characters} of {shown}: install {package} (Debian, "
        f"Ubuntu) or {family}"
    )


@cache
def _families() -> tuple[str, ...]:
    """Return all families, with those installed after matplotlib cached its list."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {str(entry.fname) for entry in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            _add(path)
    names = {entry.name for entry in fontManager.ttflist}
    text = [name for name in names if not NOT_FOR_TEXT.match(name)]
    return tuple(sorted(text, key=lambda name: ("Sans" not in name, "Mono" in name, name)))


def _add(path: str) -> None:
    from matplotlib.font_manager import fontManager

    try:
        fontManager.addfont(path)
    except (RuntimeError, OSError):  # a damaged font, or a format that matplotlib cannot draw
        return


@cache
def _characters(family: str) -> frozenset[int]:
    from matplotlib.font_manager import FontPath, fontManager, get_font

    if family != BASE:
        _families()
    entries = [entry for entry in fontManager.ttflist if entry.name == family]
    if not entries:
        return frozenset()
    plain = min(entries, key=lambda entry: (entry.style != "normal", abs(int(entry.weight) - 400)))
    try:
        return frozenset(get_font(FontPath(plain.fname, plain.index)).get_charmap())
    except (RuntimeError, OSError):
        return frozenset()
