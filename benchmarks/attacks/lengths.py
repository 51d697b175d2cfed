"""Requests whose work or memory would grow faster than their length: with its square, or with the
product of two lengths."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, Body, ask_for_call
from benchmarks.attacks.bodies import HELLO, MESSAGES
from benchmarks.attacks.schemas import HASHED
from grammars.schema.json_values import JsonObject

LONG = 400_000


def _object(**properties: Any) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _list_keys(count: int) -> JsonObject:
    return _object(**{f"p{number}": {"type": "string"} for number in range(count)})


def _list_patterns() -> Iterator[tuple[str, str]]:
    yield "open sets", "[" * LONG
    yield "open categories in a comment", "(?x)#" + r"\p{" * (LONG // 3)
    yield "open groups", "(?<" * (LONG // 3)
    yield "a count of 5,000 digits", "a{" + "9" * 5_000 + "}"
    yield "a character beyond Unicode", r"\u{FFFFFFFFFFFF}"


def _list_names() -> Iterator[tuple[str, JsonObject]]:
    yield "a key around 3,000 keys", _object(**{"a" * LONG: _list_keys(3_000)})
    anchors = {f"d{number}": {"$anchor": f"a{number}"} for number in range(10_000)}
    # Of unused definitions nothing is read, so one refers to the others.
    users = {f"p{number}": {"$ref": f"#a{number}"} for number in range(3_000)}
    anchored = {"$id": f"http://x/{'a' * LONG}", "$defs": anchors, **_object(**users)}
    yield "an id of 10,000 anchors", anchored
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(5_000)}
    users = {f"p{number}": {"$ref": f"#/$defs/d{number}"} for number in range(5_000)}
    chained = {"$defs": {**chain, "d5000": {"type": "null"}}, **_object(**users)}
    yield "5,000 uses of a chain of references", chained


def _list_values() -> Iterator[tuple[str, JsonObject]]:
    integers = [HASHED * number for number in range(15_000)]
    twice = {"allOf": [{"enum": integers}, {"enum": integers[::-1]}]}
    yield "integers of one hash, twice", _object(a=twice)
    patterns = {f"^q{number}": {"type": "null"} for number in range(4_000)}
    yield "4,000 keys and patterns", {**_list_keys(4_000), "patternProperties": patterns}


def _search(description: str) -> Body:
    tool = {"description": description, "input_schema": {"type": "object"}, "defer_loading": True}
    search = {"type": "tool_search_tool_bm25_20251119", "name": "search"}
    return {"messages": HELLO, "max_tokens": 4, "tools": [search, {**tool, "name": "f"}]}


def _list_all() -> Iterator[Attack]:
    for name, pattern in _list_patterns():
        schema = _object(a={"type": "string", "pattern": pattern})
        yield Attack(f"lengths: a pattern of {name}", partial(ask_for_call, schema))
    for name, schema in (*_list_names(), *_list_values()):
        yield Attack(f"lengths: {name}", partial(ask_for_call, schema))
    for name, description in (
        ("a word of 900 kB", "a" * 900_000),
        ("marks that are not in order", "\u05b0\u0591" * 80_000),
    ):
        yield Attack(f"lengths: a search in {name}", partial(_search, description), path=MESSAGES)


LENGTHS = tuple(_list_all())
