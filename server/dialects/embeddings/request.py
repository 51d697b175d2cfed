"""Embeddings: the requests of OpenAI and of llama-server, which share their paths."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, StrictInt

from server.errors import HttpError
from server.models.embedding_service import EmbeddingInput
from server.turns.fields.request_lists import NumberLists, Numbers, Texts, list_prompts

NOT_NORMALIZED, EUCLIDEAN = -1, 2  # llama-server's embd_normalize


class EmbeddingRequest(BaseModel):
    """A request to /v1/embeddings."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True)

    model: str | None = None
    """The name of the model; any name selects the one embedding model."""
    input: str | Numbers | Texts | NumberLists | None = None
    """One or more inputs, each a text or token ids."""
    content: str | Numbers | Texts | NumberLists | None = None
    """llama-server's name of `input`: the reply then has llama-server's form."""
    encoding_format: Literal["float", "base64"] | None = None
    """The form of vectors: numbers, or base64 of their float32 values in little-endian order.
    Default: numbers."""
    dimensions: StrictInt | None = None
    """Truncates the vectors to this number of values."""
    embd_normalize: StrictInt | None = None
    """2: each vector has length 1, the default; -1: vectors are as the model gives them."""

    @property
    def is_native(self) -> bool:
        """True if the reply has the form of llama-server's own path."""
        return self.content is not None

    def read(self) -> EmbeddingInput:
        """Reads the request.

        Raises:
            HttpError: a field is invalid; says which.
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
        texts = list_prompts(given)
        if not texts:
            raise HttpError(400, "there is no text", "invalid_value", where=where)
        return EmbeddingInput(
            texts,
            where,
            is_list=isinstance(given, list) and not isinstance(given[0], int),
            dimensions=self.dimensions,
            normalize=self.embd_normalize != NOT_NORMALIZED,
        )
