"""Embedding models: they turn texts into vectors, which are close if the texts mean the same."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from constrained.decode.schedule.home_process import LoadedOnce
from constrained.engine.model_files.sources import find_source
from constrained.engine.options import LoadOptions, read_options
from constrained.errors import ContextError, RequestError, make_overflow

if TYPE_CHECKING:
    from constrained.model.embedding.llama_embedder import Embedder, Pooling

MAX_BATCH_TEXTS = 16
"""Texts of a batch."""
MAX_BYTES = 64
"""Of a text, for each token that the model takes: it would not fit, and is not tokenised."""


@dataclass(frozen=True)
class Embeddings:
    """The vectors of some texts.

    Args:
        vectors: float32, a row of each text.
        tokens: how many tokens each text has, those included that the model wants around it.
    """

    vectors: np.ndarray
    tokens: tuple[int, ...]


class EmbeddingModel(LoadedOnce):
    """A loaded embedding model; make one with `load_embeddings`. All methods are safe to use from
    several threads. It is a context manager, which closes it.

    Args:
        embedder: computes the vectors.
        path: the file of the model.

    Attributes:
        path: the file of the model.
    """

    def __init__(self, embedder: "Embedder", path: Path):
        self.path = path
        self._embedder = embedder
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<EmbeddingModel {self.path.stem}: {self.dimensions} dimensions>"

    @property
    def dimensions(self) -> int:
        """Of a vector."""
        return self._embedder.dimensions

    @property
    def context_length(self) -> int:
        """Tokens that a text may have."""
        return self._embedder.context_length

    def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        dimensions: int | None = None,
        normalize: bool = True,
        truncate: bool = False,
        check: Callable[[], None] | None = None,
    ) -> Embeddings:
        """Turns texts into vectors.

        Args:
            texts: texts, or their token ids.
            dimensions: cuts the vectors to this number of dimensions. Makes sense for models that
                were trained for it (Matryoshka).
            normalize: make each vector 1 long, so that the dot product of two is the cosine of
                their angle.
            truncate: cut texts that are too long, in place of refusing them.
            check: called between batches; an error that it raises ends the work.

        Returns:
            The vectors, in the order of the texts.

        Raises:
            RequestError: a text is empty, a token id is none of the model, or `dimensions` is no
                number of dimensions; `where` has the place.
            ContextError: a text is too long; `where` has the place.
            ModelError: the model is closed.
        """
        if isinstance(texts, str):
            raise RequestError("texts is one text", hint="Give a list: [text]")
        self.check_dimensions(dimensions)
        read = self.read(texts, truncate=truncate)
        vectors: list[np.ndarray] = []
        for batch in self.split(read):
            if check is not None:
                check()
            vectors.append(self.compute(batch))
        made = self.finish(vectors, dimensions=dimensions, normalize=normalize)
        return Embeddings(made, tuple(map(len, read)))

    def check_dimensions(self, dimensions: int | None) -> None:
        """Checks a number of dimensions.

        Args:
            dimensions: see `embed`.

        Raises:
            RequestError: vectors cannot be cut to this number of dimensions.
        """
        if dimensions is not None and not 1 <= dimensions <= self.dimensions:
            message = f"dimensions is {dimensions}, must be 1 to {self.dimensions}"
            raise RequestError(message, where="/dimensions")

    def read(
        self, texts: Sequence[str | Sequence[int]], *, truncate: bool = False
    ) -> list[Sequence[int]]:
        """Returns the tokens of texts: the first step of `embed`.

        Args:
            texts: see `embed`.
            truncate: see `embed`.

        Raises:
            RequestError, ContextError: as in `embed`.
        """
        return [self._read(text, number, truncate) for number, text in enumerate(texts)]

    def split(self, texts: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
        """Yields the texts in batches that can be computed at once: the second step of `embed`.

        Args:
            texts: their tokens.
        """
        batch: list[Sequence[int]] = []
        size = 0
        for text in texts:
            if batch and (size + len(text) > self.context_length or len(batch) == MAX_BATCH_TEXTS):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        if batch:
            yield batch

    def compute(self, batch: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns the vectors of a batch, as the model gives them: the third step of `embed`.

        Args:
            batch: a batch from `split`.

        Raises:
            ModelError: the model is closed.
        """
        with self._lock:
            return self._embedder.embed(batch)

    def finish(
        self, vectors: Sequence[np.ndarray], *, dimensions: int | None, normalize: bool
    ) -> np.ndarray:
        """Returns all vectors in the requested form: the last step of `embed`.

        Args:
            vectors: the vectors of the batches.
            dimensions: see `embed`.
            normalize: see `embed`.
        """
        found = np.concatenate([np.empty((0, self.dimensions), np.float32), *vectors])
        found = found[:, :dimensions]
        if not normalize:
            return found
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(lengths == 0, 1, lengths)

    def order_by(self, texts: Mapping[str, str]) -> Callable[[str], list[str]]:
        """Returns a function that orders names by how near their texts are to a query: for the
        `rank` of a `ToolSearch`, for example.

        Args:
            texts: a text of each name.
        """
        names = list(texts)
        known = self.embed([*texts.values()]).vectors

        def rank(query: str) -> list[str]:
            likeness = known @ self.embed([query]).vectors[0]
            return [names[number] for number in np.argsort(-likeness, kind="stable")]

        return rank

    def close(self) -> None:
        """Frees the model."""
        with self._lock:
            self._embedder.close()

    def __enter__(self) -> "EmbeddingModel":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _read(self, text: str | Sequence[int], number: int, truncate: bool) -> Sequence[int]:
        """Returns the tokens of a text."""
        where = f"/{number}"
        if not text:
            raise RequestError("the text is empty", where=where, hint="Leave it out")
        front: list[int] = []
        back: list[int] = []
        if isinstance(text, str):
            front, back = self._embedder.front, self._embedder.back
            tokens: Sequence[int] = self._tokenize(text, where, truncate)
        else:
            tokens = text
            for token in tokens:
                if not 0 <= token < self._embedder.vocabulary_size:
                    raise RequestError(f"{token} is not a token of the model", where=where)
        room = self.context_length - len(front) - len(back)
        if len(tokens) > room and not truncate:
            raise self._refuse(f"{len(tokens) + len(front) + len(back):,} tokens", where)
        return [*front, *tokens[:room], *back]

    def _tokenize(self, text: str, where: str, truncate: bool) -> list[int]:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            message = "the text has a lone surrogate, which is not valid in text"
            raise RequestError(message, where=where, hint="Replace it") from error
        max_bytes = MAX_BYTES * self.context_length
        if len(data) > max_bytes:
            if not truncate:
                raise self._refuse(f"{len(data):,} bytes", where)
            text = data[:max_bytes].decode("utf-8", "ignore")
        with self._lock:
            return self._embedder.tokenize(text)

    def _refuse(self, size: str, where: str) -> ContextError:
        hint = "Split it, or load the model with a longer context (context_length)"
        return make_overflow(self.context_length, f"the text has {size}", hint=hint, where=where)


