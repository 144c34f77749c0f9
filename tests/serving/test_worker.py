"""Batches of the worker: which texts are together, and what one text can do to the others."""

import asyncio
import json
import time
from dataclasses import dataclass
from itertools import chain

import pytest

from regard.runtime.wanted import check_wanted
from regard.serving.app import build_app
from regard.serving.batches.operations import Need
from regard.serving.service import Service
from tests.messages import check_message
from tests.serving.services import (
    Fake,
    call,
    fake_run,
    request,
    requests,
    running,
    service_of,
    until,
)


def texts(*values, **options):
    return {"texts": list(values), **options}


async def start_blocked(app, operation):
    """Send a request that keeps the worker busy, and return its task."""
    operation.open.clear()
    task = asyncio.ensure_future(call(app, "/translate", texts("first")))
    await until(lambda: operation.batches)
    return task


def run_together(operation, bodies, **limits):
    """Send requests while the worker is busy. Return the batches after that and the responses."""

    async def run():
        service = service_of(operation, **limits)
        async with running(service) as app:
            first = await start_blocked(app, operation)
            tasks = [asyncio.ensure_future(call(app, "/translate", body)) for body in bodies]
            num_texts = 1 + sum(len(body["texts"]) for body in bodies)
            await until(lambda: service.worker.num_texts == num_texts)
            operation.open.set()
            answers = await asyncio.gather(*tasks)
            assert (await first).status == 200
            await until(lambda: not service.worker.num_texts)
            return operation.batches[1:], answers

    return asyncio.run(run())


def test_waiting_requests_are_one_batch_sorted_by_length():
    bodies = [texts("ccc", "a"), texts("dddd"), texts("bb", "eeeee")]
    batches, answers = run_together(Fake(), bodies)
    assert batches == [["a", "bb", "ccc", "dddd", "eeeee"]]
    for body, answer in zip(bodies, answers, strict=True):
        assert [result["text"] for result in answer.results] == body["texts"]


def test_a_batch_has_a_bound_of_texts_and_of_tokens_with_padding():
    bodies = [texts(*("abcdefgh"[: n + 1] for n in range(8)))]
    batches, _ = run_together(Fake(), bodies, batch_texts=3)
    assert [len(batch) for batch in batches] == [3, 3, 2]
    batches, (answer,) = run_together(Fake(), bodies, batch_tokens=9)
    assert [[len(text) for text in batch] for batch in batches] == [
        [1, 2, 3],
        [4],
        [5],
        [6],
        [7],
        [8],
    ]
    assert [result["text"] for result in answer.results] == bodies[0]["texts"]


def test_requests_with_different_options_are_in_different_batches():
    bodies = [texts("a"), texts("b", beam=3), texts("c"), texts("d", beam=3)]
    batches, answers = run_together(Fake(), bodies)
    assert batches == [["a", "c"], ["b", "d"]]
    assert [answer.results[0]["beam"] for answer in answers] == [1, 3, 1, 3]


def test_the_oldest_request_is_in_the_next_batch():
    """Requests of one kind cannot keep those of another kind waiting."""
    bodies = [texts("a", beam=2), *[texts(f"b{n}") for n in range(20)], texts("c", beam=2)]
    batches, _ = run_together(Fake(), bodies, batch_texts=2)
    assert batches[0] == ["a", "c"]


def test_runs_are_in_different_batches():
    operations = Fake(), Fake()

    async def run():
        async with running(service_of(*operations)) as app:
            paths = ["/runs/fake/translate", "/runs/second/translate"] * 2
            bodies = [texts(name) for name in "abcd"]
            return await asyncio.gather(*map(call, [app] * 4, paths, bodies))

    answers = asyncio.run(run())
    assert [answer.results[0]["text"] for answer in answers] == ["a", "b", "c", "d"]
    assert [sorted(chain(*each.batches)) for each in operations] == [["a", "c"], ["b", "d"]]


@pytest.mark.parametrize(("text", "status"), [("bad", 500), ("unreadable", 500)])
def test_a_fault_in_one_text_leaves_the_other_requests(text, status, caplog):
    _, answers = run_together(Fake(), [texts("a"), texts("b", text), texts("c", "d")])
    assert [answer.status for answer in answers] == [200, status, 200]
    assert answers[1].error == "internal error"
    assert [result["text"] for result in answers[2].results] == ["c", "d"]
    assert any(record.exc_info for record in caplog.records)


def test_a_request_beyond_the_queue_is_rejected_and_later_ones_are_not():
    async def run():
        operation = Fake()
        service = service_of(operation, queue=4, texts=3)
        async with running(service) as app:
            first = await start_blocked(app, operation)
            second = asyncio.ensure_future(call(app, "/translate", texts("a", "b", "c")))
            await until(lambda: service.worker.num_texts == 4)
            full = await call(app, "/translate", texts("d"))
            operation.open.set()
            await asyncio.gather(first, second)
            return full, await call(app, "/translate", texts("d"))

    full, later = asyncio.run(run())
    assert (full.status, full.headers["retry-after"]) == (429, "1")
    check_message(full.error)
    assert later.status == 200


