"""Fields of all dialects: who shares what was computed (under the names of vLLM and llama-server),
and how long a value may repeat itself."""

from pydantic import BaseModel, ConfigDict, Field

from server.errors import HttpError
from server.settings import Settings


class CacheFields(BaseModel):
    """The scope of the caches."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    cache_salt: str | None = Field(None, min_length=1)
    """Requests of the same salt share what was computed of their prompts, also under several API
    keys; nobody else can tell from times or counts what was asked. Without it, those of one key
    share."""
    cache_prompt: bool | None = None
    """false: nothing of the prompt is taken from a cache (`cached_tokens` is 0), and nothing of it
    is kept for later requests."""


class RepetitionFields(BaseModel):
    """The bound of values that repeat themselves."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    max_repetition: int | None = Field(None, ge=1)
    """Tokens that one value may spend on repeating itself, at most; null: any number. By default as
    many as the server says."""

    def read_max_repetition(self, settings: Settings, parent: str = "") -> int | None:
        """The bound; None: any number.

        Args:
            settings: have the default, and the largest bound that may be asked for.
            parent: JSON pointer to the object with the field.

        Raises:
            HttpError: it is larger than that.
        """
        if "max_repetition" not in self.model_fields_set:
            return settings.default_repetition
        asked, most = self.max_repetition, settings.max_repetition_limit
        if most is not None and (asked is None or asked > most):
            given = "null is any number" if asked is None else f"it is {asked:,}"
            message = f"{given}, the limit is {most:,}: raise --max-repetition-limit"
            raise HttpError(400, message, "too_large", where=f"{parent}/max_repetition")
        return asked
