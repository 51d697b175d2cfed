"""Caches generated turns as tokens, to reuse them when a conversation brings one back. A client
drops reasoning and spells arguments in another way, and the template has its own form: tokenised
again, the turn would be new to the KV cache. A turn is found by all that came before it (tools,
messages, cached turns) and by its visible text. An edited turn is never found, nor is a turn after
another history."""

import hashlib
import json
import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Protocol

from constrained.prompt.messages import (
    REASONING_NAMES,
    join_text_parts,
    read_reasoning,
)
from grammars.limits.byte_cache import CacheLimit, CacheSize, measure_bytes
from grammars.limits.packed_json import hash_json
from grammars.wire.format import CallId, CallIndex, Format, JsonCall

MAX_TOKENS = 4_000_000  # 16 MB
TOKEN_BYTES = 4
OVERHEAD = 512  # tokens: the room that a turn takes, besides its own
MAX_PATHS = 8  # ways to match a conversation, if several cached turns have the same text
VISIBLE = {"role", "content", "tool_calls", *REASONING_NAMES}


def digest(*parts: object) -> bytes:
    """Hashes JSON data. The order of keys counts, since the prompt depends on it."""
    key = hash_json(parts)
    if key is not None:
        return key
    try:
        data = json.dumps(parts, default=repr).encode()
    except (TypeError, ValueError, RecursionError):  # not JSON; rendering it raises the error
        return os.urandom(16)
    return hashlib.blake2b(data, digest_size=16).digest()


def writes_ids(format: Format) -> bool:
    for node in format.call:
        if isinstance(node, JsonCall):
            node = node.id
        if isinstance(node, CallId) or (isinstance(node, CallIndex) and node.id):
            return True
    return False


@dataclass(frozen=True)
class CachedTurn:
    """An assistant turn, and the prompt that it answered.

    Args:
        before: the last cached turn in the prompt; None: the prompt has none.
        added: token ids of the prompt after that turn.
        tokens: the generated token ids, without the end of the turn.
        shown_reasoning: indexes of the earlier messages whose reasoning is in the prompt.
        key: the key in the cache of what the turn answered; b"": the turn is not cached.
    """

    before: "CachedTurn | None"
    added: "array[int]"
    tokens: "array[int]"
    message: Mapping[str, Any]
    shown_reasoning: frozenset[int] = frozenset()
    key: bytes = b""

    @cached_property
    def size(self) -> int:
        message = measure_bytes(self.message) // TOKEN_BYTES
        return len(self.added) + len(self.tokens) + OVERHEAD + message

    @property
    def all_tokens(self) -> tuple[int, ...]:
        parts, turn = list["array[int]"](), self
        while turn is not None:
            parts += [turn.tokens, turn.added]
            turn = turn.before
        return tuple(chain.from_iterable(reversed(parts)))

    @property
    def reasoning(self) -> str:
        return _strip(read_reasoning(self.message))

    @cached_property
    def name(self) -> bytes:
        return hashlib.blake2b(self.tokens.tobytes(), digest_size=16).digest()

    @cached_property
    def _content(self) -> tuple[Any, list[bytes], list[bytes]]:
        message = self.message
        return _read_text(message), _read_calls(message, True), _read_calls(message, False)

    def has_same_content(self, message: Mapping[str, Any], *, with_ids: bool) -> bool:
        """Returns whether a message has the content of this turn. White space around texts and the
        spelling of arguments do not matter; reasoning may be missing."""
        for name in REASONING_NAMES:
            if _strip(message.get(name)) not in ("", self.reasoning):
                return False
        for key, value in message.items():
            if value and key not in VISIBLE:
                return False
        text, named, calls = self._content
        if with_ids:
            calls = named
        try:
            return _read_text(message) == text and _read_calls(message, with_ids) == calls
        except RecursionError:
            return False


