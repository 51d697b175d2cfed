"""The date that a template writes stays that of the day on which a conversation began."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from constrained.prompt.turn_cache import digest

KNOWN = 10_000  # conversations
_LEADING = ("system", "developer")


class Dates:
    """When conversations began. For several threads.

    A conversation is told by its system messages and the first message behind them; where nothing
    stands behind these, it has just begun.

    Args:
        fixed: the date of all of them; None: that of their first request.
    """

    def __init__(self, fixed: datetime | None = None, most: int = KNOWN):
        self._fixed = fixed
        self._most = most
        self._begun: OrderedDict[bytes, datetime] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, messages: Sequence[Mapping[str, Any]]) -> datetime:
        """When the conversation began: now, if it is not known."""
        if self._fixed is not None:
            return self._fixed
        roles = [message.get("role") in _LEADING for message in messages]
        head = messages[: roles.index(False) + 1] if False in roles else messages
        key = digest(list(head))
        with self._lock:
            if len(head) == len(messages):
                self._begun[key] = datetime.now()
            moment = self._begun.setdefault(key, datetime.now())
            self._begun.move_to_end(key)
            while len(self._begun) > self._most:
                self._begun.popitem(last=False)
        return moment
