"""Fonts are chosen from those that there are, which these tests make up."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from regard.viewing.fonts import BASE, Choice, MachineFonts, advice, choose
from tests.messages import check_message

LATIN = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class FakeFonts:
    has: dict[str, str]

    def families(self) -> Sequence[str]:
        return tuple(self.has)

    def characters(self, family: str) -> AbstractSet[int]:
        return {ord(character) for character in self.has.get(family, "")}


FULL = FakeFonts(
    {
        "Strange": "猫犬ܐ",
        BASE: f"{LATIN}שלום◌",
        "Noto Sans CJK SC": f"{LATIN}猫犬",
        "Noto Sans CJK JP": f"{LATIN}猫犬のがー",
        "Noto Sans CJK KR": f"{LATIN}猫犬나는",
        "Noto Sans Devanagari": "नमस्ते",
    }
)


def families(labels: Sequence[str], language: str | None = None) -> list[tuple[str, ...]]:
    return [choice.families for choice in choose(labels, FULL, language)]


def test_the_base_font_is_preferred() -> None:
    assert families(["she", "שלום", "a b", ""]) == [(BASE,)] * 4


def test_labels_use_one_font_if_one_has_all_characters() -> None:
    assert families(["नमस्ते", "a猫"]) == [
        ("Noto Sans Devanagari", BASE),
        ("Noto Sans CJK SC", BASE),
    ]
    assert families(["aन猫"]) == [(BASE, "Noto Sans CJK SC", "Noto Sans Devanagari")]


def test_ideographs_use_the_font_of_their_language() -> None:
    for labels, language, region in [
        (["猫"], None, "SC"),
        (["猫"], "ja", "JP"),
        (["猫"], "jpn", "JP"),
        (["猫"], "ko-KR", "KR"),
        (["猫"], "zh_CN", "SC"),
        (["猫", "の"], None, "JP"),
        (["猫", "나"], None, "KR"),
        (["猫"], "de", "SC"),
    ]:
        assert families(labels, language)[0] == (f"Noto Sans CJK {region}", BASE)


def test_other_fonts_are_used_as_a_last_resort() -> None:
    assert families(["ܐ"]) == [("Strange", BASE)]


def test_advice_names_the_script_the_labels_and_the_remedy() -> None:
    bare = FakeFonts({BASE: LATIN})
    lines = advice(choose(["猫", "a犬", "नम", "猫", "cat"], bare))
    check_message(*lines)
    (line,) = advice(choose(["のが"], bare, "ja"))
    check_message(line)
    (line,) = advice(choose(["🙂"], bare))
    assert "has the characters of '🙂': install" in line
    assert advice(choose(["she"], bare)) == []


def test_mixed_labels_lose_only_characters_without_a_font() -> None:
    fonts = FakeFonts({BASE: LATIN})
    assert choose(["a猫b犬"], fonts) == [Choice("a猫b犬", (BASE,), ("犬", "猫"))]


def test_the_base_font_is_installed_and_placeholder_fonts_are_excluded() -> None:
    fonts = MachineFonts()
    assert {ord(character) for character in "äßłĞЖшωשלוםالسلام␣◌"} <= fonts.characters(BASE)
    assert BASE in fonts.families()
    assert not any("Last Resort" in family for family in fonts.families())
    assert fonts.characters("No such font") == set()
