"""The embedding model of a server, in a thread of its own."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from constrained.deadline import set_deadline
from constrained.embedding.embedding_model import EmbeddingModel, Embeddings
from constrained.engine.model_facts import NO_FACTS, ModelFacts, read_facts
from constrained.errors import RequestError
from constrained.schedule.worker import Wanted, arun, check_demand
from constrained.schedule.workers import Order, Workers
from server.caller import find_owner
from server.settings import Settings
from server.time_left import find_time_left

T = TypeVar("T")
R = TypeVar("R")
MOST_TEXTS = 2048
"""Of a request, as OpenAI has it."""
Text = str | Sequence[int]
"""A text, or its token ids."""


@dataclass(frozen=True)
class EmbeddingWish:
    """What is asked of an embedding model.

    Args:
        texts: the texts, or their token ids.
        where: the field of the request that has them, as a JSON pointer; of several, each is an
            item of it.
        dimensions: of the vectors; None: all that there are.
        normalize: each vector is 1 long.
        truncate: texts that are too long are cut.
    """

    texts: Sequence[Text]
    where: str
    dimensions: int | None = None
    normalize: bool = True
    truncate: bool = False


class EmbeddingService:
    """An embedding model that is served: loaded when the server starts, asked by one thread.

    Args:
        name: what clients know it as.
        load: gives the model, in a thread; this closes it.
        settings: how the server behaves.
    """

    def __init__(self, name: str, load: Callable[[], EmbeddingModel], settings: Settings):
        self.name = name
        self.facts: ModelFacts = NO_FACTS
        self._load = load
        self._settings = settings
        self._workers = Workers("embed", settings.max_waiting, threads=1)
        self._loading: Future[EmbeddingModel] | None = None

    @property
    def model(self) -> EmbeddingModel | None:
        """The model; None while it is not loaded, or if it cannot be."""
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled() or loading.exception():
            return None
        return loading.result()

    def start(self, stop: Callable[[Exception], None] | None) -> None:
        """Loads the model; requests wait for it.

        Args:
            stop: called with the error if it cannot be loaded.
        """

        def report(done: Future[EmbeddingModel]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception) and stop is not None:
                stop(error)

        self._loading = self._workers.submit(self._load_model, Order(is_bounded=False))
        self._loading.add_done_callback(report)

    def _load_model(self) -> EmbeddingModel:
        model = self._load()
        self.facts = read_facts(model.path)
        return model

    async def embed(self, wish: EmbeddingWish, write: Callable[[Embeddings], T]) -> T:
        """Turns texts into vectors, and writes them. Cancelling it ends the work, which is done in
        pieces: a client with many texts does not keep others waiting.

        Args:
            wish: what is asked for.
            write: what becomes of the vectors, in the thread of the model.

        Raises:
            Error: as in `EmbeddingModel.embed`; there are too many texts; the model cannot be
                loaded; too much waits, or the time of the request is over.
        """
        check_texts(wish)
        deadline = set_deadline(find_time_left(self._settings.timeout).measure(), time.monotonic)
        owner = find_owner()

        async def work(piece: Callable[[EmbeddingModel], R]) -> R:
            def start(is_wanted: Wanted) -> Future[R]:
                check = partial(check_demand, is_wanted, deadline, time.monotonic)
                return self._workers.submit(lambda: piece(self._find()), Order(owner, check=check))

            return await arun(start)

        read = await work(partial(_read, wish))
        vectors: list[np.ndarray] = []
        for batch in await work(lambda model: [*model.split(read)]):
            vectors.append(await work(lambda model, batch=batch: model.compute(batch)))

        def finish(model: EmbeddingModel) -> T:
            made = model.finish(vectors, dimensions=wish.dimensions, normalize=wish.normalize)
            return write(Embeddings(made, tuple(map(len, read))))

        return await work(finish)

    def _find(self) -> EmbeddingModel:
        """The model; it was loaded in this thread before, or could not be."""
        assert self._loading is not None, "it is started with the server"
        return self._loading.result()

    def close(self) -> None:
        """Waits for what is under way, and frees the model."""
        self._workers.close()
        if (model := self.model) is not None:
            model.close()


def check_texts(wish: EmbeddingWish) -> None:
    """Raises RequestError if there are too many texts."""
    if len(wish.texts) > MOST_TEXTS:
        message = f"there are {len(wish.texts):,} texts, a request has {MOST_TEXTS:,} at most"
        raise RequestError(message, where=f"{wish.where}/{MOST_TEXTS}", hint="Send several")


def _read(wish: EmbeddingWish, model: EmbeddingModel) -> list[Sequence[int]]:
    """The tokens of the texts."""
    model.check_dimensions(wish.dimensions)
    try:
        return model.read(wish.texts, truncate=wish.truncate)
    except RequestError as error:
        # Of the list of texts, it names the item.
        where = wish.where + (error.where or "" if len(wish.texts) > 1 else "")
        raise RequestError(error.message, where=where, hint=error.hint) from error
