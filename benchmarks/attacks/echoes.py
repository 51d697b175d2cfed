"""What a client sends and gets back: in errors, in notes, in what a response repeats."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.attacks.attack import REFUSED, Attack, Body
from benchmarks.attacks.bodies import HELLO, MIB

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
FACE = "\N{GRINNING FACE}"
Json = dict[str, Any]


def write_long(size: int = 3 * MIB) -> str:
    """A text of so many bytes as JSON in ASCII."""
    return FACE * (size // 12)


def _chat(**fields: Any) -> Body:
    return {"messages": HELLO, "max_tokens": 4, **fields}


def _respond(**fields: Any) -> Body:
    return {"input": HELLO, "max_output_tokens": 4, **fields}


def _list_errors() -> Iterator[Attack]:
    refuse = partial(Attack, statuses=REFUSED)
    yield refuse("a part of a type of 3 MB", lambda: _chat(messages=[_say([{"type": _long()}])]))
    yield refuse("a role of 3 MB", lambda: _chat(messages=[{"role": _long(), "content": "a"}]))
    named = {"type": "function", "function": {}}
    yield refuse(
        "a choice of a tool of 3 MB",
        lambda: _chat(tool_choice={**named, "function": {"name": _long()}}),
    )
    yield refuse("a tool named by 3 MB", lambda: _chat(tools=[_name_tool(_long())]))
    yield refuse(
        "a format of 3 MB", lambda: {"messages": HELLO, "format": _long()}, path="/api/chat"
    )
    yield refuse(
        "an earlier response of 3 MB",
        lambda: _respond(previous_response_id=_long()),
        path=RESPONSES,
    )
    yield refuse("an item of 3 MB", lambda: _respond(input=[{"type": _long()}]), path=RESPONSES)
    batch = {"endpoint": CHAT, "completion_window": "24h"}
    yield Attack(
        "a batch of a file of 3 MB",
        lambda: {**batch, "input_file_id": _long()},
        path="/v1/batches",
        statuses=(404,),
    )
    yield refuse(
        "a batch at an endpoint of 3 MB",
        lambda: {**batch, "input_file_id": "x", "endpoint": _long()},
        path="/v1/batches",
    )


def _list_notes() -> Iterator[Attack]:
    yield Attack(
        "200 unknown fields of 20 kB",
        lambda: _chat(**{f"x{number}{write_long(20_000)}": 1 for number in range(190)}),
    )
    yield Attack("a tool of a kind of 3 MB", lambda: _chat(tools=[{"type": _long(), "name": "x"}]))
    yield Attack("a model named by 3 MB", lambda: _chat(model=_long()), statuses=(400,))
    yield Attack("a salt of 3 MB", lambda: _chat(cache_salt=_long()))
    for name in ("metadata", "user"):
        value = {"a": "b"} if name == "metadata" else "a"
        for is_streamed in (False, True):
            yield Attack(
                f"{name} of 3 MB{' in a stream' * is_streamed}",
                partial(_echo, name, value, is_streamed),
                path=RESPONSES,
            )
    yield Attack(
        "metadata of 120,000 members",
        lambda: _respond(metadata={f"{number}": "" for number in range(120_000)}, stream=True),
        path=RESPONSES,
    )


def _list_long_replies() -> Iterator[Attack]:
    words = "word " * (3 * MIB // 5)
    yield Attack(
        "a template around 3 MB",
        lambda: {"messages": [_say(words)]},
        path="/apply-template",
    )
    tokenize = {"content": "a b " * 250_000, "with_pieces": True}
    yield Attack("1,000,000 characters as tokens", lambda: tokenize, path="/tokenize")
    yield Attack("200,000 tokens as text", lambda: {"tokens": [300] * 200_000}, path="/detokenize")
    many = {"logprobs": True, "top_logprobs": 20, "max_tokens": 200, "ignore_eos": True}
    yield Attack("log probabilities of 16 replies", lambda: _chat(n=16, **many))
    yield Attack(
        "a trace of 1,000 tokens", lambda: _chat(trace=True, **many | {"max_tokens": 1000})
    )
    text = "<tool_call>\n" * 16_000
    inspected = {"format": "hermes", "tools": [_name_tool("f")], "text": text}
    yield Attack("a text of 190 kB at the workbench", lambda: inspected, path="/playground/inspect")
    loop = "{% for i in range(99999) %}{{ messages }}{% endfor %}"
    yield Attack(
        "a template without end at the workbench",
        lambda: {"template": loop, "messages": HELLO},
        path="/playground/inspect",
    )


def _echo(name: str, value: Any, is_streamed: bool) -> Body:
    long: Any = {"a": _long()} if isinstance(value, dict) else _long()
    return _respond(stream=is_streamed, **{name: long})


def _long() -> str:
    return write_long()


def _say(content: Any) -> Json:
    return {"role": "user", "content": content}


def _name_tool(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


# Each takes a part of a second; one of each kind is enough for the tests.
TRIED = ("a role of 3 MB", "metadata of 3 MB in a stream", "200 unknown fields of 20 kB")


def _list_all() -> Iterator[Attack]:
    for attack in (*_list_errors(), *_list_notes(), *_list_long_replies()):
        yield replace(attack, is_variant=attack.name not in TRIED)


ECHOES = tuple(_list_all())
