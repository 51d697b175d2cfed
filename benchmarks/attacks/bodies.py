"""Bodies of requests that are long: lists that are wrong in each item, and lists that are right."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.attacks.attack import REFUSED, Attack, Body

MIB = 1 << 20
HASHED = 2**61 - 1
"""Python hashes an integer modulo this number."""
HELLO = [{"role": "user", "content": "hello"}]


@dataclass(frozen=True)
class _Dialect:
    """The fields of a dialect.

    Args:
        path: of its requests.
        messages: the field of the conversation.
        required: the fields that every request has, beside the conversation.
        has_tools: whether it knows tools.
    """

    path: str
    messages: str
    required: Mapping[str, Any]
    has_tools: bool = True


CHAT = _Dialect("/v1/chat/completions", "messages", {"max_tokens": 4})
DIALECTS = {
    "Chat": CHAT,
    "Messages": _Dialect("/v1/messages", "messages", {"max_tokens": 4}),
    "count_tokens": _Dialect("/v1/messages/count_tokens", "messages", {}),
    "Responses": _Dialect("/v1/responses", "input", {"max_output_tokens": 4}),
    "Completions": _Dialect("/v1/completions", "prompt", {"max_tokens": 4}, has_tools=False),
    "detokenize": _Dialect("/detokenize", "tokens", {}, has_tools=False),
    "apply-template": _Dialect("/apply-template", "messages", {}),
}


def repeat(item: Any, size: int) -> list[Any]:
    """A list of the same small item that has about so many bytes as JSON."""
    return [item] * (size // len(json.dumps([item, ""])[1:-3]))


def fill(dialect: _Dialect, field: str, value: Any) -> Body:
    """A request that is right but for one field."""
    return {**dialect.required, dialect.messages: HELLO, field: value}


def send_parts(size: int) -> Body:
    """One message whose content is very many parts."""
    part = {"type": "text", "text": "a"}
    parts = [part] * (size // 31)
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 4}


def send_messages(count: int, item: Mapping[str, Any]) -> Body:
    """Very many messages."""
    return {"messages": [item] * count, "max_tokens": 4}


def nest(text: str, depth: int) -> Any:
    """A list that ends with a list that ends with a list, and so on; the innermost has a text."""
    value: Any = text
    for _ in range(depth):
        value = [1, value]
    return value


def _list_wrong_lists() -> Iterator[Attack]:
    for name, dialect in DIALECTS.items():
        for mib in (1, 3):
            # Where a list of numbers is right, texts among them are not.
            item = "a" if dialect.messages in ("tokens", "prompt") else 1
            items = partial(repeat, item, mib * MIB)
            yield Attack(
                f"{name}: {mib} MB of wrong messages",
                partial(_fill_later, dialect, dialect.messages, items),
                path=dialect.path,
                statuses=REFUSED,
                is_variant=dialect is not CHAT,
            )
            if not dialect.has_tools:
                continue
            yield Attack(
                f"{name}: {mib} MB of wrong tools",
                partial(_fill_later, dialect, "tools", items),
                path=dialect.path,
                statuses=REFUSED,
                is_variant=mib != 1 or dialect is not CHAT,
            )


def _fill_later(dialect: _Dialect, field: str, make: Any) -> Body:
    return fill(dialect, field, make())


def _list_long_lists() -> Iterator[Attack]:
    yield Attack("3 MB of content parts", partial(send_parts, 3 * MIB), statuses=REFUSED)
    hello = HELLO[0]
    yield Attack("60,000 messages", partial(send_messages, 60_000, hello), statuses=REFUSED)
    yield Attack("9,000 messages", partial(send_messages, 9_000, hello))
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [called] * 30_000}
    calls = partial(send_messages, 1, turn)
    yield Attack("30,000 calls in a message", calls, statuses=REFUSED)
    for name, arguments in (
        ("nested 100,000 deep", "[" * 100_000),
        ("of 1,000,000 lists", '{"a": [' + "[]," * 1_000_000 + "[]]}"),
        ("with a number of 100,000 digits", '{"a": ' + "9" * 100_000 + "}"),
    ):
        function = {"name": "f", "arguments": arguments}
        nested = {"role": "assistant", "tool_calls": [{**called, "function": function}]}
        yield Attack(f"arguments {name}", partial(send_messages, 1, nested), statuses=(200, 400))
    numbers = partial(repeat, 1, 3 * MIB)
    yield Attack(
        "kwargs with a list of 3 MB",
        lambda: fill(CHAT, "chat_template_kwargs", {"x": numbers()}),
        statuses=REFUSED,
    )
    yield Attack(
        "kwargs of 900 kB in each other",
        lambda: fill(CHAT, "chat_template_kwargs", {"x": [{"a": [1]}] * 90_000}),
        statuses=REFUSED,
    )
    nested = partial(nest, "A" * 131_500, 500)
    yield Attack(
        "lists that are nested 500 deep in front of long texts, 4 MB",
        lambda: fill(CHAT, "metadata", {"x": [nested()] * 28}),
        statuses=(200, 400),
    )
    for name, unit, count in (("words", "word ", 3 * MIB // 5), ("escapes", "\n", 2_000_000)):
        content = partial(str.__mul__, unit, count)
        yield Attack(
            f"a text of {name}, as long as a body may be",
            lambda content=content: send_messages(1, {"role": "user", "content": content()}),
        )
    yield Attack(
        "a body that is too long",
        lambda: send_messages(1, {"role": "user", "content": "word " * MIB}),
        statuses=(413,),
    )
    # What one call of json takes longest for.
    for name, value, count in (
        ("numbers of 4,300 digits", 10**4299, 900),
        ("small fractions", 2.2250738585072011e-308, 160_000),
        ("objects of a name", {"a": 0}, 60_000),
    ):
        yield Attack(
            f"4 MB of {name}",
            partial(_fill_later, CHAT, "x", partial(list.__mul__, [value], count)),
        )
    yield Attack(
        "100,000 stop texts",
        lambda: fill(CHAT, "stop", [f"{i}" for i in range(100_000)]),
        statuses=REFUSED,
    )
    yield Attack(
        "100,000 wrong biases",
        lambda: fill(CHAT, "logit_bias", {f"{i}": "x" for i in range(100_000)}),
        statuses=REFUSED,
    )
    yield Attack(
        "a bias for a text of 2 MB",
        lambda: fill(CHAT, "logit_bias", {"word " * (MIB // 2): 1}),
        statuses=REFUSED,
    )
    yield Attack(
        "biases for 80,000 words",
        lambda: fill(CHAT, "logit_bias", [[f"word{i}", 1] for i in range(80_000)]),
        statuses=REFUSED,
    )
    yield Attack(
        "biases for 80,000 ids that have one hash",
        lambda: fill(CHAT, "logit_bias", [[number * HASHED + 9, 1] for number in range(80_000)]),
        statuses=REFUSED,
    )
    yield Attack(
        "200,000 unknown fields",
        lambda: {**fill(CHAT, "n", 1), **{f"x{i}": 1 for i in range(200_000)}},
        statuses=REFUSED,
    )
    yield Attack(
        "objects in a list, 4 MB",
        lambda: fill(CHAT, "metadata", {"x": [{}] * 1_000_000}),
        statuses=REFUSED,
    )


BODIES = (*_list_wrong_lists(), *_list_long_lists())