def load_embeddings(
    source: str | os.PathLike[str],
    *,
    pooling: "Pooling | None" = None,
    token: str | None = None,
    offline: bool = False,
    progress: Callable[[float], None] | None = None,
    **options: Unpack[LoadOptions],
) -> EmbeddingModel:
    """Loads a model that turns texts into vectors.

    Args:
        source: a GGUF file, or `hf:user/repo[:quant]` for a model of the Hugging Face Hub.
        pooling: how the vectors of the tokens are combined, if the file does not say it: `mean`,
            `cls` or `last`.
        token: a token for the Hub. Default: HF_TOKEN, else the saved login.
        offline: do not ask the Hub; use models that are downloaded already.
        progress: called with the part that is downloaded, then with the part that is loaded, from
            0 to 1.
        options: the fields of `EngineOptions`, except `lora`. `context_length` is that of a text;
            default: what the model was trained on, but at most 2,048 tokens.

    Returns:
        The model.

    Raises:
        ModelError: the file is missing, damaged or not supported, or is of a model that makes no
            vectors of texts.
        RequestError: an option has an invalid value.
    """
    from constrained.model.embedding.llama_embedder import POOLINGS, Embedder

    if pooling is not None and pooling not in POOLINGS:
        message = f"pooling is {pooling!r}, must be {', '.join(POOLINGS)}"
        raise RequestError(message, where="/pooling")
    read = read_options(options)
    if read.lora:
        message = "a model for embeddings takes no LoRA adapters"
        raise RequestError(message, where="/lora", hint="Leave lora out")
    path = find_source(source, token=token, offline=offline, progress=progress)
    embedder = Embedder(
        path, pooling=pooling, options=read, max_batch_texts=MAX_BATCH_TEXTS, progress=progress
    )
    return EmbeddingModel(embedder, path)
