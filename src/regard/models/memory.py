"""Which of the things an encoder computed become keys and values."""

from __future__ import annotations

from regard.models.contracts import Encoded, Memory


def top_layer(encoded: Encoded) -> Memory:
    """Keys and values are both the highest layer's states (Bahdanau et al. 2015, Luong et al.
    2015, Vaswani et al. 2017)."""
    states = encoded.layers[-1]
    return Memory(keys=states, values=states, mask=encoded.mask, summary=encoded.summary)
