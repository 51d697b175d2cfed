"""Requests whose work or memory would grow faster than their length: with its square, or with the
product of two lengths."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, ask_for_call
from benchmarks.attacks.bodies import HELLO

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
LONG = 400_000
COLLIDING = 2**61 - 1
"""Python's hash of an integer is the rest after a division by this number."""
Json = dict[str, Any]


def _object(**properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _list_keys(count: int) -> Json:
    return _object(**{f"p{number}": {"type": "string"} for number in range(count)})


def _call(name: str, schema: Json, *, is_slow: bool = False) -> Attack:
    statuses = (200, 400, 422)
    make = partial(ask_for_call, schema)
    return Attack(f"lengths: {name}", make, statuses=statuses, is_variant=is_slow)


def _list_patterns() -> Iterator[Attack]:
    for name, pattern in (
        ("open sets", "[" * LONG),
        ("open sets before a backslash", "[" * LONG + "\\"),
        ("open sets of letters", "^" + "[a" * (LONG // 2)),
        ("open categories in a comment", "(?x)#" + r"\p{" * (LONG // 3)),
        ("open groups", "(?<" * (LONG // 3)),
        ("open counts", "a{" * (LONG // 2)),
        ("closed slashes", "/^" + "$/g" * (LONG // 3)),
        ("nothing but alternatives", "|" * LONG),
        ("a count of 5,000 digits", "a{" + "9" * 5_000 + "}"),
        ("a character beyond Unicode", r"\u{FFFFFFFFFFFF}"),
    ):
        is_slow = name not in ("a count of 5,000 digits", "a character beyond Unicode")
        schema = _object(a={"type": "string", "pattern": pattern})
        yield _call(f"a pattern of {name}", schema, is_slow=is_slow)


def _list_names() -> Iterator[Attack]:
    long = "a" * LONG
    inner = _list_keys(3_000)
    yield _call("a key around 3,000 keys", _object(**{long: inner}))
    defined = {"$defs": {long: inner}, **_object(a={"$ref": f"#/$defs/{long}"})}
    yield _call("a definition of 3,000 keys", defined, is_slow=True)
    anchors = {f"d{number}": {"$anchor": f"a{number}"} for number in range(10_000)}
    anchored = {"$id": f"http://x/{long}", "$defs": anchors, **_object(a={"$ref": "#a1"})}
    # Of unused definitions nothing is read, so one refers to the others.
    users = {f"p{number}": {"$ref": f"#a{number}"} for number in range(3_000)}
    yield _call("an id of 10,000 anchors", anchored | {"properties": users}, is_slow=True)
    folders = {"$id": "http://x/" + "a/" * (LONG // 2)}
    ids = {f"d{number}": {"$id": f"a{number}"} for number in range(3_000)}
    named = {f"p{number}": {"$ref": f"a{number}"} for number in range(3_000)}
    yield _call("3,000 ids in folders", {**folders, "$defs": ids, "properties": named})
    for name, reference in (
        ("escapes", "%7E1" * (LONG // 4)),
        ("tildes", "~" * LONG),
        ("slashes", "/" * LONG),
        ("marks", "\u0300\u0316" * (LONG // 20)),
    ):
        yield _call(f"a pointer of {name}", _object(a={"$ref": f"#/{reference}"}), is_slow=True)
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(5_000)}
    users = {f"p{number}": {"$ref": f"#/$defs/d{number}"} for number in range(5_000)}
    chained = {"$defs": {**chain, "d5000": {"type": "null"}}, **_object(**users)}
    yield _call("5,000 uses of a chain of references", chained, is_slow=True)
    host = _object(a={"$id": "http://" + "\u0300\u0316" * (LONG // 20)})
    yield _call("an id whose host is marks", host, is_slow=True)
    yield _call("an id that is no URI", _object(a={"$id": "http://[", "$ref": "http://["}))


def _list_values() -> Iterator[Attack]:
    integers = [COLLIDING * number for number in range(15_000)]
    yield _call("integers of one hash", _object(a={"enum": integers}), is_slow=True)
    twice = {"allOf": [{"enum": integers}, {"enum": integers[::-1]}]}
    yield _call("integers of one hash, twice", _object(a=twice), is_slow=True)
    objects = [{"a": number} for number in range(20_000)]
    yield _call("objects, twice", _object(a={"allOf": [{"enum": objects}] * 2}), is_slow=True)
    lists = {"anyOf": [{"enum": [[n]]} for n in range(5_000)]}
    yield _call("5,000 lists of one item", _object(a=lists), is_slow=True)
    prefixes = ["a" * length for length in range(1_300)]
    yield _call("texts that begin each other", _object(a={"enum": prefixes}), is_slow=True)
    required = {**_list_keys(7_000), "required": [f"p{n}" for n in reversed(range(7_000))]}
    yield _call("7,000 keys, required from the last", required, is_slow=True)
    patterns = {f"^q{number}": {"type": "null"} for number in range(4_000)}
    yield _call(
        "4,000 keys and patterns",
        {**_list_keys(4_000), "patternProperties": patterns},
        is_slow=True,
    )
    first = {"type": "array", "prefixItems": [{"const": "a"}] * 7_000, "minItems": 7_000}
    yield _call("7,000 first items", _object(a={**first, "items": False}), is_slow=True)
    yield _call("200,000 types", _object(a={"type": ["string"] * 60_000}), is_slow=True)


def _inspect(template: str, **fields: Any) -> Attack:
    name = fields.pop("name")
    body = {"template": template, "messages": HELLO, **fields}
    path = "/playground/inspect"
    return Attack(f"lengths: {name}", partial(dict, body), path=path, is_variant=True)


def _list_templates() -> Iterator[Attack]:
    """Templates whose operations compare each character of a text with each one of another."""
    large = "('a' * 2000000)"
    other = "('ab' ~ 'a' * 1000000)"
    for method in ("rfind", "rindex", "rsplit", "rpartition", "strip", "lstrip", "rstrip"):
        yield _inspect(f"{{{{ {large}.{method}({other}) }}}}", name=f"{method} of a long text")
    yield _inspect("{{ ('%(' * 900000) % {} }}", name="names in a format that nothing closes")
    same = f"range(0, {COLLIDING} * 90000, {COLLIDING})"
    yield _inspect(f"{{{{ {same}|unique|list|length }}}}", name="a set of integers of one hash")
    keys = f"{{% set _ = d.setdefault(i * {COLLIDING}, 1) %}}"
    loop = f"{{% set d = {{}} %}}{{% for i in range(60000) %}}{keys}{{% endfor %}}"
    yield _inspect(loop, name="keys that are integers of one hash")
    yield _inspect("{{ ('\u00e9' * 900000).encode('punycode') }}", name="a text as a domain name")
    yield _inspect("{{ ('ab ' * 4000000)|title|length }}", name="a title of 4,000,000 words")
    # A header of a call is read as a word between others.
    calls = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}" + "a" * 9_000
    calls += "{\n{{ c.function|tojson }}{% endfor %}\n{% endfor %}"
    tools = [{"name": "ping", "input_schema": {"type": "object", "properties": {}}}]
    yield _inspect(calls, tools=tools, text="a", name="a header of 9,000 letters")


def _list_choices() -> Iterator[Attack]:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    allowed = [{"type": "function", "function": {"name": "f"}}] * 15_000
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": allowed}}
    body = {"messages": HELLO, "max_tokens": 4, "tools": [tool], "tool_choice": choice}
    yield Attack("lengths: 15,000 allowed tools", partial(dict, body), is_variant=True)
    names = ["a" * length for length in range(1, 65)] + [f"a{n}" for n in range(900)]
    tools = [{"type": "function", "function": {**tool["function"], "name": n}} for n in names]
    body = {"messages": HELLO, "max_tokens": 4, "tools": tools, "tool_choice": "required"}
    yield Attack("lengths: 964 tools that begin each other", partial(dict, body), is_variant=True)
    calls: list[Json] = []
    results: list[Json] = []
    for number in range(4_000):
        called = {"name": "f", "arguments": "{}"}
        calls.append({"id": f"call_{number}", "type": "function", "function": called})
        results.append({"role": "tool", "tool_call_id": f"call_{3_999 - number}", "content": "a"})
    said = [*HELLO, {"role": "assistant", "tool_calls": calls}, *results]
    body = {"messages": said, "max_tokens": 4, "tools": [tool]}
    yield Attack("lengths: 4,000 results from the last", partial(dict, body), is_variant=True)


LENGTHS = (
    *_list_patterns(),
    *_list_names(),
    *_list_values(),
    *_list_templates(),
    *_list_choices(),
)
