"""Sentences with dates, times and numbers in figures, and the same sentences as they are spoken.

The train leaves on 3.5.2024 at 14:30 from platform 12.
The train leaves on the third of May twenty twenty-four at half past two from platform twelve.
"""

from __future__ import annotations

import random
from calendar import monthrange

from regard.data.examples import Pair
from regard.data.generated.distinct import distinct_pairs
from regard.data.generated.numbers import english

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
FIRST_YEAR, LAST_YEAR = 1990, 2039
IRREGULAR = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
"""Ordinal numbers that are not the cardinal number with th."""
EVENTS = (
    "The train to {place} leaves",
    "{name} meets the buyers from {place}",
    "The concert of {name} begins",
    "The lease of the shop in {place} ends",
    "The ferry to {place} arrives",
    "{name} and the children visit {place}",
    "Please call {name}",
    "The library in {place} closes",
    "The lecture by {name} starts",
    "We moved the party for {name}",
)
NAMES = (
    "Ms Ortega",
    "Mr Lind",
    "Dr Achebe",
    "Anna Weiss",
    "Tom Okafor",
    "Ines Duarte",
    "Professor Rao",
)
PLACES = ("Oslo", "Porto", "Graz", "Leeds", "Izmir", "Accra", "Turin", "Bergen", "Lagos", "Cork")
ENDINGS = ("from platform {number}", "in room {number}", "for {number} guests", "at gate {number}")
LARGEST = 60
"""Largest number at the end of a sentence."""


def ordinal(number: int) -> str:
    """Return an ordinal number in words, such as twenty-first. ValueError for a number that
    `english` refuses."""
    beginning, hyphen, last = english(number).rpartition("-")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    else:
        last = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{beginning}{hyphen}{last}"


def year(number: int) -> str:
    """Return a year from 1100 to 2099 as it is spoken: nineteen ninety-five, two thousand and
    five."""
    century, rest = divmod(number, 100)
    if century == 20 and rest < 10:
        return "two thousand" + (f" and {english(rest)}" if rest else "")
    if rest == 0:
        return f"{english(century)} hundred"
    return f"{english(century)} {'oh ' if rest < 10 else ''}{english(rest)}"


def time(hour: int, minute: int) -> str:
    """Return a time of day as it is spoken, in hours from one to twelve: a quarter to three."""

    def name(number: int) -> str:
        return english((number - 1) % 12 + 1)

    if minute == 0:
        return f"{name(hour)} o'clock"
    if minute == 30:
        return f"half past {name(hour)}"
    past = minute < 30
    size = minute if past else 60 - minute
    words = "a quarter" if size == 15 else english(size)
    return f"{words} {'past' if past else 'to'} {name(hour if past else hour + 1)}"


def spoken_dates(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct sentences with a date, a time and mostly a number, and their spoken form.
    UserError for a count below 1."""
    return distinct_pairs(count, seed, "sentences", _draw)


def _draw(drawing: random.Random) -> tuple[str, str]:
    """Draw a sentence with figures, and its spoken form."""
    event = drawing.choice(EVENTS).format(name=drawing.choice(NAMES), place=drawing.choice(PLACES))
    ending, number = drawing.choice((*ENDINGS, "")), drawing.randint(1, LARGEST)
    years, month = drawing.randint(FIRST_YEAR, LAST_YEAR), drawing.randint(1, 12)
    day = drawing.randint(1, monthrange(years, month)[1])
    hour, minute = drawing.randint(0, 23), 5 * drawing.randint(0, 11)
    figures = f"on {day}.{month}.{years} at {hour}:{minute:02d}"
    words = f"on the {ordinal(day)} of {MONTHS[month - 1]} {year(years)} at {time(hour, minute)}"
    source = f"{event} {figures} {ending.format(number=number)}".strip()
    target = f"{event} {words} {ending.format(number=english(number))}".strip()
    return f"{source}.", f"{target}."
