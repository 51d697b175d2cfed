"""Keeps text constant that changes from request to request although the conversation does not:
otherwise each prompt would differ from the cached prefix at its first tokens.

Coding agents put such texts into the system prompt: a line `x-anthropic-billing-header:
cc_version=2.1.197.<3 digits>; ...; cch=<5 digits>;`, with hashes of the conversation, and the path
of a file `claude-settings-<uuid>.json`. Another one is the date, which many chat templates write:
it stays that of the day on which a conversation began.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from constrained.prompt.messages import SYSTEM_ROLES
from constrained.prompt.turn_cache import digest

MAX_CONVERSATIONS = 10_000
_BILLING = re.compile(
    r"^(x-anthropic-billing-header:[^\n]{0,1000}?\bcch=)([^;\s]{1,100})", re.MULTILINE
)
_HEX = "[0-9a-fA-F]"
_VERSION = re.compile(
    rf"^(x-anthropic-billing-header: cc_version=[0-9.]{{1,50}}\.)({_HEX}{{3}})(?=;)", re.MULTILINE
)
_SETTINGS = re.compile(
    rf"(claude-settings-)({_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}})"
)
_CONSTANTS = (
    (_BILLING, "00000"),
    (_VERSION, "000"),
    (_SETTINGS, "00000000-0000-0000-0000-000000000000"),
)


def normalise_text(text: str) -> tuple[str, int]:
    """Replaces the changing parts by constants; returns how many, too."""
    changed = 0
    for pattern, constant in _CONSTANTS:
        changed += sum(found[2] != constant for found in pattern.finditer(text))
        text = pattern.sub(rf"\g<1>{constant}", text)
    return text, changed


def normalise_messages(
    messages: Sequence[Mapping[str, Any]], *, keep: bool = False
) -> tuple[list[dict[str, Any]], int]:
    """Applies `normalise_text` to the system messages, which are in OpenAI's form, unless volatile
    text is kept; returns all messages and the number of replacements."""
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
        """None: it is not known."""
        ...

    def keep(self, key: bytes, moment: datetime) -> None: ...


class ConversationDates:
    """Remembers when conversations began, unless all have a fixed date. Thread-safe.

    A conversation is identified by its system messages and the message after them; if there is
    none, it has just begun.
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
        """Returns when the conversation began: now, if it is not known under this cache salt."""
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
