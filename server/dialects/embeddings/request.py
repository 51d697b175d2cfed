"""Embeddings: the requests of OpenAI."""

from typing import Literal

from pydantic import StrictInt

from server.errors import refuse
from server.models.embedding_service import EmbeddingInput
from server.turns.fields.common_fields import Fields, RefusedField
from server.turns.fields.request_lists import NumberLists, Numbers, Texts, list_prompts

LLAMA_SERVER = RefusedField("llama-server's own form is not served: send the texts as input")
REFUSED = {"content": LLAMA_SERVER, "embd_normalize": LLAMA_SERVER}


class EmbeddingRequest(Fields):
    """A request to /v1/embeddings."""

    refused = REFUSED

    model: str | None = None
    """The name of the model; any name selects the one embedding model."""
    input: str | Numbers | Texts | NumberLists | None = None
    """One or more inputs, each a text or token ids."""
    encoding_format: Literal["float", "base64"] | None = None
    """The form of vectors: numbers, or base64 of their float32 values in little-endian order.
    Default: numbers."""
    dimensions: StrictInt | None = None
    """Truncates the vectors to this number of values."""

    def read(self) -> EmbeddingInput:
        """Reads the request.

        Raises:
            HttpError: there is no text.
        """
        texts = [] if self.input is None else list_prompts(self.input)
        if not texts:
            raise refuse("there is no text", "/input")
        return EmbeddingInput(
            texts,
            "/input",
            is_list=isinstance(self.input, list) and not isinstance(self.input[0], int),
            dimensions=self.dimensions,
        )