def test_a_waiting_request_without_its_client_is_dropped_at_once():
    async def run():
        operation = Fake()
        service = service_of(operation)
        async with running(service) as app:
            first = await start_blocked(app, operation)
            gone = asyncio.Event()
            messages = [{"type": "http.request", "body": json.dumps(texts("lost")).encode()}]

            async def receive():
                if messages:
                    return messages.pop()
                await gone.wait()
                return {"type": "http.disconnect"}

            lost = asyncio.ensure_future(call(app, "/translate", receive=receive))
            await until(lambda: service.worker.num_texts == 2)
            gone.set()
            answer = await lost
            assert service.worker.num_texts == 1
            operation.open.set()
            await first
            return operation.batches, answer, service.metrics.page().decode()

    batches, answer, metrics = asyncio.run(run())
    assert answer.status == 499
    assert batches == [["first"]]
    assert 'regard_requests_total{route="/translate",status="499"} 1.0' in metrics


def test_a_request_without_a_result_in_time_has_status_503():
    async def run():
        operation = Fake()
        service = service_of(operation, seconds=0.5)
        async with running(service) as app:
            first = await start_blocked(app, operation)
            second = await call(app, "/translate", texts("late"))
            assert service.worker.num_texts == 1, "only the running batch"
            operation.open.set()
            answers = await first, second
            await until(lambda: not service.worker.num_texts)
            return operation.batches, answers

    batches, answers = asyncio.run(run())
    assert [answer.status for answer in answers] == [503, 503]
    check_message(answers[0].error)
    assert batches == [["first"]], "a text whose time is over is not run"


def test_an_idle_model_waits_for_its_window():
    operation = Fake()
    service = service_of(operation, window=1000.0, batch_texts=3)

    async def run():
        async with running(service) as app:
            await asyncio.sleep(0.5)  # the worker waits for jobs now
            tasks = []
            for name in "abc":
                tasks.append(asyncio.ensure_future(call(app, "/translate", texts(name))))
                await asyncio.sleep(0.01)
            await asyncio.gather(*tasks)

    asyncio.run(run())
    assert operation.batches == [["a", "b", "c"]], "a full batch ends the window"


def test_a_model_that_cannot_be_loaded_ends_the_server():
    def load():
        raise OSError("no weights")

    async def run():
        ended = asyncio.Event()
        service = Service([fake_run(None, load=load)])
        service.end_server = ended.set
        service.worker.start()
        await asyncio.wait_for(ended.wait(), 5)
        service.worker.close(0.0)
        return service

    service = asyncio.run(run())
    assert str(service.worker.error) == "no weights"
    assert service.problem == "the models are being loaded"


def test_many_requests_are_all_answered():
    operation = Fake(seconds=0.001)
    bodies = [texts(*(f"{n} {k}" for k in range(n % 5 + 1)), beam=n % 3 + 1) for n in range(150)]
    answers = requests(service_of(operation), *bodies)
    for body, answer in zip(bodies, answers, strict=True):
        assert [result["text"] for result in answer.results] == body["texts"]
    assert len(operation.batches) < 150


def test_abort_answers_open_requests():
    async def run():
        operation = Fake()
        service = service_of(operation)
        async with running(service) as app:
            first = await start_blocked(app, operation)
            waiting = asyncio.ensure_future(call(app, "/translate", texts("waiting")))
            await until(lambda: service.worker.num_texts == 2)
            service.stop()
            ready = await call(app, "/ready", method="GET")
            service.abort()
            answers = await asyncio.gather(first, waiting)
            operation.open.set()
            return ready, answers

    ready, answers = asyncio.run(run())
    assert (ready.status, ready.error) == (503, "the service is shutting down")
    assert [answer.status for answer in answers] == [503, 503]


def test_metrics_count_requests_batches_and_tokens():
    async def run():
        async with running(service_of(Fake())) as app:
            await call(app, "/translate", texts("abc", "de"))
            await call(app, "/nowhere")
            return (await call(app, "/metrics", method="GET")).body.decode()

    page = asyncio.run(run())
    assert 'regard_requests_total{route="/translate",status="200"} 1.0' in page
    assert 'regard_requests_total{route="unknown",status="404"} 1.0' in page
    assert 'regard_source_tokens_total{run="fake",verb="translate"} 5.0' in page
    assert 'regard_batch_texts_sum{run="fake",verb="translate"} 2.0' in page
    assert "regard_queue_texts 0.0" in page
    assert "process_resident_memory_bytes" in page


def test_a_request_before_the_models_are_loaded_has_status_503():
    async def run():
        app = build_app(service_of(Fake()))
        health, ready = [await call(app, path, method="GET") for path in ("/health", "/ready")]
        return health, ready, await call(app, "/translate", texts("a"))

    health, ready, early = asyncio.run(run())
    assert (health.status, ready.status, early.status) == (200, 503, 503)
    assert early.error == "the models are being loaded"


