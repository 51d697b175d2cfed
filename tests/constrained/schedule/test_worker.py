"""What waits to be compiled is counted: so much of it may wait, and no more."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import BusyError, ModelError
from constrained.job import Job
from constrained.model.model import Model
from constrained.schedule.worker import Worker
from constrained.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES
from tests.templates import HERMES

FULL = r"2 requests are waiting already\. Try again later"


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("test", 2)
    yield worker
    worker.close()


def hold(worker: Worker) -> tuple[Callable[[], None], Future[Any]]:
    """Keeps the worker busy until the first of these is called."""
    begun, gate = threading.Event(), threading.Event()

    def wait() -> bool:
        begun.set()
        return gate.wait(60)

    held = worker.submit(wait)
    assert begun.wait(60)
    return gate.set, held


def done() -> Future[str]:
    future = Future[str]()
    future.set_result("done")
    return future


def test_no_more_work_than_so_much_waits(worker: Worker):
    for _ in range(5):
        assert worker.submit(lambda: 1).result() == 1
    release, held = hold(worker)
    waiting: list[Future[Any]] = [worker.submit(lambda: 2), worker.start(done)]
    with pytest.raises(BusyError, match=FULL):
        worker.submit(lambda: 3)
    with pytest.raises(BusyError, match=FULL):
        worker.start(done)
    own = worker.submit(lambda: 4, is_bounded=False)
    release()
    assert [future.result() for future in (held, *waiting, own)] == [True, 2, "done", 4]
    assert worker.submit(lambda: 5).result() == 5


def test_work_that_was_given_up_waits_no_longer(worker: Worker):
    release, held = hold(worker)
    for _ in range(5):
        given_up: list[Future[Any]] = [worker.submit(lambda: 1), worker.start(done)]
        assert all(future.cancel() for future in given_up)
        for future in given_up:
            with pytest.raises(CancelledError):
                future.result()
    waiting = [worker.submit(lambda: 1), worker.submit(lambda: 2)]
    with pytest.raises(BusyError, match=FULL):
        worker.submit(lambda: 3)
    release()
    assert [future.result() for future in (held, *waiting)] == [True, 1, 2]


def test_work_that_fails_waits_no_longer(worker: Worker):
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            worker.submit(lambda: 1 / 0).result()
    release, held = hold(worker)
    release()
    assert held.result()
    worker.close()
    for _ in range(5):
        with pytest.raises(ModelError, match="closed"):
            worker.submit(lambda: 1)


def test_a_model_takes_no_more_jobs_than_may_wait():
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, "Hi."), context_length=9000)
    job = Job([{"role": "user", "content": "Hi"}])
    with Model(engine, ChatTemplate(HERMES), max_waiting=2) as model:
        release, held = hold(model._worker)
        streams = [model.stream("Hi", max_tokens=1) for _ in range(2)]
        for ask in (
            lambda: model.compile(job),
            lambda: model.compile_text("Hi"),
            lambda: model.call("Hi"),
        ):
            with pytest.raises(BusyError, match=FULL):
                ask()
        release()
        assert held.result()
        assert all(stream.result for stream in streams)
        assert model.compile(job).tokens
