"""Text that changes from request to request although the conversation does not: it would make each
prompt new to the prefix cache from its first tokens on, so it is kept constant.

Coding agents put two such texts into the system prompt: a line `x-anthropic-billing-header: ...;
cch=<5 digits>;`, and the path of a file `claude-settings-<uuid>.json`. The third is the date, which
many chat templates write: it stays that of the day on which a conversation began.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from constrained.messages import SYSTEM_ROLES
from constrained.prompt.turn_cache import digest

MAX_CONVERSATIONS = 10_000
_BILLING = re.compile(
    r"^(x-anthropic-billing-header:[^\n]{0,1000}?\bcch=)([^;\s]{1,100})", re.MULTILINE
)
_HEX = "[0-9a-fA-F]"
_SETTINGS = re.compile(
    rf"(claude-settings-)({_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}})"
)
_CONSTANTS = ((_BILLING, "00000"), (_SETTINGS, "00000000-0000-0000-0000-000000000000"))


def normalise_text(text: str) -> tuple[str, int]:
    """The text with constants in the places of what changes, and how many places changed."""
    changed = 0
    for pattern, constant in _CONSTANTS:
        changed += sum(found[2] != constant for found in pattern.finditer(text))
        text = pattern.sub(rf"\g<1>{constant}", text)
    return text, changed


def normalise_messages(
    messages: Sequence[Mapping[str, Any]], *, keep: bool = False
) -> tuple[list[dict[str, Any]], int]:
    """Messages in OpenAI's form, those of the system with `normalise_text`, and how many places
    changed.

    Args:
        messages: their content is text, or a list of parts.
        keep: leave all of it as it is.
    """
    normalised = list[dict[str, Any]]()
    changed = 0
    for message in messages:
        copy = dict(message)
        if not keep and copy.get("role") in SYSTEM_ROLES:
            copy["content"], count = _normalise_content(copy.get("content"))
            changed += count
        normalised.append(copy)
    return normalised, changed


def _normalise_content(content: Any) -> tuple[Any, int]:
    if isinstance(content, str):
        return normalise_text(content)
    if not isinstance(content, list):
        return content, 0
    parts = list[Any]()
    changed = 0
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            text, count = normalise_text(part["text"])
            parts.append({**part, "text": text})
            changed += count
        else:
            parts.append(part)
    return parts, changed


class SharedDates(Protocol):
    """Dates that several processes share."""

    def find(self, key: bytes) -> datetime | None:
        """When the conversation of this name began; None: that is not known."""
        ...

    def keep(self, key: bytes, moment: datetime) -> None:
        """A conversation of this name begins."""
        ...


class ConversationDates:
    """When conversations began. For several threads.

    A conversation is known by its system messages and the first message behind them; where nothing
    stands behind these, it has just begun.

    Args:
        fixed: the date of all of them; None: that of their first request.
        max_dates: how many.
        shared: where those are, too, that this process may not have seen begin; None: nowhere.
    """

    def __init__(
        self,
        fixed: datetime | None = None,
        max_dates: int = MAX_CONVERSATIONS,
        shared: SharedDates | None = None,
    ):
        self._shared = shared
        self._fixed = fixed
        self._max_dates = max_dates
        self._dates: OrderedDict[bytes, datetime] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, messages: Sequence[Mapping[str, Any]], salt: str | None = None) -> datetime:
        """When the conversation began: now, if it is not known under this salt of the caches."""
        if self._fixed is not None:
            return self._fixed
        length = 0
        for message in messages:
            length += 1
            if message.get("role") not in SYSTEM_ROLES:
                break
        key = digest(list(messages[:length]), salt)
        now = datetime.now()
        if self._shared is not None and length == len(messages):
            self._shared.keep(key, now)
        if self._shared is not None and key not in self._dates:
            now = self._shared.find(key) or now
        with self._lock:
            if length == len(messages):
                self._dates[key] = now
            moment = self._dates.setdefault(key, now)
            self._dates.move_to_end(key)
            while len(self._dates) > self._max_dates:
                self._dates.popitem(last=False)
        return moment
