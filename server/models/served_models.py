"""The models of a server, by name: loaded on demand, and unloaded to make room for others.

For the server's event loop only, unless a method says otherwise.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from constrained.decode.metrics import Metrics, add_metrics
from constrained.decode.schedule.workers import Workers
from constrained.engine.model_facts import NO_FACTS, read_facts
from constrained.errors import ModelError
from constrained.model.loaded_model import LoadedModel
from server.errors import RETRY_AFTER, HttpError, refuse
from server.http.ids import CallIds
from server.http.server_end import ServerEnd
from server.models.shared_store import SharedStore
from server.models.shared_values import SharedTurns, StoredDates, StoredIds
from server.models.source import ModelSource
from server.settings import Settings
from server.turns.observers import Observers
from server.turns.service import Service
from server.turns.stable_prompts import ConversationDates

LOG = logging.getLogger("constrained.server")


class ModelState(StrEnum):
    """The state of a model, in llama-server's words."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    FAILED = "failed"


@dataclass(frozen=True)
class ModelBounds:
    """How many models are loaded at a time, and the bytes of weights and contexts that they have
    together; a model that is idle for so many seconds is unloaded. None: no limit."""

    count: int = 1
    memory: int | None = None
    idle_seconds: float | None = None

    def check(self, model: "ServedModel") -> None:
        if self.memory is not None and model.memory_bytes > self.memory:
            message = (
                f"the model {model.name!r} needs {model.memory_bytes >> 20:,} MiB, but all models "
                f"together may take {self.memory >> 20:,}: raise --models-memory"
            )
            raise HttpError(503, message, "model_unavailable", retry_after=None)

    def have_room(self, model: "ServedModel", models: "Iterable[ServedModel]") -> bool:
        loaded = (ModelState.LOADED, ModelState.LOADING)
        others = [one for one in models if one is not model and one.state in loaded]
        if len(others) >= self.count:
            return False
        taken = sum(other.memory_bytes for other in others)
        return self.memory is None or taken + model.memory_bytes <= self.memory


NO_VERSION = (0, 0)  # of a missing file


class ServedModel:
    """A model of a server, loaded or not.

    Attributes:
        facts: what its file says about it, after `read_facts`.
        failure: why the last attempt to load it failed; None if it did not.
        start_failure: the same for a model that was loaded at the server's start.
        users: the number of requests that use it or wait for it. It stays loaded while there are
            any.
        is_starting: the server has begun to load it at its start; no request waits for that.
    """

    def __init__(
        self,
        source: ModelSource,
        settings: Settings,
        *,
        observers: Observers,
        store: SharedStore | None,
    ):
        self.source = source
        self.facts = NO_FACTS
        self._unreadable: tuple[int, int] = NO_VERSION  # the version of its file
        self.service: Service | None = None
        self.failure: Exception | None = None
        self.start_failure: Exception | None = None
        self.users = 0
        self.is_starting = source.preloaded
        self.loading: asyncio.Task[None] | None = None
        self.unused_since = 0.0
        self._store = store
        # The model's turns and their dates outlive its unloading.
        ids, dates = (None, None) if store is None else (StoredIds(store), StoredDates(store))
        self._make_service = partial(
            Service,
            settings=settings,
            call_ids=CallIds(shared=ids),
            dates=ConversationDates(settings.date, shared=dates),
            observers=observers,
            name=source.name,
        )
        self._timer: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def model(self) -> LoadedModel | None:
        return None if self.service is None else self.service.model

    @property
    def context_length(self) -> int | None:
        """In tokens, as it is loaded; None if it is not loaded."""
        return None if self.model is None else self.model.engine.context_length

    @property
    def state(self) -> ModelState:
        if self.service is not None:
            return ModelState.LOADED
        if self.loading is not None or self.is_starting:
            return ModelState.LOADING
        return ModelState.UNLOADED if self.failure is None else ModelState.FAILED

    @property
    def memory_bytes(self) -> int:
        """The bytes that it takes. Before it is loaded, a lower bound: its context is not known
        then."""
        if self.service is not None:
            return self.service.model.engine.memory_bytes
        return self.source.file_bytes

    @property
    def path(self) -> Path | None:
        """Its file; None: it has none, or the file is not known before the model is loaded."""
        if self.service is not None:
            return self.service.model.engine.path
        return self.source.path

    @property
    def file_bytes(self) -> int:
        """Size of its files; 0: not known before it is loaded."""
        return self.facts.bytes or self.source.file_bytes

    async def load(self, address: str) -> None:
        """Loads it, or raises why it cannot be loaded. The log says where the server listens."""
        try:
            model = await _load_in_thread(self.source)
        except Exception as error:
            self.failure = error
            LOG.error("the model cannot be loaded: %s", error)
            raise
        for notice in model.notices:
            LOG.warning("%s", notice)
        LOG.info(
            "ready%s: model %s, tool format %s, context %d, sequences %d",
            f" at {address}" if address else "",
            self.name,
            model.compiler.format.name,
            model.engine.context_length,
            model.engine.max_sequences,
        )
        if self._store is not None:
            turns = SharedTurns(self._store, model.compiler.fingerprint)
            model.compiler.prompts.share_turns(turns)
        self.service, self.failure = self._make_service(model), None

    async def close(self) -> None:
        service, self.service = self.service, None
        self.set_timer(None)
        if service is not None:
            await asyncio.to_thread(service.model.close)
            LOG.info("unloaded: model %s", self.name)

    def set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    async def read_facts(self, readers: Workers) -> None:
        """Reads its file, unless that has been done. A file that cannot be read is tried again only
        after it has changed; requests for the model get the error."""
        path = self.path
        if self.facts is not NO_FACTS or path is None:
            return
        version = _find_version(path)
        if version == self._unreadable:
            return
        try:
            self.facts = await asyncio.wrap_future(readers.submit(partial(read_facts, path)))
        except ModelError:
            self._unreadable = version


