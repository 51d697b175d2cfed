"""Fields of all dialects: what a request may have, what is refused and what has no effect; cache
scope (with the names of vLLM and llama-server), the limit of repetition, and the choice of the
reply."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from constrained.model.confidence_policy import ConfidencePolicy, Unsure
from server.errors import refuse
from server.settings import Settings
from server.turns.request_completion import complete_request
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

NOTHING: tuple[object, ...] = (None, "", [], {})  # values that mean the same as a missing field


@dataclass(frozen=True)
class RefusedField:
    """What the error of a refused field says: why, and what to do instead."""

    message: str
    code: str = "unsupported_field"


class Fields(BaseModel):
    """Fields of a request, or of an object in it: the fields of the class are read, `refused` are
    refused, `harmless` are accepted without an effect. All others are ignored, and the reply names
    them."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    refused: ClassVar[Mapping[str, RefusedField]] = {}
    """Fields without which the reply would be another one."""
    harmless: ClassVar[Collection[str]] = frozenset()
    """Fields that change nothing for the client, also of objects: `reasoning.summary`."""

    def check_refused(self) -> None:
        """Refuses fields that this server does not support, and must not ignore."""
        for name, refusal in self.refused.items():
            if (self.model_extra or {}).get(name):
                raise refuse(refusal.message, f"/{name}", refusal.code)

    def find_ignored(self) -> tuple[str, ...]:
        """Lists the unknown fields of the request and of the objects in it, such as
        `reasoning.mode`."""
        names = find_ignored(self.model_extra, self.harmless)
        for name in type(self).model_fields:
            part = getattr(self, name)
            if isinstance(part, BaseModel):
                extra = (part.model_extra or {}).items()
                within = {f"{name}.{key}": value for key, value in extra}
                names += find_ignored(within, self.harmless)
        return tuple(names)


class RequestFields(Fields):
    """The fields of all requests for text: model, and the scope of the caches."""

    model: str | None = ""
    """The name of a model, or one of its aliases; required if the server has several."""
    cache_salt: str | None = Field(None, min_length=1)
    """Requests with the same salt share the caches, also with several API keys. Other clients
    cannot find out from times or token counts what was sent. Without a salt, the requests of one
    API key share them."""
    cache_prompt: bool | None = None
    """false: the prompt is neither read from a cache (`cached_tokens` is 0) nor cached for later
    requests."""

    def complete(self, service: Service, request: TurnRequest) -> TurnRequest:
        """Completes a request that a dialect has read: with the fields that all dialects share, and
        with what the server decides."""
        cache_prompt = self.cache_prompt is not False
        job = replace(request.job, cache_salt=self.cache_salt, cache_prompt=cache_prompt)
        ignored = (*self.find_ignored(), *request.ignored_fields)
        return complete_request(service, replace(request, job=job, ignored_fields=ignored))


def find_ignored(extra: Mapping[str, Any] | None, harmless: Collection[str]) -> list[str]:
    """Lists the unknown fields, without those that change nothing, and without null and empty ones,
    since many SDKs write every field."""
    given = [name for name, value in (extra or {}).items() if value not in NOTHING]
    return [name for name in given if name not in harmless]


def find_ignored_of_tools(
    tools: Iterable[Any], known: Collection[str], kinds: Collection[str | None]
) -> list[str]:
    """Lists the fields of tools that have no effect, each once."""
    names: dict[str, None] = {}
    for tool in tools:
        if isinstance(tool, Mapping) and tool.get("type") in kinds:
            for name in find_ignored(tool, known):
                names[f"tools.{name}"] = None
    return [*names]


class RepetitionFields(Fields):
    """The limit of values that repeat themselves."""

    max_repetition: int | None = Field(None, ge=1)
    """The maximum number of tokens that one value may spend on repetition; null: no limit. Default:
    the limit of the server."""

    def read_max_repetition(self, settings: Settings, parent: str = "") -> int | None:
        """None: no limit. `parent` is the JSON pointer to the object with the field."""
        if "max_repetition" not in self.model_fields_set:
            return settings.default_repetition
        wanted, limit = self.max_repetition, settings.max_repetition_limit
        if limit is not None and (wanted is None or wanted > limit):
            given = "null is no limit" if wanted is None else f"it is {wanted:,}"
            message = f"{given}, the limit is {limit:,}: raise --max-repetition-limit"
            raise refuse(message, f"{parent}/max_repetition", "too_large")
        return wanted


class ConfidenceFields(Fields):
    """Which turn becomes the reply."""

    min_confidence: float | None = Field(None, ge=0, le=1)
    """The confidence from which on a call counts as sure; `constrained` in the reply then has the
    confidence of each call, and the probability of a call at all. Not with several choices."""
    unsure: Unsure | None = None
    """What happens to calls below `min_confidence`: `approve`, the default, leaves them to the
    client; with `ask` the reply is a question to the user instead, with `decline` an answer."""

    def read_confidence_policy(self, parent: str = "", *, choices: int = 1) -> ConfidencePolicy:
        least = self.min_confidence
        unsure = self.unsure or Unsure.APPROVE
        if unsure is not Unsure.APPROVE and least is None:
            message = "it has no effect without min_confidence: give one, from 0 to 1"
            raise refuse(message, f"{parent}/unsure")
        if least is not None and choices > 1:
            message = "min_confidence is about one reply: leave n out"
            raise refuse(message, f"{parent}/min_confidence")
        return ConfidencePolicy(least, unsure)