def _strip(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


def _read_text(message: Mapping[str, Any]) -> Any:
    content: Any = join_text_parts(message.get("content") or "")
    if isinstance(content, str):
        return content.strip()
    return content


def _read_calls(message: Mapping[str, Any], with_ids: bool) -> list[bytes]:
    calls = list[bytes]()
    for call in message.get("tool_calls") or ():
        match call:
            case {"function": Mapping() as function}:
                id = None
                if with_ids:
                    id = call.get("id")
                arguments = _normalise_value(function.get("arguments"))
                calls.append(digest(function.get("name"), arguments, id))
            case _:
                calls.append(digest("?", call))
    return calls


def _normalise_value(value: Any) -> Any:
    """Returns the same for equal values: 1.0 is 1, but true is not; keys have no order."""
    match value:
        case dict():
            return {key: _normalise_value(value[key]) for key in sorted(value, key=str)}
        case list():
            return [_normalise_value(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


@dataclass(frozen=True)
class History:
    """A conversation, and which of its turns are kept.

    Args:
        messages: in normal form; turns that are kept have their reasoning again.
        turns: the generated turns, by the index of the message.
    """

    key: bytes
    messages: Sequence[dict[str, Any]]
    turns: Mapping[int, CachedTurn] = field(default_factory=dict[int, CachedTurn])

    @cached_property
    def reasoning(self) -> dict[int, str]:
        texts: dict[int, str] = {}
        for index, message in enumerate(self.messages):
            text = _strip(read_reasoning(message))
            if text:
                texts[index] = text
        return texts


TurnKey = tuple[bytes, bytes]  # what a turn answered, and its name


class TurnStore(Protocol):
    """Turns that several processes share, found without the turn before them, but with its key.
    For several threads."""

    def find(self, key: bytes) -> Iterable[tuple[CachedTurn, TurnKey | None]]: ...

    def keep(self, key: bytes, turn: CachedTurn) -> None: ...


@dataclass(frozen=True)
class _Path:
    """A way to read a conversation: the hash of the part read so far, and the turns in it."""

    key: bytes
    turns: dict[int, CachedTurn] = field(default_factory=dict[int, CachedTurn])
    followed: tuple[TurnKey, ...] = ()

    def follow(self, number: int, turn: CachedTurn) -> "_Path":
        followed = (*self.followed, (self.key, turn.name))
        return _Path(digest(self.key, turn.name), {**self.turns, number: turn}, followed)


class TurnCache:
    """The turns that one model has generated; the ones not used for the longest time go first.

    Attributes:
        shared: a store with the turns of other processes; None: there is none.
    """

    shared: TurnStore | None = None

    def __init__(self, max_tokens: int = MAX_TOKENS, *, with_ids: bool = False):
        self._limit = CacheLimit(TOKEN_BYTES * max_tokens)
        self._with_ids = with_ids
        self._size = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[TurnKey, CachedTurn] = OrderedDict()
        self._of: dict[bytes, dict[bytes, CachedTurn]] = {}

    @property
    def size(self) -> CacheSize:
        return CacheSize(len(self._kept), TOKEN_BYTES * self._size)

    def recall(self, key: bytes, messages: Sequence[dict[str, Any]]) -> History:
        """Finds the cached turns of a conversation. If several have the same text, it chooses those
        that most of the later turns follow."""
        paths = [_Path(key)]
        for number, message in enumerate(messages):
            longer = list[_Path]()
            for path in paths:
                found = list[CachedTurn]()
                if message["role"] == "assistant":
                    found = self._find(path.key, message)
                for turn in found:
                    longer.append(path.follow(number, turn))
                if not found:
                    longer.append(replace(path, key=digest(path.key, message)))
            longer.sort(key=lambda path: -len(path.turns))
            paths = longer[:MAX_PATHS]
        best = paths[0]
        self._touch(best.followed)
        restored = [*messages]
        for number, turn in best.turns.items():
            if turn.reasoning and not read_reasoning(messages[number]):
                reasoning = read_reasoning(turn.message)
                restored[number] = messages[number] | {"reasoning_content": reasoning}
        return History(best.key, restored, best.turns)

    def _find(self, key: bytes, message: Mapping[str, Any]) -> list[CachedTurn]:
        with self._lock:
            known = [*self._of.get(key, {}).values()]
        found = self._choose(known, message)
        if not found and self.shared is not None:
            others = [self._take_over(key, *shared) for shared in self.shared.find(key)]
            found = self._choose([turn for turn in others if turn is not None], message)
        return found[:MAX_PATHS]

    def _choose(self, turns: Sequence[CachedTurn], message: Mapping[str, Any]) -> list[CachedTurn]:
        found = list[CachedTurn]()
        for turn in reversed(turns):
            if turn.has_same_content(message, with_ids=self._with_ids):
                found.append(turn)
        return found

    def _take_over(self, key: bytes, turn: CachedTurn, before: TurnKey | None) -> CachedTurn | None:
        """Returns a turn of another process; None if the one before it is not there any more. A
        conversation is read from its start, so these are in memory, unless that is short."""
        if before is None:
            return self._put(key, turn)
        with self._lock:
            known = self._kept.get(before)
        return None if known is None else self._put(key, replace(turn, before=known))

    def _touch(self, keys: Sequence[TurnKey]) -> None:
        """Notes that these turns were used. The first one counts as the latest: without it, the
        others cannot be found."""
        with self._lock:
            for key in reversed(keys):
                if key in self._kept:
                    self._kept.move_to_end(key)

    def keep(self, key: bytes, turn: CachedTurn) -> None:
        turn = self._put(key, turn)
        if self.shared is not None:
            self.shared.keep(key, turn)

    def _put(self, key: bytes, turn: CachedTurn) -> CachedTurn:
        turn = replace(turn, key=key)
        with self._lock:
            self._drop((key, turn.name))
            max_tokens = self._limit.bytes // TOKEN_BYTES
            if turn.size > max_tokens:
                return turn
            self._kept[key, turn.name] = turn
            self._of.setdefault(key, {})[turn.name] = turn
            self._size += turn.size
            while self._size > max_tokens:
                self._drop(next(iter(self._kept)))
        return turn

    def _drop(self, turn_key: TurnKey) -> None:
        turn = self._kept.pop(turn_key, None)
        if turn is None:
            return
        key, name = turn_key
        self._size -= turn.size
        del self._of[key][name]
        if not self._of[key]:
            del self._of[key]
