"""Assistant turns as the model wrote them, found again when a conversation carries one back.

What a client sends back is not what was generated: reasoning is dropped, arguments are spelled in
another way, and the template writes the turn in its own. Tokenised again it would be new to the
model. So turns are kept as tokens, behind the tokens of the prompt that they answered.

A turn is found by all that came before it (the tools, each message, and which kept turns those
were) and by what of it is visible. An edited turn is never found, nor is that of a conversation
that went another way, whatever ids the calls have.
"""

import hashlib
import marshal
import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from constrained.messages import is_text_parts, read_thought
from grammars.wire import CallId, CallIndex, Format, JsonCall

MARSHAL = 2  # a version in which equal data have equal bytes
MOST_TOKENS = 4_000_000  # 16 MB


def digest(*parts: object) -> bytes:
    """A name for JSON data, the order of keys included: templates can tell that apart."""
    try:
        data = marshal.dumps(parts, MARSHAL)
    except ValueError:  # no JSON, or too deep; whoever renders it says so
        return os.urandom(16)
    return hashlib.blake2b(data, digest_size=16).digest()


def writes_ids(format: Format) -> bool:
    """Does a model write the ids of its calls?"""
    nodes = [node.id if isinstance(node, JsonCall) else node for node in format.call]
    return any(isinstance(node, CallId | CallIndex) for node in nodes)


@dataclass(frozen=True)
class Decoded:
    """An assistant turn, and the prompt that it answered.

    Args:
        prompt: token ids.
        tokens: what was generated, without the end of the turn.
        message: the turn in OpenAI form, arguments as objects.
        thoughts: places of the earlier messages whose reasoning is in the prompt.
    """

    prompt: "array[int]"
    tokens: "array[int]"
    message: Mapping[str, Any]
    thoughts: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.tokens)

    @property
    def reasoning(self) -> str:
        """What the model thought, without the white space around it."""
        return _strip(read_thought(self.message))

    @cached_property
    def name(self) -> bytes:
        return hashlib.blake2b(self.tokens.tobytes(), digest_size=16).digest()

    def is_told_by(self, message: Mapping[str, Any], *, with_ids: bool) -> bool:
        """Does a message say what this turn said? White space around texts does not count, nor the
        spelling of arguments; reasoning may be missing.

        Args:
            message: in normal form.
            with_ids: ids of calls count, for the model has written them.
        """
        reasoning = _strip(read_thought(message))
        return (
            (not reasoning or reasoning == self.reasoning)
            and _read_text(message) == _read_text(self.message)
            and _read_calls(message, with_ids) == _read_calls(self.message, with_ids)
        )


def _strip(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


def _read_text(message: Mapping[str, Any]) -> Any:
    content: Any = message.get("content") or ""
    if is_text_parts(content):
        content = "\n".join(part["text"] for part in content)
    return content.strip() if isinstance(content, str) else content


def _read_calls(message: Mapping[str, Any], with_ids: bool) -> list[bytes]:
    """Names, arguments and perhaps ids of the calls; of no such shape: as they are."""
    calls = list[bytes]()
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            calls.append(digest("?", call))
            continue
        id = call.get("id") if with_ids else None
        calls.append(digest(function.get("name"), _settle(function.get("arguments")), id))
    return calls


def _settle(value: Any) -> Any:
    """Equal values alike: 1.0 is 1, but true is not; keys have no order."""
    match value:
        case dict():
            return {key: _settle(value[key]) for key in sorted(value, key=str)}
        case list():
            return [_settle(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


@dataclass(frozen=True)
class History:
    """A conversation, and which of its turns are kept.

    Args:
        key: names the conversation.
        messages: in normal form; turns that are kept have their reasoning again.
        turns: what was generated, by the place of the message.
    """

    key: bytes
    messages: Sequence[dict[str, Any]]
    turns: Mapping[int, Decoded] = field(default_factory=dict[int, Decoded])

    @cached_property
    def thoughts(self) -> dict[int, str]:
        """The reasoning of assistant messages that have one, by place."""
        told = {n: _strip(read_thought(m)) for n, m in enumerate(self.messages)}
        return {n: text for n, text in told.items() if text}


class DecodedTurns:
    """The turns that one model has generated; the ones not used for the longest time go first.

    Args:
        most: tokens, those of the prompts included.
        with_ids: see `Decoded.is_told_by`.
    """

    def __init__(self, most: int = MOST_TOKENS, *, with_ids: bool = False):
        self._most = most
        self._with_ids = with_ids
        self._size = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, bytes], Decoded] = OrderedDict()
        self._of: dict[bytes, list[bytes]] = {}

    def recall(self, key: bytes, messages: Sequence[dict[str, Any]]) -> History:
        """Finds the turns of a conversation.

        Args:
            key: names what else the prompt depends on: the tools, and variables of the template.
            messages: in normal form; not changed.
        """
        turns = dict[int, Decoded]()
        written = list[dict[str, Any]]()
        for place, message in enumerate(messages):
            turn = self._find(key, message) if message["role"] == "assistant" else None
            if turn is None:
                key = digest(key, message)
                written.append(message)
                continue
            turns[place] = turn
            key = digest(key, turn.name)
            written.append(_restore(message, turn))
        return History(key, written, turns)

    def _find(self, key: bytes, message: Mapping[str, Any]) -> Decoded | None:
        with self._lock:
            for name in reversed(self._of.get(key, ())):
                turn = self._kept[key, name]
                if turn.is_told_by(message, with_ids=self._with_ids):
                    self._kept.move_to_end((key, name))
                    return turn
        return None

    def keep(self, key: bytes, turn: Decoded) -> None:
        """Keeps what came of the conversation of this key."""
        with self._lock:
            if (key, turn.name) in self._kept or turn.size > self._most:
                return
            self._kept[key, turn.name] = turn
            self._of.setdefault(key, []).append(turn.name)
            self._size += turn.size
            while self._size > self._most:
                (old, name), gone = self._kept.popitem(last=False)
                self._size -= gone.size
                self._of[old].remove(name)
                if not self._of[old]:
                    del self._of[old]


def _restore(message: dict[str, Any], turn: Decoded) -> dict[str, Any]:
    if read_thought(message) or not turn.reasoning:
        return message
    return message | {"reasoning_content": read_thought(turn.message)}
