"""Services of small runs, fake models, and requests without a network."""

import asyncio
import json
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from regard.config import SearchConfig
from regard.serving.api.limits import Limits
from regard.serving.api.verbs import VERBS
from regard.serving.app import build_app
from regard.serving.batches.operations import Need
from regard.serving.server import listen, serve, url_of
from regard.serving.service import ServedRun, Service

JSON = {"content-type": "application/json"}
SECONDS = 20


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def results(self):
        return self.json["results"]


@dataclass
class Fake:
    """An operation whose results are its texts. It notes its batches; a text `bad` is an error."""

    batches: list = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)
    """The operation waits until it is set."""
    seconds: float = 0.0

    def __post_init__(self):
        self.open.set()

    def lengths(self, items, settings):
        if "unreadable" in items:
            raise ValueError("unreadable")
        return [len(text) for text in items]

    def needs(self, lengths, settings):
        return [Need(0, 0)] * len(lengths)

    def run(self, items, settings):
        self.batches.append(list(items))
        assert self.open.wait(SECONDS)
        time.sleep(self.seconds)
        if "bad" in items:
            raise KeyError("a fault of the model")
        return [json.dumps({"text": text, "beam": settings.search.beam}) for text in items]


def fake_run(operation, name="fake", verb="translate", load=None):
    """Return a run whose model is a fake."""
    load = load or (lambda: {verb: operation})
    return ServedRun(name, (VERBS[verb],), SearchConfig(), load)


async def call(app, path, body=b"", *, method="POST", headers=JSON, query="", receive=None):
    """Send a request to an ASGI application and return its response."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    headers = {"host": "localhost:8000", **headers}
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    response = {"status": 499, "headers": [], "body": b""}

    async def receive_message():
        if messages:
            return messages.pop()
        await asyncio.Event().wait()  # the client stays

    async def send(message):
        response["body"] += message.pop("body", b"")
        response.update(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive or receive_message, send)
    headers = {name.decode(): value.decode() for name, value in response["headers"]}
    return Answer(response["status"], headers, response["body"])


@asynccontextmanager
async def running(service):
    """Start a service without a server, and return its application when the models are loaded."""
    app = build_app(service)
    messages, events = asyncio.Queue(), asyncio.Queue()
    task = asyncio.ensure_future(app({"type": "lifespan"}, messages.get, events.put))
    await messages.put({"type": "lifespan.startup"})
    assert (await events.get())["type"] == "lifespan.startup.complete"
    try:
        async with asyncio.timeout(SECONDS):
            while not service.worker.is_loaded:
                await asyncio.sleep(0.001)
        yield app
    finally:
        await messages.put({"type": "lifespan.shutdown"})
        await task


def request(service, path, body=b"", **options):
    """Start a service, send one request, and return the response."""

    async def run():
        async with running(service) as app:
            return await call(app, path, body, **options)

    return asyncio.run(run())


def requests(service, *bodies, path="/translate"):
    """Start a service, send requests at the same time, and return their responses."""

    async def run():
        async with running(service) as app:
            return await asyncio.gather(*(call(app, path, body) for body in bodies))

    return asyncio.run(run())


async def until(condition):
    """Wait for a condition."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


@contextmanager
def listening(service):
    """Start a server in a thread and return its address."""
    with listen("127.0.0.1", 0) as bound, serving(service, bound):
        yield url_of(bound)


@contextmanager
def serving(service, bound):
    """Start a server in a thread, at a socket to which clients may have connected already."""
    thread = threading.Thread(target=serve, args=(service, bound), daemon=True)
    thread.start()
    while not service.worker.is_loaded:
        time.sleep(0.01)
    try:
        yield
    finally:
        service.end_server()
        thread.join(SECONDS)
        assert not thread.is_alive()


def service_of(*operations, **limits):
    """Return a service of fakes."""
    names = ("fake", "second", "third")
    runs = [fake_run(each, name) for each, name in zip(operations, names, strict=False)]
    return Service(runs, Limits(**limits))
