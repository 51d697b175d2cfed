"""Bodies of requests that are long: lists that are wrong in each item, lists that are right, and
texts of megabytes that an answer could repeat."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, Body
from benchmarks.attacks.schemas import HASHED

MIB = 1 << 20
HELLO = [{"role": "user", "content": "hello"}]
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
LISTS = {  # the fields of conversations and tools, by path
    "/v1/chat/completions": ("messages", "tools"),
    MESSAGES: ("messages", "tools"),
    RESPONSES: ("input", "tools"),
}


def chat(**fields: Any) -> Body:
    """A request of Chat Completions that is right but for these fields."""
    return {"messages": HELLO, "max_tokens": 4, **fields}


def respond(**fields: Any) -> Body:
    """A request of Responses that is right but for these fields."""
    return {"input": HELLO, "max_output_tokens": 4, **fields}


def write_long(size: int = 3 * MIB) -> str:
    """A text of so many bytes as JSON in ASCII."""
    return "\N{GRINNING FACE}" * (size // 12)


def repeat(item: Any, size: int) -> list[Any]:
    """A list of the same small item that has about so many bytes as JSON."""
    return [item] * (size // len(json.dumps([item, ""])[1:-3]))


def _list_wrong_lists() -> Iterator[Attack]:
    for path, names in LISTS.items():
        for name in names:
            body = {"max_tokens": 4, "messages": HELLO, name: repeat(1, 3 * MIB)}
            yield Attack(f"{path}: 3 MB of wrong {name}", partial(dict, body), path=path)


def _list_long_lists() -> Iterator[Attack]:
    part = {"type": "text", "text": "a"}
    parts = [{"role": "user", "content": repeat(part, 3 * MIB)}]
    yield Attack("3 MB of content parts", partial(chat, messages=parts))
    yield Attack("60,000 messages", partial(chat, messages=HELLO * 60_000))
    yield Attack("9,000 messages", partial(chat, messages=HELLO * 9_000))
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = {"role": "assistant", "content": "", "tool_calls": [called] * 30_000}
    yield Attack("30,000 calls in a message", partial(chat, messages=[turn]))
    for name, arguments in (
        ("nested 100,000 deep", "[" * 100_000),
        ("of 1,000,000 lists", '{"a": [' + "[]," * 1_000_000 + "[]]}"),
    ):
        function = {"name": "f", "arguments": arguments}
        nested = {"role": "assistant", "tool_calls": [{**called, "function": function}]}
        yield Attack(f"arguments {name}", partial(chat, messages=[nested]))
    values = {"x": [{"a": [1]}] * 90_000}
    yield Attack("kwargs of 900 kB in each other", partial(chat, chat_template_kwargs=values))
    # What one call of json takes longest for.
    digits = [10**4299] * 900
    yield Attack("4 MB of numbers of 4,300 digits", partial(chat, x=digits))
    yield Attack("objects in a list, 4 MB", partial(chat, metadata={"x": [{}] * 1_000_000}))
    stops = [f"{i}" for i in range(100_000)]
    yield Attack("100,000 stop texts", partial(chat, stop=stops))
    hashed = [[number * HASHED + 9, 1] for number in range(80_000)]
    yield Attack("biases for 80,000 ids of one hash", partial(chat, logit_bias=hashed))
    yield Attack("a bias for a text of 2 MB", partial(chat, logit_bias={"word " * (MIB // 2): 1}))
    unknown = {f"x{i}": 1 for i in range(200_000)}
    yield Attack("200,000 unknown fields", lambda: chat(**unknown))


def _say(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


def _list_long_texts() -> Iterator[Attack]:
    """What a client sends and gets back: in errors, in notes, in what a response repeats."""
    for name, unit, count in (("words", "word ", 3 * MIB // 5), ("escapes", "\n", 2_000_000)):
        content = partial(str.__mul__, unit, count)
        yield Attack(
            f"a text of {name}, as long as a body may be",
            lambda content=content: chat(messages=_say(content())),
        )
    yield Attack("a body that is too long", lambda: chat(messages=_say("word " * MIB)))
    role = {"role": write_long(), "content": "a"}
    yield Attack("a role of 3 MB", partial(chat, messages=[role]))
    named = {"type": "function", "function": {"name": write_long(), "parameters": {}}}
    yield Attack("a tool named by 3 MB", partial(chat, tools=[named]))
    metadata = {"a": write_long()}
    echoed = partial(respond, metadata=metadata, stream=True)
    yield Attack("metadata of 3 MB in a stream", echoed, path=RESPONSES)
    many = {"logprobs": True, "top_logprobs": 20, "max_tokens": 200, "ignore_eos": True}
    yield Attack("log probabilities of 16 replies", lambda: chat(n=16, **many))


BODIES = (*_list_wrong_lists(), *_list_long_lists(), *_list_long_texts())