class ServedModels:
    """The models of a server.

    A request holds its model from `acquire` to `release`. If another model needs room, the least
    recently used model that no request holds is unloaded. Requests that wait for room get it in the
    order of their arrival.

    Args:
        sources: the models; the first of them that is preloaded answers requests that name none.

    Attributes:
        readers: the threads that read requests whose model is not known yet.
        end: the end of the server, with the deadline of its last requests.
    """

    def __init__(
        self,
        sources: Sequence[ModelSource],
        settings: Settings | None = None,
        bounds: ModelBounds | None = None,
        *,
        observers: Observers | None = None,
        address: str = "",
        store: SharedStore | None = None,
    ):
        settings = settings or Settings()
        observers = observers or Observers()
        self.end = ServerEnd()
        self._is_stopped = False  # because a model that it starts with cannot be loaded
        self._models: list[ServedModel] = []
        for source in sources:
            model = ServedModel(source, settings, observers=observers, store=store)
            self._models.append(model)
        self.readers = Workers("read", settings.max_waiting)
        self._bounds = bounds or ModelBounds()
        self._address = address
        self._reading = asyncio.Lock()  # held while the files of models are read
        self._room = asyncio.Lock()  # held while room is made for a model
        self._freed = asyncio.Event()  # set when a request has released a model
        self._tasks = set[asyncio.Task[None]]()

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models)

    @property
    def has_choice(self) -> bool:
        """True if there are several models: requests then have to name one. A single model answers
        to any name."""
        return len(self._models) > 1

    def find(self, name: str | None) -> ServedModel:
        """Returns the model that a request names; None: it names none."""
        if not self.has_choice:
            return self._models[0]
        if name:
            return self.get(name)
        for model in self._models:
            if model.source.preloaded:
                return model
        message = f"the request names no model: {self._list_names()}"
        raise refuse(message, "/model", "model_required")

    def get(self, name: str) -> ServedModel:
        for model in self._models:
            if model.source.answers_to(name):
                return model
        for model in self._models:
            if model.source.matches(name):
                return model
        message = f"there is no model {name!r}; {self._list_names()}"
        raise HttpError(404, message, "model_not_found", where="/model")

    def _list_names(self) -> str:
        names = ", ".join(repr(model.name) for model in self._models)
        return f"this server has {names}"

    @property
    def services(self) -> list[Service]:
        """Returns the loaded models. For any thread."""
        services = [model.service for model in self._models]
        return [service for service in services if service is not None]

    def measure(self) -> Metrics:
        return add_metrics([service.model.metrics() for service in self.services])

    def check_health(self) -> None:
        """Raises HttpError while the server starts, or if its first model cannot be loaded."""
        for model in self._models:
            if model.source.preloaded:
                self._check_start(model)

    def _check_start(self, model: ServedModel) -> None:
        if model.is_starting:
            raise HttpError(503, "Loading model", "loading_model")
        if model.start_failure is not None:
            raise self._refuse_load(f"the model cannot be loaded: {model.start_failure}")

    def _refuse_load(self, message: str) -> HttpError:
        """Returns the error for a model that cannot be loaded. Trying again does not help, unless
        this server is stopping: then another one may answer."""
        stops = self._is_stopped or self.end.has_started
        retry_after = RETRY_AFTER if stops else None
        return HttpError(503, message, "model_unavailable", retry_after=retry_after)

    async def acquire(self, name: str | None) -> ServedModel:
        """Returns the model that a request names. Loads it if necessary; it stays loaded until
        `release`.

        Raises:
            HttpError: no model has this name, it cannot be loaded, or the server is starting.
        """
        model = self.find(name)
        self._check_start(model)
        if model.service is None or self._room.locked():
            # If others wait for room, this request waits after them and does not count as a user
            # yet. Otherwise they could wait for ever, while new requests keep a model in use.
            async with self._room:
                if model.service is None and model.loading is None:
                    await self._make_room(model)
                    model.loading = asyncio.create_task(self._load(model))
                    self._keep(model.loading)
                model.users += 1
        else:
            model.users += 1
        model.set_timer(None)
        try:
            await self._wait_for_load(model)
        except BaseException:
            self.release(model)
            raise
        return model

    def release(self, model: ServedModel) -> None:
        model.users -= 1
        if model.users:
            return
        self._freed.set()
        self._begin_idle(model)

    def _begin_idle(self, model: ServedModel) -> None:
        loop = asyncio.get_running_loop()
        model.unused_since = loop.time()
        seconds = self._bounds.idle_seconds
        if seconds is not None and model.service is not None:
            model.set_timer(loop.call_later(seconds, self._unload_idle, model))

    def start(self, stop: Callable[[Exception], None] | None = None) -> None:
        """Begins to load the models that the server starts with; calls `stop` with the error if one
        of them cannot be loaded."""
        for model in self._models:
            if model.source.preloaded:
                self._keep(asyncio.create_task(self._start(model, stop)))

    async def _start(self, model: ServedModel, stop: Callable[[Exception], None] | None) -> None:
        try:
            await self._load(model)
        except Exception as error:
            # `acquire` and `stop` need every error, whatever it is.
            model.start_failure = error
            if stop is not None:
                self._is_stopped = True
                stop(error)
        finally:
            model.is_starting = False

    async def _wait_for_load(self, model: ServedModel) -> None:
        if model.loading is None:
            return
        try:
            # If one waiting request is cancelled, the model is still loaded for the others.
            await asyncio.shield(model.loading)
        except Exception as error:
            message = f"the model {model.name!r} cannot be loaded: {error}"
            raise self._refuse_load(message) from error

    async def _make_room(self, model: ServedModel) -> None:
        """Unloads others until there is room for a model; waits while all are in use."""
        self._bounds.check(model)
        while not self._bounds.have_room(model, self._models):
            self._freed.clear()
            idle = [other for other in self._models if other.service and not other.users]
            if idle:
                await min(idle, key=lambda other: other.unused_since).close()
            else:
                await self._freed.wait()

    async def _load(self, model: ServedModel) -> None:
        try:
            await model.load(self._address)
        finally:
            model.loading = None
            self._freed.set()
        if not model.users:
            self._begin_idle(model)

    def _unload_idle(self, model: ServedModel) -> None:
        if model.service is not None and not model.users:
            self._keep(asyncio.create_task(self.unload(model)))

    def unload_soon(self, name: str) -> None:
        self._keep(asyncio.create_task(self.unload(self.find(name))))

    async def unload(self, model: ServedModel) -> None:
        """Unloads a model as soon as no request uses it; does nothing if it is not loaded. New
        requests wait until then, and load it again."""
        async with self._room:
            while model.service is not None and model.users:
                self._freed.clear()
                await self._freed.wait()
            await model.close()

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Keeps a reference to a task, because the event loop keeps none. Its error is in the log
        already, and in the responses of the waiting requests."""
        self._tasks.add(task)

        def forget(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            if not done.cancelled():
                done.exception()

        task.add_done_callback(forget)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self.readers.close)
        for model in self._models:
            await model.close()

    async def read_facts(self) -> None:
        async with self._reading:
            for model in self._models:
                await model.read_facts(self.readers)

    def drain(self, seconds: float) -> None:
        """Ends all requests within this time; see `Model.drain` and `ServerEnd.begin`."""
        self.end.begin(seconds)
        for service in self.services:
            service.model.drain(seconds)


def _find_version(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return NO_VERSION
    return found.st_mtime_ns, found.st_size


async def _load_in_thread(source: ModelSource) -> LoadedModel:
    """Loads a model in a separate thread, which may also download it. A server that stops does not
    wait for this thread."""
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[LoadedModel] = loop.create_future()

    def give(model: LoadedModel) -> None:
        if loaded.cancelled():
            model.close()
        else:
            loaded.set_result(model)

    def fail(error: Exception) -> None:
        if not loaded.cancelled():
            loaded.set_exception(error)

    def run() -> None:
        with suppress(RuntimeError):  # the event loop has ended
            try:
                model = source.load()
            except Exception as error:
                loop.call_soon_threadsafe(fail, error)
            else:
                loop.call_soon_threadsafe(give, model)

    threading.Thread(target=run, name="load", daemon=True).start()
    return await loaded
