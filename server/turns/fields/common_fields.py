"""Fields of all dialects: who shares what was computed (under the names of vLLM and llama-server),
how long a value may repeat itself, and which turn becomes the reply."""

from pydantic import BaseModel, ConfigDict, Field

from constrained.agent.doubt import Doubt, Unsure
from constrained.model.call_options import MAX_BRANCHES
from server.errors import HttpError
from server.settings import Settings
from server.turns.turn_request import ReplyChoice


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
        wanted, limit = self.max_repetition, settings.max_repetition_limit
        if limit is not None and (wanted is None or wanted > limit):
            given = "null is any number" if wanted is None else f"it is {wanted:,}"
            message = f"{given}, the limit is {limit:,}: raise --max-repetition-limit"
            raise HttpError(400, message, "too_large", where=f"{parent}/max_repetition")
        return wanted


class ReplyChoiceFields(BaseModel):
    """Which turn becomes the reply."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    best_of: int | None = Field(None, ge=1, le=MAX_BRANCHES)
    """Turns that are written where there are calls; the likeliest is the reply. They differ in a
    name or a listed value. A stream has its events once the turn is chosen. Not with several
    replies, nor with log probabilities."""
    min_confidence: float | None = Field(None, ge=0, le=1)
    """From where on the model is sure of a call; `constrained` in the reply then has the confidence
    of each call, and how likely a call was at all. Not with several replies."""
    unsure: Unsure | None = None
    """What happens to calls below `min_confidence`: `approve`, the default, leaves them to the
    client; with `ask` the reply is a question to the user instead, with `decline` an answer."""

    def read_reply_choice(
        self, settings: Settings, parent: str = "", *, choices: int = 1
    ) -> ReplyChoice:
        """How the reply is chosen.

        Args:
            settings: have the most turns of one request.
            parent: JSON pointer to the object with the fields.
            choices: the number of replies.

        Raises:
            HttpError: the fields do not fit each other, or ask for too many turns.
        """
        best_of, least = self.best_of or 1, self.min_confidence
        unsure = self.unsure or Unsure.APPROVE
        if unsure is not Unsure.APPROVE and least is None:
            message = "nothing says what is not sure: give min_confidence, from 0 to 1"
            raise HttpError(400, message, "invalid_value", where=f"{parent}/unsure")
        if best_of > settings.max_choices:
            message = f"it is {best_of}, the limit is {settings.max_choices}: raise --max-choices"
            raise HttpError(400, message, "too_large", where=f"{parent}/best_of")
        for name, is_given in (("best_of", best_of > 1), ("min_confidence", least is not None)):
            if is_given and choices > 1:
                message = f"{name} is about one reply: leave n out"
                raise HttpError(400, message, "invalid_value", where=f"{parent}/{name}")
        return ReplyChoice(best_of, Doubt(least, unsure))
