"""Random ids of replies, and ids of calls, which clients send back.

For clients, the id of a call is `call_` or `toolu_` and 9 letters and digits; for the chat
template, only the 9 letters and digits, which Mistral's template requires. Where the model itself
writes ids, the one that it wrote is put in their place again when the conversation comes back.
"""

import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from constrained.model.reply import ID_LENGTH, derive_id

MAX_IDS = 10_000  # ids of calls that the model wrote
_PREFIXED = re.compile(r"(?:call|toolu|fc|mcp|mcptoolu)_(.+)", re.DOTALL)
_OWN = re.compile(rf"[A-Za-z0-9]{{{ID_LENGTH}}}")


def make_id(prefix: str) -> str:
    return prefix + secrets.token_hex(12)


class SharedIds(Protocol):
    """Ids that several processes share."""

    def find(self, id: str) -> str | None:
        """None: it is not known."""
        ...

    def keep(self, id: str, written: str) -> None: ...


class CallIds:
    """The ids that the model wrote, by the ids that clients know. For several threads; `shared` has
    the ids of other processes."""

    def __init__(self, max_ids: int = MAX_IDS, shared: SharedIds | None = None):
        self._max_ids = max_ids
        self._shared = shared
        self._written: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, id: str, written: str | None) -> None:
        """A call goes out with the id (without prefix); the model wrote another one, or none."""
        if written is None or written == id:
            return
        with self._lock:
            self._written[id] = written
            self._written.move_to_end(id)
            while len(self._written) > self._max_ids:
                self._written.popitem(last=False)
        if self._shared is not None:
            self._shared.keep(id, written)

    def read(self, id: str) -> str:
        """Returns the id inside, of one that a client carries back. A prefixed one of another
        server becomes 9 letters and digits; what has no such prefix stays."""
        found = _PREFIXED.fullmatch(id)
        if found is None:
            return id
        own = found[1]
        if _OWN.fullmatch(own) is None:
            own = derive_id(id.encode("utf-8", "surrogatepass"), 0)
        with self._lock:
            written = self._written.get(own)
        if written is None and self._shared is not None:
            written = self._shared.find(own)
        return written or own

    def restore(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [self._restore(message) for message in messages]

    def _restore(self, message: Mapping[str, Any]) -> dict[str, Any]:
        restored = dict(message)
        if isinstance(id := message.get("tool_call_id"), str):
            restored["tool_call_id"] = self.read(id)
        if isinstance(calls := message.get("tool_calls"), list):
            restored["tool_calls"] = [self._restore_call(call) for call in calls]
        return restored

    def _restore_call(self, call: Any) -> Any:
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            return {**call, "id": self.read(call["id"])}
        return call
