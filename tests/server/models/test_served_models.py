"""Several models of a server: loaded on demand, and unloaded to make room for others."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from constrained.agent.model import Model
from constrained.engine.model_facts import ModelFacts, read_facts
from constrained.errors import ModelError
from server.errors import HttpError
from server.models import served_models
from server.models.served_models import ModelBounds, ModelState, ServedModels
from server.models.source import ModelSource
from tests.scripted_model import scripted
from tests.server.running_server import is_starting

WAIT = 0.05  # seconds in which nothing must happen


class Loads:
    """Loads scripted models, and remembers which, in their order."""

    def __init__(self) -> None:
        self.names = list[str]()
        self.broken = set[str]()
        self.hold = threading.Event()
        self.hold.set()

    def source(self, name: str, size: int = 1, *, preloaded: bool = False) -> ModelSource:
        def load() -> Model:
            self.names.append(name)
            assert self.hold.wait(60)
            if name in self.broken:
                raise ModelError(f"{name} is broken")
            return scripted(f"I am {name}.")

        return ModelSource(name, load, file_bytes=size, preloaded=preloaded)


def sources(loads: Loads, *names: str) -> list[ModelSource]:
    return [loads.source(name) for name in names]


def loaded(models: ServedModels) -> list[str]:
    return [model.name for model in models if model.state is ModelState.LOADED]


async def use(models: ServedModels, name: str) -> None:
    models.release(await models.acquire(name))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.005)


async def never(task: "asyncio.Task[object]") -> None:
    await asyncio.sleep(WAIT)
    assert not task.done()


def test_a_model_is_loaded_when_it_is_asked_for_and_once() -> None:
    async def run() -> None:
        loads = Loads()
        models = ServedModels(sources(loads, "a", "b"))
        await asyncio.gather(*(use(models, "a") for _ in range(5)))
        await use(models, "a")
        assert loads.names == ["a"]
        assert loaded(models) == ["a"]
        await models.close()
        assert loaded(models) == []

    asyncio.run(run())


def test_the_model_that_was_not_asked_for_longest_makes_room() -> None:
    async def run() -> None:
        loads = Loads()
        models = ServedModels(sources(loads, "a", "b", "c"), bounds=ModelBounds(count=2))
        for name in ("a", "b", "a", "c"):
            await use(models, name)
            await asyncio.sleep(0.002)
        assert loaded(models) == ["a", "c"]
        await use(models, "b")
        assert loads.names == ["a", "b", "c", "b"]
        await models.close()

    asyncio.run(run())


def test_a_model_in_use_stays_and_who_needs_its_place_waits() -> None:
    async def run() -> None:
        models = ServedModels(sources(Loads(), "a", "b"))
        first = await models.acquire("a")
        other = asyncio.create_task(models.acquire("b"))
        await never(other)
        assert first.service is not None
        models.release(first)
        assert (await other).service is not None
        assert loaded(models) == ["b"]
        models.release(await other)
        await models.close()

    asyncio.run(run())


def test_who_waits_for_room_is_not_overtaken_for_ever() -> None:
    """While `b` waits, new requests for `a`, which is loaded, wait behind it."""

    async def run() -> None:
        models = ServedModels(sources(Loads(), "a", "b"))
        first = await models.acquire("a")
        other = asyncio.create_task(models.acquire("b"))
        await asyncio.sleep(0)
        later = asyncio.create_task(models.acquire("a"))
        await never(later)
        models.release(first)
        models.release(await other)
        assert (await later).service is not None
        models.release(await later)
        assert first.users == 0
        await models.close()

    asyncio.run(run())


def test_who_goes_away_leaves_the_model_to_others() -> None:
    async def run() -> None:
        loads = Loads()
        loads.hold.clear()
        models = ServedModels(sources(loads, "a", "b"))
        gone, stays = (asyncio.create_task(models.acquire("a")) for _ in range(2))
        await until(lambda: loads.names == ["a"])
        gone.cancel()
        await asyncio.wait([gone])
        waits = asyncio.create_task(models.acquire("b"))
        await never(waits)
        waits.cancel()  # who waits for room, too, leaves nothing after
        await asyncio.wait([waits])
        loads.hold.set()
        model = await stays
        assert (model.service is not None, model.users) == (True, 1)
        models.release(model)
        await use(models, "b")
        assert loads.names == ["a", "b"]
        await models.close()

    asyncio.run(run())


def test_a_failure_is_said_and_the_next_request_tries_again() -> None:
    async def run() -> None:
        loads = Loads()
        loads.broken.add("a")
        models = ServedModels(sources(loads, "a", "b"))
        with pytest.raises(HttpError, match="'a' cannot be loaded: a is broken") as caught:
            await models.acquire("a")
        assert caught.value.status == 503
        model = models.get("a")
        assert (model.state, model.users) == (ModelState.FAILED, 0)
        await use(models, "b")
        loads.broken.clear()
        await use(models, "a")
        assert loaded(models) == ["a"]
        await models.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_stopping", [False, True])
def test_clients_try_again_where_another_server_may_answer(is_stopping: bool) -> None:
    """A model that cannot be loaded cannot be loaded a second later, but a server that stops has
    perhaps one beside it."""

    def stop(error: Exception) -> None:
        pass

    async def run() -> None:
        loads = Loads()
        loads.broken |= {"first", "other"}
        models = ServedModels(
            [loads.source("first", preloaded=True), loads.source("other")],
            bounds=ModelBounds(count=2),
        )
        models.start(stop if is_stopping else None)
        await until(lambda: not is_starting(models))
        for name in ("first", "other"):
            with pytest.raises(HttpError, match="cannot be loaded") as caught:
                await models.acquire(name)
            usual = {"X-Should-Retry": "false"}
            assert caught.value.headers == ({"Retry-After": "1"} if is_stopping else usual)
        models.drain(60)
        with pytest.raises(HttpError) as caught:
            await models.acquire("other")
        assert caught.value.headers == {"Retry-After": "1"}
        await models.close()

    asyncio.run(run())


def test_memory_is_bounded() -> None:
    async def run() -> None:
        loads = Loads()
        sizes: Sequence[tuple[str, int]] = (("a", 60), ("b", 50), ("c", 101))
        offered = [loads.source(name, size << 20) for name, size in sizes]
        models = ServedModels(offered, bounds=ModelBounds(count=3, memory=100 << 20))
        with pytest.raises(HttpError, match=r"needs 101 MiB.*may take 100: raise --models-memory"):
            await models.acquire("c")
        first = await models.acquire("a")
        # What it takes is that of its engine from now on: 0, where it is scripted.
        assert first.memory_bytes == 0
        await use(models, "b")
        assert loaded(models) == ["a", "b"]
        models.release(first)
        await models.close()

    asyncio.run(run())


def test_a_model_that_is_being_loaded_counts() -> None:
    async def run() -> None:
        loads = Loads()
        loads.hold.clear()
        offered = [loads.source(name, 60 << 20) for name in "ab"]
        models = ServedModels(offered, bounds=ModelBounds(count=2, memory=100 << 20))
        first = asyncio.create_task(models.acquire("a"))
        await until(lambda: loads.names == ["a"])
        other = asyncio.create_task(models.acquire("b"))
        await never(other)
        assert loads.names == ["a"]
        loads.hold.set()
        models.release(await first)
        models.release(await other)
        await models.close()

    asyncio.run(run())


def test_a_model_that_nobody_asks_for_is_unloaded() -> None:
    async def run() -> None:
        loads = Loads()
        bounds = ModelBounds(count=2, idle_seconds=WAIT)
        models = ServedModels(sources(loads, "a", "b"), bounds=bounds)
        held = await models.acquire("a")
        await use(models, "b")
        await until(lambda: loaded(models) == ["a"])
        models.release(held)
        await until(lambda: loaded(models) == [])
        await use(models, "b")
        assert loads.names == ["a", "b", "b"]
        await models.close()

    asyncio.run(run())


def test_unloading_waits_for_those_who_use_it() -> None:
    async def run() -> None:
        models = ServedModels(sources(Loads(), "a", "b"))
        held = await models.acquire("a")
        unloading = asyncio.create_task(models.unload(held))
        await never(unloading)
        models.release(held)
        await unloading
        assert loaded(models) == []
        await models.unload(held)  # there is nothing to do any more
        await models.close()

    asyncio.run(run())


def test_models_of_the_start_are_loaded_before_they_are_asked_for() -> None:
    async def run() -> None:
        loads = Loads()
        offered = [loads.source("a"), loads.source("b", preloaded=True)]
        models = ServedModels(offered)
        models.start()
        assert is_starting(models)
        with pytest.raises(HttpError, match="Loading model"):
            await models.acquire("b")
        await until(lambda: not is_starting(models))
        assert loads.names == loaded(models) == ["b"]
        models.check_health()
        assert models.find(None).name == "b"  # who names none gets the first of them
        await models.close()

    asyncio.run(run())


def test_a_failure_at_the_start_stays_and_is_told() -> None:
    async def run() -> None:
        loads = Loads()
        loads.broken.add("b")
        told = list[Exception]()
        models = ServedModels([loads.source("a"), loads.source("b", preloaded=True)])
        models.start(told.append)
        await until(lambda: not is_starting(models))
        assert [str(error) for error in told] == ["b is broken"]
        with pytest.raises(HttpError, match="b is broken"):
            models.check_health()
        await use(models, "a")
        await models.close()

    asyncio.run(run())


def test_closing_does_not_wait_for_a_model_that_is_being_loaded() -> None:
    async def run() -> None:
        loads = Loads()
        loads.hold.clear()
        models = ServedModels(sources(loads, "a", "b"))
        asking = asyncio.create_task(models.acquire("a"))
        await until(lambda: loads.names == ["a"])
        await models.close()
        await asyncio.wait([asking])
        assert asking.cancelled() or asking.exception() is not None
        loads.hold.set()

    asyncio.run(run())


def test_a_file_that_cannot_be_read_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list of the models read it again."""
    seen = list[Path]()

    def note(path: Path) -> ModelFacts:
        seen.append(path)
        return read_facts(path)

    monkeypatch.setattr(served_models, "read_facts", note)
    broken, missing = tmp_path / "broken.gguf", tmp_path / "missing.gguf"
    broken.write_bytes(b"GGUF")
    names = [ModelSource(path.stem, scripted, path=path) for path in (broken, missing)]

    async def look(models: ServedModels) -> None:
        await asyncio.gather(models.read_facts(), models.read_facts())

    async def run() -> None:
        models = ServedModels(names)
        await look(models)
        await look(models)
        assert seen == [broken]
        broken.write_bytes(b"GGUF, and more")
        await look(models)
        assert seen == [broken, broken]
        await models.close()

    asyncio.run(run())
