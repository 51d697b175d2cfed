"""The embedding model of a server, in a separate thread."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from constrained.decode.schedule.streams import Wanted, arun, check_demand
from constrained.decode.schedule.workers import Order, Workers
from constrained.engine.model_facts import NO_FACTS, ModelFacts, read_facts
from constrained.errors import Error, RequestError
from constrained.limits.deadline import Deadline, set_deadline
from constrained.model.embedding.embedding_model import MAX_BATCH_TEXTS, EmbeddingModel
from server.errors import RETRY_AFTER, HttpError
from server.http.caller import find_owner
from server.http.time_left import find_time_left
from server.models.source import LATEST
from server.settings import Settings

T = TypeVar("T")
MAX_TEXTS = 2048
"""Of a request, as OpenAI has it."""
Text = str | Sequence[int]
"""A text, or its token ids."""


@dataclass(frozen=True)
class EmbeddingInput:
    """The input of an embedding model, and how to embed it.

    Args:
        texts: the texts, or their token ids.
        where: the field of the request that has them, as a JSON pointer.
        is_list: each text is an item of that field; else the field is the text.
        dimensions: the number of dimensions of the vectors; None: all.
        normalize: scale each vector to length 1.
        truncate: cut texts that are too long.
    """

    texts: Sequence[Text]
    where: str
    is_list: bool = True
    dimensions: int | None = None
    normalize: bool = True
    truncate: bool = False


class EmbeddingService:
    """Serves an embedding model: loads it when the server starts, and uses it in one thread.

    Args:
        name: its name for clients.
        load: loads the model, in a thread; this object closes it.
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

    @property
    def is_loading(self) -> bool:
        """True until it is loaded, or cannot be."""
        return self._loading is None or not self._loading.done()

    def answers_to(self, name: str | None) -> bool:
        """Returns whether this is its name."""
        return name is not None and name.removesuffix(LATEST) == self.name

    def start(self, stop: Callable[[Exception], None] | None) -> None:
        """Begins to load the model.

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

    def find_model(self) -> EmbeddingModel:
        """Returns the model.

        Raises:
            HttpError: it is not loaded yet.
            Error: why it could not be loaded.
        """
        if self._loading is None or not self._loading.done():
            message = "the embedding model is being loaded: try again"
            raise HttpError(503, message, "loading_model", retry_after=RETRY_AFTER)
        return self._loading.result()

    async def read(self, given: EmbeddingInput) -> "ReadTexts":
        """Reads the texts of a request.

        Raises:
            Error: as in `EmbeddingModel.read`; there are too many texts; the model is not loaded;
                too much waits, or the time of the request is over.
        """
        model = self.find_model()
        if len(given.texts) > MAX_TEXTS:
            message = (
                f"there are {len(given.texts):,} texts, a request may have at most {MAX_TEXTS:,}"
            )
            raise RequestError(message, where=f"{given.where}/{MAX_TEXTS}", hint="Send several")
        model.check_dimensions(given.dimensions)
        deadline = set_deadline(find_time_left(self._settings.timeout).measure(), time.monotonic)
        queue = _PieceQueue(self._workers, deadline)
        tokens: list[Sequence[int]] = []
        for start in range(0, len(given.texts), MAX_BATCH_TEXTS):
            tokens += await queue.do(partial(_read, model, given, start))
        return ReadTexts(model, given, tokens, queue)

    def close(self) -> None:
        """Waits for running requests, and frees the model."""
        self._workers.close()
        if (model := self.model) is not None:
            model.close()


class _PieceQueue:
    """The pieces of the work of one request: other requests have their turn between them."""

    def __init__(self, workers: Workers, deadline: Deadline | None):
        self._workers = workers
        self._deadline = deadline
        self._owner = find_owner()
        self._is_begun = False

    async def do(self, work: Callable[[], T]) -> T:
        """Does a piece. Cancelling it ends the work."""

        def start(is_wanted: Wanted) -> Future[T]:
            check = partial(check_demand, is_wanted, self._deadline, time.monotonic)
            # Requests that have begun are not refused because of later ones.
            order = Order(self._owner, check=check, is_bounded=not self._is_begun)
            self._is_begun = True
            return self._workers.submit(work, order)

        return await arun(start)


@dataclass(frozen=True)
class ReadTexts:
    """Texts that are read, and become vectors one after the other."""

    model: EmbeddingModel
    given: EmbeddingInput
    tokens: Sequence[Sequence[int]]
    queue: _PieceQueue

    @property
    def count(self) -> int:
        """Tokens of all texts."""
        return sum(map(len, self.tokens))

    async def write(self, write: Callable[[np.ndarray], str]) -> AsyncIterator[list[str]]:
        """Yields the vectors in the order of the texts, some at a time, as they are computed.
        `write` writes one, in the thread of the model."""
        for batch in self.model.split(self.tokens):
            yield await self.queue.do(partial(self._compute, batch, write))

    def _compute(
        self, batch: Sequence[Sequence[int]], write: Callable[[np.ndarray], str]
    ) -> list[str]:
        made = self.model.finish(
            [self.model.compute(batch)],
            dimensions=self.given.dimensions,
            normalize=self.given.normalize,
        )
        return [write(vector) for vector in made]


def _read(model: EmbeddingModel, given: EmbeddingInput, start: int) -> Sequence[Sequence[int]]:
    """Returns the tokens of some of the texts; errors have the place in the request."""
    some = given.texts[start : start + MAX_BATCH_TEXTS]
    try:
        return model.read(some, truncate=given.truncate)
    except Error as error:
        if error.where is not None:
            number = start + int(error.where.removeprefix("/"))
            error.where = f"{given.where}/{number}" if given.is_list else given.where
        raise
