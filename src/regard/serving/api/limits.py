"""Bounds of a service. Each request beyond a bound is rejected, so memory use is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from regard.config.checks import BeamSize, Length, Range, check_fields
from regard.errors import UserError

Bytes = Annotated[int, Range(1, 1 << 40)]
Number = Annotated[int, Range(1, 1_000_000)]
Seconds = Annotated[float, Range(0, 86_400, is_open=True)]
Milliseconds = Annotated[float, Range(0, 1000)]


@dataclass(frozen=True)
class Limits:
    """Bounds of requests, of the queue and of batches. UserError if they contradict each other."""

    queue: Number = 1024
    """Largest number of texts of all requests that are not answered yet. Status 429 beyond it."""
    body_bytes: Bytes = 1 << 20
    """Largest size of the body of a request with texts. Status 413 beyond it."""
    image_bytes: Bytes = 8 << 20
    """Largest size of the body of a request with images. Status 413 beyond it."""
    held_bytes: Bytes = 64 << 20
    """Largest size of the bodies of all requests that are not answered yet. Status 429 beyond
    it."""
    texts: Number = 128
    """Largest number of texts, pairs or images in a request. Status 422 beyond it."""
    characters: Number = 10_000
    """Largest number of characters of a text. Status 422 beyond it."""
    beam: BeamSize = 16
    """Largest beam size, and largest number of outputs for each text, that a request can set.
    Status 422 beyond it."""
    max_length: Length = 1000
    """Largest maximum length of an output, in tokens, that a request can set. Status 422 beyond
    it."""
    trace_numbers: Number = 1_000_000
    """Largest number of attention weights and scores of one text. Status 422 beyond it."""
    request_bytes: Bytes = 512 << 20
    """Largest estimated memory of decoding one text, and of the results of one request. Status 422
    beyond it. It also bounds a batch of several texts, and all results that clients have not read
    (status 503)."""
    seconds: Seconds = 30.0
    """Time in which a request is received and answered. Status 408 or 503 beyond it."""
    batch_texts: Number = 32
    """Largest number of texts in a batch. Texts of many requests are in a batch."""
    batch_tokens: Number = 4096
    """Largest number of source tokens in a batch, padding included. A longer text is alone in its
    batch."""
    window: Milliseconds = 0.0
    """Milliseconds that an idle model waits for more requests before it starts a batch. A busy
    model does not wait."""
    drain: Seconds = 30.0
    """Time in which accepted requests are received and answered after SIGTERM or Ctrl-C. Status 503
    beyond it."""

    def __post_init__(self) -> None:
        check_fields("", self)
        if self.texts > self.queue:
            raise UserError(
                f"a request can have {self.texts:,} texts, but the queue only {self.queue:,}: "
                "lower the number of texts, or raise the queue"
            )
        if max(self.body_bytes, self.image_bytes) > self.held_bytes:
            raise UserError(
                f"a body can have {max(self.body_bytes, self.image_bytes):,} bytes, but all "
                f"bodies together only {self.held_bytes:,}: lower the first, or raise the second"
            )
