"""What waits to be compiled is counted, each client has its turn, and known work goes first."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.decode.schedule.workers import Order, Workers
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import BusyError, ModelError
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.limits.steps import spend
from tests.remote_model import sampled_elsewhere
from tests.scripted_model import BYTES, scripted
from tests.templates import HERMES

FULL = r"2 requests are waiting already\. Try again later"


@pytest.fixture
def worker() -> Iterator[Workers]:
    worker = Workers("test", 2)
    yield worker
    worker.close()


def hold(worker: Workers) -> tuple[Callable[[], None], Future[Any]]:
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


def test_no_more_work_than_so_much_waits(worker: Workers):
    for _ in range(5):
        assert worker.submit(lambda: 1).result() == 1
    release, held = hold(worker)
    waiting: list[Future[Any]] = [worker.submit(lambda: 2), worker.start(done)]
    with pytest.raises(BusyError, match=FULL):
        worker.submit(lambda: 3)
    with pytest.raises(BusyError, match=FULL):
        worker.start(done)
    own = worker.submit(lambda: 4, Order(is_bounded=False))
    release()
    assert [future.result() for future in (held, *waiting, own)] == [True, 2, "done", 4]
    assert worker.submit(lambda: 5).result() == 5


def test_work_that_was_given_up_waits_no_longer(worker: Workers):
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


def test_work_that_fails_waits_no_longer(worker: Workers):
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


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def test_a_model_takes_no_more_jobs_than_may_wait():
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, "Hi."), context_length=9000)
    job = Job([{"role": "user", "content": "Hi"}], tools=[TOOL])
    with Model(engine, ChatTemplate(HERMES), max_waiting=2) as model:
        release, held = hold(model.queue.workers)
        streams = [model.stream("Hi", [TOOL], max_tokens=1) for _ in range(2)]
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


def test_a_known_job_does_not_wait_for_an_unknown_one():
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, "Hi."), context_length=9000)
    known = Job([{"role": "user", "content": "Hi"}], tools=[TOOL])
    with Model(engine, ChatTemplate(HERMES)) as model:
        model.compile(known)
        release, held = hold(model.queue.workers)
        other = {**TOOL, "function": {**TOOL["function"], "name": "g"}}
        unknown = threading.Thread(target=model.compile, args=[replace(known, tools=[other])])
        unknown.start()
        assert model.compile(known).tokens
        assert model.compile(Job(known.messages)).tokens
        assert unknown.is_alive()
        release()
        assert held.result()
        unknown.join(60)
        assert not unknown.is_alive()


def test_one_client_leaves_a_thread_to_the_others(worker: Workers):
    release, held = hold(worker)  # of a client that has nothing else
    waiting = worker.submit(lambda: 1)
    assert worker.submit(lambda: 2, Order("other")).result(60) == 2
    assert not waiting.done()
    release()
    assert held.result()
    assert waiting.result(60) == 1


def test_one_client_leaves_a_thread_to_the_known_work_of_others():
    """Known work may take long, too: a long conversation."""
    worker = Workers("test")
    client = Order("busy", is_known=True)
    holding, gate = threading.Semaphore(0), threading.Event()

    def wait() -> bool:
        holding.release()
        return gate.wait(60)

    held = [worker.submit(wait, client) for _ in range(2)]
    for _ in held:
        assert holding.acquire(timeout=60)
    waiting = [worker.submit(lambda: 1, order) for order in (client, Order("busy"))]
    assert worker.submit(lambda: 2, Order("other", is_known=True)).result(60) == 2
    assert not any(one.done() for one in waiting)
    gate.set()
    assert all(one.result(60) for one in (*held, *waiting))
    worker.close()


def test_clients_have_their_turns():
    workers = Workers("test", threads=1)
    done = list[str]()
    release, held = hold(workers)
    for client in "aaabc":
        workers.submit(partial(done.append, client), Order(client))
    last = workers.submit(partial(done.append, "c"), Order("c"))
    release()
    assert held.result()
    last.result(60)
    workers.close()
    assert "".join(done) == "abcaca"


def test_who_waits_is_told_while_a_thread_is_busy(worker: Workers):
    def check() -> None:
        if is_late.is_set():
            raise TimeoutError

    is_late = threading.Event()
    held = threading.Event()
    busy = worker.submit(lambda: held.wait(60), Order(check=check))
    is_late.set()
    with pytest.raises(TimeoutError):
        busy.result(30)
    assert not worker.close()
    held.set()
    worker.wait()


def test_work_ends_where_nobody_wants_it_any_more(worker: Workers):
    class EndedError(Exception):
        pass

    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise EndedError

    def work_for_ever() -> None:
        begun.set()
        while True:
            spend()

    begun = threading.Event()
    endless = worker.submit(work_for_ever, Order(check=check))
    after = worker.submit(lambda: 1, Order(check=check))
    outer = worker.start(done, Order(check=check))
    assert begun.wait(60)
    ended.set()
    for future in (endless, after, outer):
        with pytest.raises(EndedError):
            future.result(60)
    assert worker.submit(lambda: 1).result(60) == 1


@contextmanager
def load_here() -> Iterator[Model]:
    with scripted("Hi") as model:
        yield model


@contextmanager
def load_elsewhere() -> Iterator[Model]:
    with sampled_elsewhere(lambda: scripted("Hi")) as load, load() as model:
        yield model


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("load", [load_here, load_elsewhere])
def test_a_process_that_was_forked_does_not_wait_for_threads_that_it_has_not(
    load: Callable[[], AbstractContextManager[Model]],
) -> None:
    with load() as model:
        job = Job([{"role": "user", "content": "Hi"}])
        turn = model.compile(job)
        assert model.complete([turn], max_tokens=2)[0].content == "Hi"
        told = "the model was loaded before this process was forked"
        assert told in find_error_in_fork(lambda: model.compile(job))
        assert told in find_error_in_fork(lambda: model.complete([turn]))
        assert told in find_error_in_fork(lambda: list(model.stream_turn(turn)))


def find_error_in_fork(ask: Callable[[], Any]) -> str:
    """The message of the `ModelError` that this raises in a process that is forked."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a process that waits
        try:
            ask()
        except ModelError as e:
            os.write(writing, str(e).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        message = told.read().decode()
    os.waitpid(child, 0)
    return message
