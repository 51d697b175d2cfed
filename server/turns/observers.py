"""What the operator sees of requests: protocols of those who watch, and the values that they get.

A server works without them. `server.observe` has what implements the protocols.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol

from constrained.model.reply import Usage
from constrained.model.trace.turn_trace import TurnTrace
from grammars.schema.json_values import Json
from server.turns.request_record import RequestRecord

KEY_DIGITS = 12


class ChangedPart(StrEnum):
    """A part of a request that has changed."""

    SYSTEM = "system"
    TOOL_ADDED = "tool_added"
    TOOL_REMOVED = "tool_removed"
    TOOL_EDITED = "tool_edited"
    TOOLS_REORDERED = "tools_reordered"
    MESSAGE = "message"
    MESSAGES_DROPPED = "messages_dropped"


@dataclass(frozen=True)
class LostPrefix:
    """The first part of a request that differs from an earlier request of its conversation.

    Args:
        part: the kind of part.
        name: the part, as in "tool 2 (get_weather)".
        offset: the first character that differs, in the text or JSON of the part.
        before: the text there in the earlier request.
        after: the text there in the later request.
    """

    part: ChangedPart
    name: str
    offset: int = 0
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return self.describe()

    def describe(self, *, shows_text: bool = True) -> str:
        """Describes the change in words.

        Args:
            shows_text: include the characters that have changed, which are part of the prompt.
        """
        match self.part:
            case ChangedPart.TOOL_ADDED:
                return f"{self.name} is new"
            case ChangedPart.TOOL_REMOVED | ChangedPart.MESSAGES_DROPPED:
                return f"{self.name} is gone"
            case ChangedPart.TOOLS_REORDERED:
                return f"the order of the tools has changed, from {self.name} on"
            case _ if not shows_text:
                return f"{self.name} has changed at character {self.offset}"
            case _:
                change = f"{self.before!r} is {self.after!r} now"
                return f"{self.name} has changed at character {self.offset}: {change}"


@dataclass(frozen=True)
class TracedRequest:
    """What a trace says about its request.

    Args:
        id: the value of `x-request-id`.
        model: the client's name of the model.
        choice: the number of the reply, if the request has several.
        key: identifies the API key, see `name_key`; "" if there are no keys.
        error: the error of the turn; "" if there was none.
    """

    id: str
    model: str
    choice: int = 0
    key: str = ""
    error: str = ""

    def to_json(self, time: datetime) -> dict[str, Json]:
        """Returns the field `request` of a line."""
        shown: dict[str, Json] = {
            "id": self.id,
            "time": time.isoformat(timespec="milliseconds"),
            "model": self.model,
            "choice": self.choice,
        }
        for name in ("key", "error"):
            if value := getattr(self, name):
                shown[name] = value
        return shown


def name_key(key: object) -> str:
    """Identifies an API key without revealing it: the beginning of its SHA-256."""
    if key is None:
        return ""
    data = key if isinstance(key, bytes) else str(key).encode()
    return sha256(data).hexdigest()[:KEY_DIGITS]


class PromptObserver(Protocol):
    """Compares each prompt of a model with earlier ones."""

    def note(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], salt: str | None
    ) -> LostPrefix | None:
        """Takes the parts of a prompt.

        Args:
            messages: in OpenAI's form.
            tools: the offered tools.
            salt: the salt of the caches; only requests with the same salt are compared.

        Returns:
            what has changed since the request that it could have continued; None: nothing.
        """
        ...


class TurnCounters(Protocol):
    """Counts turns and their tokens."""

    def note_usage(self, usage: Usage) -> None:
        """Counts the tokens of a turn."""
        ...

    def note_record(self, record: RequestRecord) -> None:
        """Counts a turn that is over."""
        ...

    def note_unfinished(self, count: int) -> None:
        """Counts turns that ended without a reply."""
        ...


class RecordObserver(Protocol):
    """Takes the record of each turn that is over."""

    def note(self, record: RequestRecord) -> None:
        """Takes the record of a turn that has just ended."""
        ...


class TraceObserver(Protocol):
    """Takes what decided the tokens of each turn."""

    def note(self, request: TracedRequest, trace: TurnTrace) -> None:
        """Takes the trace of a turn, without waiting for anything."""
        ...


@dataclass(frozen=True)
class Observers:
    """Who watches the requests of one model.

    Args:
        prompts: finds out why a cache was of no use; None: nobody does.
        counters: count turns and tokens; None: nobody does.
        records: takes the record of each turn; None: nobody does.
        traces: takes the trace of each turn; None: turns are traced only if clients want that.
    """

    prompts: PromptObserver | None = None
    counters: TurnCounters | None = None
    records: RecordObserver | None = None
    traces: TraceObserver | None = None
