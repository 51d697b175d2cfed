"""Embeddings: the requests of OpenAI and of llama-server, which share their paths."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, StrictInt

from server.errors import HttpError
from server.models.embedding_service import EmbeddingWish
from server.turns.fields.request_lists import NumberLists, Numbers, Texts, list_texts

NOT_NORMALIZED, EUCLIDEAN = -1, 2  # llama-server's embd_normalize


class EmbeddingRequest(BaseModel):
    """A request to /v1/embeddings."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The embedding model answers whatever name is given: there is one."""
    input: str | Numbers | Texts | NumberLists | None = None
    """A text, or ids of tokens; or several of either."""
    content: str | Numbers | Texts | NumberLists | None = None
    """The same, as llama-server calls it: the reply then has its form."""
    encoding_format: Literal["float", "base64"] | None = None
    """How vectors are written: as numbers, or as the base64 of their float32 in little-endian
    order. Default: numbers."""
    dimensions: StrictInt | None = None
    """Cuts the vectors to so many numbers."""
    embd_normalize: StrictInt | None = None
    """2: each vector is 1 long, which is the default; -1: as the model gives it."""

    @property
    def is_native(self) -> bool:
        """The reply has the form of llama-server's own path."""
        return self.content is not None

    def read(self) -> EmbeddingWish:
        """What is asked for.

        Raises:
            HttpError: something in it cannot be; says where.
        """
        where = "/content" if self.is_native else "/input"
        given = self.content if self.is_native else self.input
        if given is None or (self.is_native and self.input is not None):
            raise HttpError(
                400, "give the texts as input (or as content)", "invalid_value", where="/input"
            )
        if self.embd_normalize not in (None, NOT_NORMALIZED, EUCLIDEAN):
            message = f"embd_normalize is {self.embd_normalize}, must be 2 or -1"
            raise HttpError(400, message, "invalid_value", where="/embd_normalize")
        texts = list_texts(given)
        if not texts:
            raise HttpError(400, "there is no text", "invalid_value", where=where)
        return EmbeddingWish(
            texts,
            where,
            is_list=isinstance(given, list) and not isinstance(given[0], int),
            dimensions=self.dimensions,
            normalize=self.embd_normalize != NOT_NORMALIZED,
        )
