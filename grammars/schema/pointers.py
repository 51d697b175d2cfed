"""JSON pointers (RFC 6901): how errors and reports name a place in a JSON value."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

_INDEX = re.compile("0|[1-9][0-9]{0,8}")  # no document has lists with more items


def escape(key: str) -> str:
    """Escapes a key for a JSON pointer (RFC 6901, section 4)."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """Returns the key that is escaped so in a JSON pointer."""
    return step.replace("~1", "/").replace("~0", "~")


def point_to(steps: Iterable[str | int]) -> str:
    """Returns the JSON pointer of these keys and list indexes."""
    return "".join(f"/{escape(str(step))}" for step in steps)


def split_pointer(pointer: str) -> list[str]:
    """Returns the keys and list indexes of a JSON pointer, as text."""
    return [unescape(step) for step in pointer.split("/")[1:]]


def find_member(holder: Any, key: str, default: Any = None) -> Any:
    """Returns the member with this key, or the list item with this index; else `default`."""
    if isinstance(holder, Mapping):
        members = cast(Mapping[str, Any], holder)
        return members.get(key, default)
    if isinstance(holder, list) and _INDEX.fullmatch(key):
        items = cast(list[Any], holder)
        return items[int(key)] if int(key) < len(items) else default
    return default


def find_value(root: Any, pointer: str) -> Any:
    """Returns what a JSON pointer points to; None if there is nothing."""
    for step in split_pointer(pointer):
        root = find_member(root, step)
    return root
