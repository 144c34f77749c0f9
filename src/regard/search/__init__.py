"""Decoding: greedy search, beam search, sampling and forced decoding over any `Decoder`."""

from regard.search.backpointers import ImpossibleError
from regard.search.beam import BeamResult, BeamSettings, beam
from regard.search.forced import Forced, forced
from regard.search.greedy import greedy
from regard.search.hypothesis import Hypothesis, HypothesisAttention, Lattice
from regard.search.limits import Limits
from regard.search.penalties import Average, GoogleLength, LengthPenalty, NoPenalty
from regard.search.restrictions import Restrictions
from regard.search.sample import sample

__all__ = [
    "Average",
    "BeamResult",
    "BeamSettings",
    "Forced",
    "GoogleLength",
    "Hypothesis",
    "HypothesisAttention",
    "ImpossibleError",
    "Lattice",
    "LengthPenalty",
    "Limits",
    "NoPenalty",
    "Restrictions",
    "beam",
    "forced",
    "greedy",
    "sample",
]