def test_a_fault_of_the_worker_ends_its_jobs_and_not_the_worker():
    async def run():
        service = service_of(Fake())
        faults = [RuntimeError("a fault of the metrics")]

        def add_batch(_):
            if faults:
                raise faults.pop()

        service.worker._on_batch = add_batch
        async with running(service) as app:
            return [await call(app, "/translate", texts("a", "b")) for _ in range(2)]

    assert [answer.status for answer in asyncio.run(run())] == [500, 200]


def test_one_request():
    answer = request(service_of(Fake()), "/translate", texts("a"))
    assert answer.results == [{"text": "a", "beam": 1}]


class Steps(Fake):
    """An operation of many steps, of which a search would be."""

    num_steps = 0

    def run(self, items, settings):
        self.batches.append(list(items))
        assert self.open.wait(5)
        for _ in range(1000 if "long" in items else 1):
            check_wanted()
            self.num_steps += 1
            time.sleep(0.01)
        return [json.dumps({"text": text}) for text in items]


def abandoned(bodies, seconds=30.0, *, goes=True):
    """Send long requests, let their clients go, and return the status of a request for another run
    and the number of steps before its answer, of 1000."""
    slow, fast = Steps(), Fake()

    async def run():
        service = service_of(slow, fast, seconds=seconds)
        async with running(service) as app:
            tasks = [
                asyncio.ensure_future(call(app, "/runs/fake/translate", body)) for body in bodies
            ]
            await until(lambda: slow.num_steps > 3)
            if goes:
                for task in tasks:
                    task.cancel()
            else:
                await asyncio.gather(*tasks)
            answer = await call(app, "/runs/second/translate", texts("a"))
            return answer.status, slow.num_steps

    return asyncio.run(run())


@pytest.mark.parametrize("bodies", [[texts("long")], [texts("long", "b")] * 3], ids=len)
def test_a_batch_stops_between_steps_when_its_clients_are_gone(bodies):
    status, num_steps = abandoned(bodies)
    assert (status, num_steps < 500) == (200, True)


def test_a_batch_stops_when_its_time_is_over():
    status, num_steps = abandoned([texts("long", "b")], 1.0, goes=False)
    assert (status, num_steps < 500) == (200, True)


def test_a_batch_goes_on_while_one_client_waits():
    slow = Steps()

    async def run():
        service = service_of(slow)
        async with running(service) as app:
            first = await start_blocked(app, slow)
            gone = asyncio.ensure_future(call(app, "/translate", texts("b")))
            stays = asyncio.ensure_future(call(app, "/translate", texts("c")))
            await until(lambda: service.worker.num_texts > 2)
            gone.cancel()
            slow.open.set()
            return await first, await stays

    assert [answer.status for answer in asyncio.run(run())] == [200, 200]


@dataclass
class Large(Fake):
    """An operation that needs a kilobyte for each letter of a text, and for its result."""

    result: int = 1000

    def needs(self, lengths, settings):
        return [Need(1000 * length, self.result * length) for length in lengths]


def test_a_text_that_needs_too_much_memory_is_rejected_before_it_is_decoded():
    operation = Large(result=0)
    service = service_of(operation, request_bytes=5000)
    one, mixed = requests(service, texts("abcdefg"), texts("abcdefg", "ab"))
    assert (one.status, mixed.status) == (422, 200)
    assert one.error.startswith("texts[0]: decoding may take ")
    assert mixed.results[0]["error"].startswith("texts[0]: decoding may take ")
    assert mixed.results[1]["text"] == "ab"
    assert operation.batches == [["ab"]]


def test_a_request_whose_results_need_too_much_memory_is_rejected():
    operation = Large()
    answers = requests(
        service_of(operation, request_bytes=5000), texts("abc", "def"), texts("abc", "de")
    )
    assert [answer.status for answer in answers] == [422, 200]
    assert answers[0].error.startswith("the results of this request may take ")
    assert operation.batches == [["de"], ["abc"]]


def test_a_batch_has_a_bound_of_memory():
    batches, _ = run_together(Large(result=0), [texts("a", "b", "cc", "ddd")], request_bytes=6000)
    assert batches == [["a", "b", "cc"], ["ddd"]]


def test_results_of_several_requests_have_a_bound():
    """Texts of the third request wait until the results of the first two are complete."""
    bodies = [texts("aa", "bbbb"), texts("ccc"), texts("d")]
    batches, answers = run_together(Large(), bodies, request_bytes=9000)
    assert batches == [["aa", "ccc"], ["bbbb"], ["d"]]
    assert [answer.status for answer in answers] == [200] * 3


def test_responses_that_are_not_read_have_a_bound():
    service = service_of(Large(), request_bytes=5000)
    service.num_unread = 5001
    answer = request(service, "/translate", texts("a"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    check_message(answer.error)


def test_a_failed_allocation_has_status_503():
    class Full(Fake):
        def run(self, items, settings):
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    for body in (texts("a"), texts("a", "b")):
        answer = request(service_of(Full()), "/translate", body)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        check_message(answer.error)
