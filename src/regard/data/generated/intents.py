"""Requests to an assistant, and the intent of each. Several intents share words such as "for
tomorrow", so a single word rarely decides."""

from __future__ import annotations

import random
import re
from itertools import product, zip_longest

from regard.data.examples import Pair
from regard.errors import UserError

REQUESTS = {
    "alarm": ("wake me {time} {day}", "set an alarm {time} {day}", "ring a bell {time}"),
    "weather": (
        "will it rain in {place} {day}",
        "what is the weather like in {place}",
        "how cold is it in {place} {time}",
    ),
    "music": (
        "play something by {artist}",
        "put on {artist} {time}",
        "turn {artist} up {day}",
        "i want to hear {artist} {time} {day}",
    ),
    "travel": (
        "find a train to {place} {day}",
        "book a seat to {place} {time}",
        "how do i get to {place} {day}",
    ),
    "shopping": ("order {thing} {day}", "add {thing} to my list", "how much is {thing} in {place}"),
    "reminder": (
        "remind me to buy {thing} {day}",
        "do not let me forget the trip to {place}",
        "write down that {artist} is in {place}",
    ),
}
"""Templates of the requests of each intent."""
OPENINGS = ("", "please ", "could you ", "hey , ", "i would like you to ", "quickly : ")
WORDS = {
    "time": ("at six", "at half past seven", "in an hour", "at noon", "before eight", "later"),
    "day": ("today", "tomorrow", "on monday", "on friday", "next week", "this weekend"),
    "place": ("oslo", "porto", "graz", "leeds", "izmir", "accra", "turin", "cork"),
    "artist": ("the quiet birds", "anna weiss", "northern brass", "tom okafor", "blue kettle"),
    "thing": ("two lemons", "a bag of rice", "new batteries", "a green scarf", "black ink"),
}


def requests(count: int, seed: int = 1) -> tuple[Pair, ...]:
    """Generate distinct requests with their intents. The intents are equally frequent, as far as
    possible. UserError if there are fewer requests."""
    drawing = random.Random(seed)
    drawn = [drawing.sample(texts, len(texts)) for texts in map(_texts, REQUESTS)]
    pairs = [
        (text, intent)
        for row in zip_longest(*drawn)
        for text, intent in zip(row, REQUESTS, strict=True)
        if text is not None
    ]
    if not 1 <= count <= len(pairs):
        raise UserError(f"{count:,} requests: expected 1 to {len(pairs):,}")
    rows = drawing.sample(pairs[:count], count)
    return tuple(Pair(text, intent, line) for line, (text, intent) in enumerate(rows, start=1))


def _texts(intent: str) -> list[str]:
    """Return all requests of an intent."""
    return [
        text for opening in OPENINGS for each in REQUESTS[intent] for text in _of(opening + each)
    ]


def _of(template: str) -> list[str]:
    slots = re.findall(r"\{(\w+)\}", template)
    words = product(*(WORDS[slot] for slot in slots))
    return [template.format(**dict(zip(slots, chosen, strict=True))) for chosen in words]
