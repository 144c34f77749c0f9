"""Number words, against a list written by hand and a reader written apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.generated import generate
from regard.data.generated.numbers import LARGEST, english, german, numbers
from regard.errors import UserError
from tests.messages import raises

BY_HAND = """
0        zero                                   null
1        one                                    eins
2        two                                    zwei
3        three                                  drei
4        four                                   vier
5        five                                   fünf
6        six                                    sechs
7        seven                                  sieben
8        eight                                  acht
9        nine                                   neun
10       ten                                    zehn
11       eleven                                 elf
12       twelve                                 zwölf
13       thirteen                               dreizehn
14       fourteen                               vierzehn
15       fifteen                                fünfzehn
16       sixteen                                sechzehn
17       seventeen                              siebzehn
18       eighteen                               achtzehn
19       nineteen                               neunzehn
20       twenty                                 zwanzig
21       twenty-one                             einundzwanzig
26       twenty-six                             sechsundzwanzig
27       twenty-seven                           siebenundzwanzig
30       thirty                                 dreißig
31       thirty-one                             einunddreißig
40       forty                                  vierzig
50       fifty                                  fünfzig
60       sixty                                  sechzig
66       sixty-six                              sechsundsechzig
70       seventy                                siebzig
77       seventy-seven                          siebenundsiebzig
80       eighty                                 achtzig
90       ninety                                 neunzig
99       ninety-nine                            neunundneunzig
100      one hundred                            einhundert
101      one hundred one                        einhunderteins
111      one hundred eleven                     einhundertelf
117      one hundred seventeen                  einhundertsiebzehn
121      one hundred twenty-one                 einhunderteinundzwanzig
200      two hundred                            zweihundert
201      two hundred one                        zweihunderteins
423      four hundred twenty-three              vierhundertdreiundzwanzig
616      six hundred sixteen                    sechshundertsechzehn
730      seven hundred thirty                   siebenhundertdreißig
999      nine hundred ninety-nine               neunhundertneunundneunzig
1000     one thousand                           eintausend
1001     one thousand one                       eintausendeins
1100     one thousand one hundred               eintausendeinhundert
1101     one thousand one hundred one           eintausendeinhunderteins
2021     two thousand twenty-one                zweitausendeinundzwanzig
6006     six thousand six                       sechstausendsechs
11011    eleven thousand eleven                 elftausendelf
16016    sixteen thousand sixteen               sechzehntausendsechzehn
21000    twenty-one thousand                    einundzwanzigtausend
21001    twenty-one thousand one                einundzwanzigtausendeins
100000   one hundred thousand                   einhunderttausend
100001   one hundred thousand one               einhunderttausendeins
101000   one hundred one thousand               einhunderteintausend
101101   one hundred one thousand one hundred one   einhunderteintausendeinhunderteins
206000   two hundred six thousand               zweihundertsechstausend
701017   seven hundred one thousand seventeen   siebenhunderteintausendsiebzehn
"""
CASES = [re.split(r"  +", line) for line in BY_HAND.strip().splitlines()]


@pytest.mark.parametrize(("number", "in_english", "in_german"), CASES)
def test_number_words_equal_examples_written_by_hand(
    number: str, in_english: str, in_german: str
) -> None:
    assert english(int(number)) == in_english
    assert german(int(number)) == in_german


def test_the_largest_number_equals_an_example_written_by_hand() -> None:
    assert english(999_999) == "nine hundred ninety-nine thousand nine hundred ninety-nine"
    assert german(999_999) == "neunhundertneunundneunzigtausendneunhundertneunundneunzig"


UNITS = {
    **dict(ein=1, eins=1, zwei=2, drei=3, vier=4, fünf=5, sechs=6, sieben=7, acht=8, neun=9),
    **dict(zehn=10, elf=11, zwölf=12, sechzehn=16, siebzehn=17, null=0),
    **{
        f"{unit}zehn": value
        for unit, value in dict(drei=13, vier=14, fünf=15, acht=18, neun=19).items()
    },
}
TENS = dict(
    zwanzig=20, dreißig=30, vierzig=40, fünfzig=50, sechzig=60, siebzig=70, achtzig=80, neunzig=90
)  # fmt: skip


def read_german(word: str) -> int:
    """Take a word apart from its largest part to its smallest."""
    for name, size in (("tausend", 1000), ("hundert", 100)):
        if name in word:
            before, _, after = word.partition(name)
            return size * read_german(before) + (read_german(after) if after else 0)
    units, joined, tens = word.rpartition("und")
    if joined:
        return UNITS[units] + TENS[tens]
    return TENS[word] if word in TENS else UNITS[word]


ENGLISH_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
"""
ENGLISH = dict(zip(ENGLISH_WORDS.split(), [*range(20), *range(20, 100, 10)], strict=True))


def read_english(text: str) -> int:
    """Add up word by word; hundred and thousand multiply what came before."""
    total = group = 0
    for word in text.replace("-", " ").split():
        if word == "thousand":
            total, group = 1000 * group, 0
        elif word == "hundred":
            group *= 100
        else:
            group += ENGLISH[word]
    return total + group


@given(st.integers(0, LARGEST))
@settings(max_examples=200, deadline=None)
def test_number_words_can_be_parsed_back(number: int) -> None:
    assert read_english(english(number)) == number
    assert read_german(german(number)) == number


def test_number_words_are_distinct() -> None:
    assert len({german(number) for number in range(2000)}) == 2000
    assert [read_german(german(number)) for number in range(2000)] == list(range(2000))


def test_drawn_numbers_are_distinct_and_depend_on_the_seed_only() -> None:
    pairs = numbers(97, 500, seed=3)
    values = [read_english(pair.source) for pair in pairs]
    assert [read_german(pair.target) for pair in pairs] == values
    assert len(set(values)) == 97
    assert max(values) <= 500
    assert [pair.line for pair in pairs] == list(range(1, 98))
    assert numbers(97, 500, seed=3) == pairs != numbers(97, 500, seed=4)
    assert sorted(read_german(pair.target) for pair in numbers(11, 10)) == list(range(11))
    assert generate("numbers", 7, 5) == numbers(7, seed=5)


def test_impossible_numbers_are_rejected() -> None:
    with raises(UserError):
        numbers(12, 10)
    with pytest.raises(UserError, match="the largest number is 1000000"):
        numbers(1, 1_000_000)
    for write in (english, german):
        for number in (-1, 1_000_000):
            with pytest.raises(ValueError, match=f"number is {number}: expected 0 to 999999"):
                write(number)
