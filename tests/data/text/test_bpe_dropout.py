"""BPE-dropout against the enumerated algorithm and the library's own pieces."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from regard.data.batch import END
from regard.data.batching import BatchSettings, PairBatches
from regard.data.special_tokens import UNKNOWN
from regard.data.text.bpe_dropout import BpeDropout
from regard.data.text.features import FeatureTokenizer
from regard.data.text.pairs.encoded import EncodedPairs
from regard.data.text.pairs.resampled import ResampledBatches
from regard.data.text.tokenizer import Tokenizer, TokenizerSettings

TEXTS = (
    "a lower tower, lowest of all; don't row slower!",
    "the newest river flows lower than the tallest tower",
    "aaa aaaa aaaaa banana bandana",
)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS * 3, TokenizerSettings("bpe", size=80))


class Ranks(BpeDropout):
    """Splits with given merges, in place of those of a tokenizer."""

    def __init__(self, merges, probability):
        self._ranks = {merge: rank for rank, merge in enumerate(merges)}
        self.probability = probability


def enumerated(word, merges, p):
    """Return the probability of every split of algorithm 1, by all subsets of candidates."""
    ends = Counter()

    def go(pieces, probability):
        places = [i for i in range(len(pieces) - 1) if (pieces[i], pieces[i + 1]) in merges]
        for subset in range(2 ** len(places)):
            present = [place for bit, place in enumerate(places) if subset >> bit & 1]
            chance = probability * p ** (len(places) - len(present)) * (1 - p) ** len(present)
            if not present:
                ends[pieces] += chance
                continue
            best = min(present, key=lambda i: (merges.index((pieces[i], pieces[i + 1])), i))
            joined = (*pieces[:best], pieces[best] + pieces[best + 1], *pieces[best + 2 :])
            go(joined, chance)

    go(tuple(word), 1.0)
    return ends


def test_splits_have_the_probabilities_of_the_algorithm():
    merges = [("n", "a"), ("b", "a"), ("na", "na"), ("ba", "nana")]
    expected = enumerated("banana", merges, 0.3)
    assert sum(expected.values()) == pytest.approx(1)
    split, random, draws = Ranks(merges, 0.3), Random(1), 20_000
    counts = Counter(tuple(split.split("banana", random)) for _ in range(draws))
    assert counts.keys() <= expected.keys()
    for pieces, probability in expected.items():
        error = (probability * (1 - probability) / draws) ** 0.5
        assert abs(counts[pieces] / draws - probability) < 4.5 * error + 1e-9, pieces


def test_without_dropout_the_pieces_are_those_of_the_tokenizer(tokenizer):
    dropout, random = BpeDropout(tokenizer, 0.0), Random(1)
    for text in (*TEXTS, "  unseen: slowest towerless  row", "(a)"):
        ids = tokenizer.encode(text).ids
        assert dropout.resample([*ids, END], random) == [*ids, END]


def test_with_every_merge_left_out_the_pieces_are_characters(tokenizer):
    ids = BpeDropout(tokenizer, 1.0).resample(tokenizer.encode("lower tower").ids, Random(1))
    assert [tokenizer.vocabulary[number] for number in ids] == list("▁lower▁tower")


def test_other_pieces_are_the_same_text(tokenizer):
    dropout, random = BpeDropout(tokenizer, 0.4), Random(1)
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        draws = [tuple(dropout.resample(ids, random)) for _ in range(9)]
        assert {tokenizer.decode(draw) for draw in draws} == {tokenizer.normalise(text)}
        assert len(set(draws)) > 3


def test_special_tokens_unknown_letters_and_features_stay(tokenizer):
    source = FeatureTokenizer(tokenizer, ["PL", "SG"])
    ids = [*source.encode("lowÜer\tSG;PL").ids, END]
    assert UNKNOWN in ids
    resampled = BpeDropout(source, 1.0).resample(ids, Random(1))
    assert resampled[-3:] == ids[-3:]
    assert resampled.count(UNKNOWN) == 1
    assert source.decode(resampled) == source.decode(ids)


def test_only_bpe_has_merges():
    characters = Tokenizer.train(TEXTS, TokenizerSettings("characters"))
    with pytest.raises(ValueError, match="characters: expected bpe"):
        BpeDropout(characters, 0.1)


@pytest.fixture(scope="module")
def pairs(tokenizer):
    words = ["lower", "tower", "newest", "slower", "banana", "river", "tallest"]
    random = np.random.default_rng(1)
    texts = [" ".join(random.choice(words, random.integers(1, 5))) for _ in range(60)]
    ids = [[*each, END] for each in tokenizer.encode_batch(texts)]
    return EncodedPairs.of(ids[:30], ids[30:])


def batches(tokenizer, pairs, *, dropout=0.3, max_length=50, seed=1):
    split = BpeDropout(tokenizer, dropout)
    plain = PairBatches(pairs, BatchSettings(60), seed)
    return plain, ResampledBatches(plain, pairs, (split, None), max_length, seed)


def ids_of(batch):
    return batch.source.ids.tolist(), batch.outputs.tolist()


def test_batches_have_the_pairs_of_the_plain_batches(tokenizer, pairs):
    plain, resampled = batches(tokenizer, pairs)
    assert resampled.num_batches(1) == plain.num_batches(1) > 3
    assert len(resampled) == 30
    for batch, judge in zip(resampled.epoch(1), plain.epoch(1), strict=True):
        assert batch.outputs.tolist() == judge.outputs.tolist()
        assert batch.inputs.tolist() == judge.inputs.tolist()
        texts = [
            [tokenizer.decode(row.tolist()) for row in each.source.ids] for each in (batch, judge)
        ]
        assert texts[0] == texts[1]


def test_batches_after_a_start_are_equal_and_epochs_differ(tokenizer, pairs):
    _, resampled = batches(tokenizer, pairs)
    whole = [ids_of(batch) for batch in resampled.epoch(2)]
    assert [ids_of(batch) for batch in resampled.epoch(2, 2)] == whole[2:]
    assert [ids_of(batch) for batch in resampled.epoch(2)] == whole
    first = sum(batch.source.mask.sum() for batch in resampled.epoch(1))
    assert first != sum(batch.source.mask.sum() for batch in resampled.epoch(2))


def test_no_sequence_grows_above_the_limit(tokenizer, pairs):
    limit = int(pairs.source_lengths.max())
    _, resampled = batches(tokenizer, pairs, dropout=1.0, max_length=limit)
    widths = [batch.source.ids.size(1) for batch in resampled.epoch(1)]
    assert max(widths) == limit


def test_the_fingerprint_names_the_dropout(tokenizer, pairs):
    prints = {
        batches(tokenizer, pairs, **changes)[1].fingerprint()
        for changes in ({}, dict(dropout=0.2), dict(max_length=40), dict(seed=2))
    }
    assert len(prints) == 4
