"""Vocabularies: frequent words and characters, learned subwords, and given pieces."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait

import tokenizers
from tokenizers import models, trainers

from regard.data.special_tokens import SPECIAL, UNKNOWN
from regard.data.text.segmentation import (
    MARK,
    at_spaces,
    by_spacy,
    normaliser,
    to_characters,
    to_words,
)
from regard.data.text.tokenizer_settings import SUBWORD_SIZE, TokenizerSettings
from regard.errors import UserError

LONG_WORD = 1000
"""Number of characters above which text of ASCII without a space is data, such as base64 or packed
code, and nothing is learned from it."""
LONG_RUN = 50_000
"""Number of characters for other scripts, some of which have no spaces."""


def long_words(text: str) -> list[str]:
    """Return the parts of a text without a space from which no vocabulary is learned."""
    if len(text) <= LONG_WORD:
        return []
    words = text.split()
    return [word for word in words if len(word) > (LONG_WORD if word.isascii() else LONG_RUN)]


def _without_long_words(text: str) -> str:
    """Return a text without its long words."""
    words = {*long_words(text)}
    return " ".join(word for word in text.split() if word not in words) if words else text


def learned(texts: Iterable[str], settings: TokenizerSettings) -> models.Model:
    """Return the library's model with a vocabulary learned from texts, or with the given
    vocabulary. UserError if `size` is too small for the characters of subwords, or if a given
    vocabulary is not a list of distinct pieces."""
    texts = map(_without_long_words, texts)
    match settings.kind:
        case "bpe":
            return _bpe(texts, settings)
        case "unigram":
            return _unigram(texts, settings)
        case _ if settings.vocabulary is None:
            return _listed(_frequent(texts, settings), settings)
        case _:
            return _listed(_given(settings.vocabulary, settings), settings)


def _listed(pieces: Sequence[str], settings: TokenizerSettings) -> models.Model:
    """Return a model of words, or of characters (subwords without merges), in this order."""
    numbers = {piece: number for number, piece in enumerate([*settings.special, *pieces])}
    unknown = SPECIAL[UNKNOWN]
    numbers.setdefault(unknown, len(numbers))  # without <unk>: a number after the last piece
    if settings.kind == "characters":
        return models.BPE(numbers, [], unk_token=unknown)
    return models.WordLevel(numbers, unk_token=unknown)


def _given(pieces: Sequence[str], settings: TokenizerSettings) -> list[str]:
    if settings.kind == "spaces":  # the other kinds' pieces have marks, which are not text
        normal = normaliser(lowercase=settings.lowercase)
        pieces = [piece if piece in SPECIAL else normal.normalize_str(piece) for piece in pieces]
    seen = set(SPECIAL)
    for piece in pieces:
        if piece in seen:
            why = "it is added automatically" if piece in SPECIAL else "it occurs twice"
            raise UserError(f"leave {piece!r} out of the vocabulary: {why}")
        seen.add(piece)
    return list(pieces)


def _frequent(texts: Iterable[str], settings: TokenizerSettings) -> list[str]:
    """Return the pieces with at least `min_count` occurrences, the most frequent first, pieces of
    equal frequency in alphabetical order."""
    engine = engine_of(models.WordLevel(), settings)
    if settings.kind == "characters":
        engine.pre_tokenizer = to_characters()
    if settings.kind == "spacy":
        cut, normal = by_spacy(settings.language), normaliser(lowercase=settings.lowercase)
        texts = (word for text in texts for word in cut(normal.normalize_str(text)))
    trainer = trainers.WordLevelTrainer(
        vocab_size=sys.maxsize if settings.size is None else settings.size - len(settings.special),
        min_frequency=settings.min_count,
        special_tokens=[],
        show_progress=False,
    )
    _learn(engine, texts, trainer)
    return in_order(engine)


def _bpe(texts: Iterable[str], settings: TokenizerSettings) -> models.Model:
    """Learn byte-pair encoding over characters inside words (Sennrich et al. 2016)."""
    engine = engine_of(models.BPE(unk_token=SPECIAL[UNKNOWN]), settings)
    size = settings.size or SUBWORD_SIZE
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=max(2, settings.min_count),
        special_tokens=list(SPECIAL),
        show_progress=False,
    )
    _learn(engine, _fitting(texts, size, settings), trainer)
    return engine.model


def _unigram(texts: Iterable[str], settings: TokenizerSettings) -> models.Model:
    """Learn a unigram language model over pieces inside words (Kudo 2018)."""
    engine = engine_of(models.Unigram(), settings)
    size = settings.size or SUBWORD_SIZE
    trainer = trainers.UnigramTrainer(
        vocab_size=size - len(SPECIAL), special_tokens=[], show_progress=False
    )
    _learn(engine, _fitting(texts, size, settings), trainer)
    learned = json.loads(engine.to_str())["model"]["vocab"]
    special = [(name, 0.0) for name in SPECIAL]
    return models.Unigram([*special, *map(tuple, learned)], unk_id=UNKNOWN)


def _learn(engine: tokenizers.Tokenizer, texts: Iterable[str], trainer: trainers.Trainer) -> None:
    """Learn a vocabulary. The library reads texts in threads that do not receive Ctrl-C, so the
    main thread waits here, and does not wait for the library once it is interrupted."""
    interrupted, result = threading.Event(), Future[None]()

    def until_interrupted() -> Iterator[str]:
        for text in texts:
            if interrupted.is_set():
                raise KeyboardInterrupt
            yield text

    def learn() -> None:
        try:
            engine.train_from_iterator(until_interrupted(), trainer)
            result.set_result(None)
        except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
            result.set_exception(error)

    threading.Thread(target=learn, daemon=True).start()
    try:
        while not wait([result], timeout=0.2).done:
            pass
    finally:
        interrupted.set()
    result.result()


def _fitting(texts: Iterable[str], size: int, settings: TokenizerSettings) -> Iterator[str]:
    """Yield the texts. UserError after the last text, before any subword is learned, if `size` is
    too small for their characters."""
    normal = normaliser(lowercase=settings.lowercase)
    characters = set(MARK)
    for text in texts:
        characters.update(normal.normalize_str(text))
        yield text
    characters.discard(" ")
    if len(characters) + len(SPECIAL) >= size:
        raise UserError(
            f"a vocabulary of {size} cannot hold the {len(characters)} characters of the texts, "
            f"{len(SPECIAL)} special tokens and a subword: give a larger size"
        )


def engine_of(model: models.Model, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Return the library's tokenizer. For spaCy its input are normalised, split words."""
    engine = tokenizers.Tokenizer(model)
    if settings.kind == "spacy":
        return engine
    engine.normalizer = normaliser(lowercase=settings.lowercase)
    match settings.kind:
        case "spaces":
            engine.pre_tokenizer = at_spaces()
        case "characters":
            engine.pre_tokenizer = to_words(first_marked=False)
        case _:
            engine.pre_tokenizer = to_words()
    return engine


def in_order(engine: tokenizers.Tokenizer) -> list[str]:
    """Return the pieces of a tokenizer in the order of their numbers."""
    numbers = engine.get_vocab()
    return sorted(numbers, key=numbers.__getitem__)
