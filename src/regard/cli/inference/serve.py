"""`regard serve`: serve runs over HTTP."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from regard.cli.output import say, warn
from regard.cli.parsing.help import REPEATED, Positional
from regard.cli.parsing.options import Device, parse
from regard.config.checks import BeamSize, Range
from regard.errors import UserError, install_command
from regard.runtime.memory_policy import (
    exempt_present_objects,
    limit_cached_products,
    pause_collection,
)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MIB = 1 << 20
HELD = 64
"""Largest size of all bodies together, in MiB, unless one body can be larger."""
PACKAGES = ("starlette", "uvicorn", "prometheus-client")
MODULES = ("starlette", "uvicorn", "prometheus_client")
Port = Annotated[int, Range(0, 65_535)]
Number = Annotated[int, Range(1, 1_000_000)]
BodyMebibytes = Annotated[int, Range(1, 1024)]
Mebibytes = Annotated[int, Range(1, 1 << 20)]
Seconds = Annotated[float, Range(0, 86_400, is_open=True)]
Milliseconds = Annotated[float, Range(0, 1000)]

HELP_EXAMPLES = (
    ("regard serve runs/letters", "POST texts to http://127.0.0.1:8000/translate"),
    ("regard serve runs/letters runs/labels", "several runs, each at /runs/NAME"),
    ("REGARD_TOKEN=secret regard serve runs/letters --host 0.0.0.0", "for other machines"),
)


@dataclass(frozen=True)
class Options:
    """Serve runs over HTTP: texts and images in, outputs and attention out, as JSON. Open / in a
    browser for the paths of the API and their fields. Ctrl-C or SIGTERM finishes the open requests
    and exits. Logs are JSON lines on the standard error."""

    runs: Positional[tuple[Path, ...]]
    """Run folders, or folders of ensembles."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 for all addresses of this machine."""
    port: Port = 8000
    """Port to listen at; 0 for a free port."""
    token: str | None = None
    """Token that each request must have in its header Authorization: Bearer TOKEN. Other users of
    this machine can see the options of a program, so prefer the environment variable REGARD_TOKEN
    (default: REGARD_TOKEN, or no token)."""
    allowed_host: Annotated[tuple[str, ...], REPEATED] = ()
    """Name of this service in the header Host of requests. localhost and IP addresses are always
    allowed."""
    queue: Number = 1024
    """Largest number of texts that wait or run. A request beyond it gets status 429."""
    max_texts: Number = 128
    """Largest number of texts, pairs or images in a request."""
    max_characters: Number = 10_000
    """Largest number of characters of a text."""
    max_body: BodyMebibytes = 1
    """Largest body of a request with texts, in MiB."""
    max_image_body: BodyMebibytes = 8
    """Largest body of a request with images, in MiB."""
    max_beam: BeamSize = 16
    """Largest beam, and largest number of outputs for each text, that a request can set."""
    max_request_memory: Mebibytes = 512
    """Largest estimated memory in MiB of decoding one text with its attention, of a batch, and of
    the results of one request. The process takes at most about four times that besides its
    models."""
    timeout: Seconds = 30.0
    """Seconds until a request without a result gets status 503."""
    batch_texts: Number = 32
    """Largest number of texts in a batch, from many requests."""
    batch_tokens: Number = 4096
    """Largest number of source tokens in a batch, padding included."""
    window: Milliseconds = 0.0
    """Milliseconds that an idle model waits for more requests before it starts a batch."""
    drain: Seconds = 30.0
    """Seconds in which open requests are finished after SIGTERM or Ctrl-C."""
    exceptions: Path | None = None
    """File of pairs in any format of training, for one run. A text that is a source of it has its
    target there, without decoding, unless the request has a prefix."""
    device: Device = "auto"


def run(arguments: list[str]) -> int:
    """Serve runs until a signal comes; return 0 then."""
    options = parse(Options, arguments, "regard serve")
    if not options.runs:
        raise UserError("no runs: name at least one run folder")
    token = _token(options)
    limit_cached_products()
    try:
        from regard.serving import logs, server
    except ImportError as error:
        if error.name not in MODULES:
            raise
        raise UserError(
            f"regard serve needs {error.name}, which is not installed: {install_command(*PACKAGES)}"
        ) from error
    from regard.serving.api.limits import Limits
    from regard.serving.service import Access, Service, served_runs

    limits = Limits(
        queue=options.queue,
        body_bytes=options.max_body * MIB,
        image_bytes=options.max_image_body * MIB,
        held_bytes=max(HELD, options.max_body, options.max_image_body) * MIB,
        texts=options.max_texts,
        characters=options.max_characters,
        beam=options.max_beam,
        request_bytes=options.max_request_memory * MIB,
        seconds=options.timeout,
        batch_texts=options.batch_texts,
        batch_tokens=options.batch_tokens,
        window=options.window,
        drain=options.drain,
    )
    runs = served_runs(options.runs, options.device, limits, options.exceptions)
    hosts = (*options.allowed_host, options.host)
    service = Service(runs, limits, Access(token, hosts))
    service.when_loaded = exempt_present_objects
    with server.listen(options.host, options.port) as bound:
        if token is None and options.host not in LOOPBACK:
            warn(
                f"--host {options.host}: every machine that reaches it can send requests; set a "
                "token"
            )
        say(f"{', '.join(service.runs)} at {server.url_of(bound)} (Ctrl-C to stop)")
        logs.install()
        with pause_collection():
            import regard.pipeline.load  # noqa: F401 - so that the worker's thread need not
        if not server.serve(service, bound):
            sys.stdout.flush()
            os._exit(0)  # a batch is still running, and all requests are answered
    return 0


def _token(options: Options) -> str | None:
    """Return the token of the options or of the environment. UserError for a token that no header
    can have."""
    token = options.token
    if token is None:
        token = os.environ.get("REGARD_TOKEN") or None
    if token is not None and not re.fullmatch("[!-~]+", token):
        raise UserError("the token (--token or REGARD_TOKEN) must be ASCII without spaces")
    return token
