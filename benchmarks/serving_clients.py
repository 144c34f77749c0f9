"""Clients of a service: connections that send requests one after the other."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import repeat
from typing import Any
from urllib.parse import urlsplit

SOAK_CLIENTS = 16
SAMPLE_SECONDS = 10.0
INCORRECT = (
    b"{",
    b"[" * 1000,
    b'{"texts": [NaN]}',
    b'{"texts": "a"}',
    b'{"texts": ["a"], "beam": 1000}',
    b'{"texts": ["\\ud800"]}',
    json.dumps({"texts": ["a " * 4000]}).encode(),
)


class Client:
    """Connection that sends one request after the other."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._reader: Any = None
        self._writer: Any = None

    async def post(self, body: bytes, path: str = "/translate", method: str = "POST") -> Any:
        """Return the status and the body of a response."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._address.hostname, self._address.port
            )
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        content = await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), content

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None


def body_of(line: str) -> bytes:
    return json.dumps({"texts": [line]}).encode()


async def send(url: str, lines: Sequence[str], num_clients: int) -> tuple[list[float], list[str]]:
    """Send each line once, from several clients. Return latencies in seconds and translations."""
    latencies, outputs = [0.0] * len(lines), [""] * len(lines)
    rest = iter(enumerate(lines))

    async def work() -> None:
        client = Client(url)
        for number, line in rest:
            began = time.perf_counter()
            status, content = await client.post(body_of(line))
            latencies[number] = time.perf_counter() - began
            if status != 200:
                raise SystemExit(f"status {status}: {content.decode()}")
            outputs[number] = json.loads(content)["results"][0]["text"]
        client.close()

    await asyncio.gather(*(work() for _ in range(num_clients)))
    return latencies, outputs


async def wait_until_ready(url: str) -> None:
    client = Client(url)
    while (await client.post(b"", "/ready", "GET"))[0] != 200:
        await asyncio.sleep(0.05)
    client.close()


def resident_megabytes(page: bytes) -> float:
    (line,) = [
        line
        for line in page.decode().splitlines()
        if line.startswith("process_resident_memory_bytes ")
    ]
    return float(line.split()[1]) / 1e6


async def soak(url: str, lines: Sequence[str], seconds: float) -> dict[str, Any]:
    """Send requests for some time. Return their statuses and the memory of the server."""
    statuses: dict[int, int] = {}
    samples: list[tuple[float, float]] = []
    began = time.monotonic()
    rest = (
        (number, line)
        for number, line in enumerate(line for part in repeat(lines) for line in part)
    )

    async def work() -> None:
        client = Client(url)
        for number, line in rest:
            if time.monotonic() - began > seconds:
                break
            body = INCORRECT[number // 8 % len(INCORRECT)] if number % 8 == 7 else body_of(line)
            if number % 8 == 3:
                body = json.dumps({"texts": [line] * 3, "beam": 2, "attention": True}).encode()
            status, _ = await client.post(body)
            statuses[status] = statuses.get(status, 0) + 1
        client.close()

    async def watch() -> None:
        client = Client(url)
        while (now := time.monotonic() - began) < seconds:
            _, page = await client.post(b"", "/metrics", "GET")
            samples.append((now, resident_megabytes(page)))
            await asyncio.sleep(min(SAMPLE_SECONDS, seconds / 20))
        client.close()

    await asyncio.gather(watch(), *(work() for _ in range(SOAK_CLIENTS)))
    memory = [megabytes for _, megabytes in samples]
    tenth = max(1, len(memory) // 10)
    middle = len(memory) // 2
    return {
        "minutes": seconds / 60,
        "statuses": dict(sorted(statuses.items())),
        "start_mb": memory[0],
        "after_a_tenth_mb": memory[tenth],
        "middle_mb": memory[middle],
        "end_mb": memory[-1],
        "largest_mb": max(memory),
    }
