"""Fields of all dialects: cache scope (with the names of vLLM and llama-server), the limit of
repetition, and the choice of the reply."""

from pydantic import BaseModel, ConfigDict, Field

from constrained.agent.confidence_policy import ConfidencePolicy, Unsure
from server.errors import HttpError
from server.settings import Settings
from server.turns.turn_request import ReplyChoice


class CacheFields(BaseModel):
    """The scope of the caches."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    cache_salt: str | None = Field(None, min_length=1)
    """Requests with the same salt share the caches, also with several API keys. Other clients
    cannot find out from times or token counts what was sent. Without a salt, the requests of one
    API key share them."""
    cache_prompt: bool | None = None
    """false: the prompt is neither read from a cache (`cached_tokens` is 0) nor cached for later
    requests."""


class RepetitionFields(BaseModel):
    """The limit of values that repeat themselves."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    max_repetition: int | None = Field(None, ge=1)
    """The maximum number of tokens that one value may spend on repetition; null: no limit. Default:
    the limit of the server."""

    def read_max_repetition(self, settings: Settings, parent: str = "") -> int | None:
        """Returns the limit; None: no limit.

        Args:
            settings: have the default and the maximum.
            parent: JSON pointer to the object with the field.

        Raises:
            HttpError: the limit is above the maximum.
        """
        if "max_repetition" not in self.model_fields_set:
            return settings.default_repetition
        wanted, limit = self.max_repetition, settings.max_repetition_limit
        if limit is not None and (wanted is None or wanted > limit):
            given = "null is no limit" if wanted is None else f"it is {wanted:,}"
            message = f"{given}, the limit is {limit:,}: raise --max-repetition-limit"
            raise HttpError(400, message, "too_large", where=f"{parent}/max_repetition")
        return wanted


class ReplyChoiceFields(BaseModel):
    """Which turn becomes the reply."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    min_confidence: float | None = Field(None, ge=0, le=1)
    """The confidence from which on a call counts as sure; `constrained` in the reply then has the
    confidence of each call, and the probability of a call at all. Not with several choices."""
    unsure: Unsure | None = None
    """What happens to calls below `min_confidence`: `approve`, the default, leaves them to the
    client; with `ask` the reply is a question to the user instead, with `decline` an answer."""

    def read_reply_choice(self, parent: str = "", *, choices: int = 1) -> ReplyChoice:
        """Returns how the reply is chosen.

        Args:
            parent: JSON pointer to the object with the fields.
            choices: the number of choices.

        Raises:
            HttpError: the fields contradict each other.
        """
        least = self.min_confidence
        unsure = self.unsure or Unsure.APPROVE
        if unsure is not Unsure.APPROVE and least is None:
            message = "it has no effect without min_confidence: give one, from 0 to 1"
            raise HttpError(400, message, "invalid_value", where=f"{parent}/unsure")
        if least is not None and choices > 1:
            message = "min_confidence is about one reply: leave n out"
            raise HttpError(400, message, "invalid_value", where=f"{parent}/min_confidence")
        return ReplyChoice(ConfidencePolicy(least, unsure))
