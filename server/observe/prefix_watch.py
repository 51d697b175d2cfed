"""Remembers the parts of the last requests, to find out why a prompt is computed again."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from server.observe.lost_prefix import LostPrefix, find_lost_prefix
from server.observe.prompt_parts import PromptParts, read_parts
from server.observe.related_request import find_related_request

MAX_KEPT = 64  # requests
MAX_CHARACTERS = 4_000_000  # of all remembered requests


class PrefixWatch:
    """A `PromptObserver` of the last requests of a model. Thread-safe."""

    def __init__(self, max_requests: int = MAX_KEPT, characters: int = MAX_CHARACTERS):
        self._max_requests = max_requests
        self._characters = characters
        self._kept: OrderedDict[int, tuple[str | None, PromptParts]] = OrderedDict()
        self._count = 0
        self._size = 0
        self._lock = threading.Lock()

    def note(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], salt: str | None
    ) -> LostPrefix | None:
        """Remembers a request, and compares it with earlier ones; see `PromptObserver`."""
        parts = read_parts(messages, tools)
        with self._lock:
            others = [
                kept for kept_salt, kept in reversed(self._kept.values()) if kept_salt == salt
            ]
            self._keep(parts, salt)
        related = find_related_request(others, parts)
        return None if related is None else find_lost_prefix(related, parts)

    def _keep(self, parts: PromptParts, salt: str | None) -> None:
        self._count += 1
        self._kept[self._count] = (salt, parts)
        self._size += parts.size
        while self._kept and (
            len(self._kept) > self._max_requests or self._size > self._characters
        ):
            _, (_, dropped) = self._kept.popitem(last=False)
            self._size -= dropped.size
