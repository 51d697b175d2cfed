"""Fields with values at the edge of what numbers and texts can be."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import REFUSED, Attack, Body, ask_for_call
from benchmarks.attacks.bodies import HELLO

RESPONSES = "/v1/responses"
HUGE = 10**30
NUMBERS = (
    "max_tokens",
    "n",
    "best_of",
    "top_k",
    "seed",
    "max_calls",
    "max_identical_calls",
    "max_repetition",
    "reasoning_budget",
    "thinking_budget",
    "n_predict",
)
COMPLETION_NUMBERS = ("n_predict", "logprobs", "top_k", "seed", "n")
OLLAMA_NUMBERS = ("num_predict", "top_k", "seed", "repeat_last_n", "num_ctx")
FLOATS = ("temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty", "min_confidence")
LONE = "\ud83d"


def _ask(**fields: Any) -> Body:
    return {"messages": HELLO, "max_tokens": 4, **fields}


def _list_numbers() -> Iterator[Attack]:
    for name in NUMBERS:
        yield Attack(f"{name} of 10^30", partial(_ask, **{name: HUGE}), statuses=(200, 400))
    for name in FLOATS:
        # As JSON it is Infinity, which is refused; 1e999 becomes the same after the reader.
        yield Attack(f"{name} of 1e308", partial(_ask, **{name: 1e308}), statuses=(200, 400))
        yield Attack(f"{name} of 5e-324", partial(_ask, **{name: 5e-324}), statuses=(200, 400))
    for name in COMPLETION_NUMBERS:
        body = {"prompt": "a", "max_tokens": 2, name: HUGE}
        yield Attack(
            f"Completions: {name} of 10^30",
            partial(dict, body),
            path="/v1/completions",
            is_variant=True,  # a model that follows a script knows no raw prompts
        )
    for name in OLLAMA_NUMBERS:
        options = {"num_predict": 4, name: HUGE}
        body = {"messages": HELLO, "stream": False, "options": options}
        yield Attack(f"Ollama: {name} of 10^30", partial(dict, body), path="/api/chat")


def _list_biases() -> Iterator[Attack]:
    never = [[token, False] for token in range(1_000)]
    yield Attack("a bias against 1,000 tokens", lambda: _ask(logit_bias=never))
    every = [[token, False] for token in range(100_000)]
    yield Attack("a bias against more than all", lambda: _ask(logit_bias=every), statuses=REFUSED)
    yield Attack("a bias of 1e308", lambda: _ask(logit_bias={"300": 1e308}), statuses=REFUSED)
    yield Attack(
        "a token of 10^9 digits", lambda: _ask(logit_bias={"9" * 10_000: 1}), statuses=REFUSED
    )


def _list_stops() -> Iterator[Attack]:
    long = ["a" * 1_000 + chr(97 + number) for number in range(16)]
    yield Attack("16 stop texts that begin alike", lambda: _ask(stop=long), statuses=REFUSED)
    empty = partial(_ask, stop=["", "a"])
    yield Attack("an empty stop text", empty, statuses=(200, 400))


def _list_choices() -> Iterator[Attack]:
    schema = {"type": "object", "properties": {"a": {"enum": [f"w{n}" for n in range(2_000)]}}}
    schema["required"] = ["a"]
    several: Any = {**ask_for_call(schema), "best_of": 16, "max_tokens": 64}
    yield Attack("16 turns with a value of 2,000", lambda: several)
    many: Any = {**ask_for_call(schema), "n": 16, "max_tokens": 64}
    yield Attack("16 replies with a value of 2,000", lambda: many)


def _list_surrogates() -> Iterator[Attack]:
    """Half a character, wherever a text can be."""
    for name in ("model", "user", "cache_salt", "stop", "grammar", "regex", "service_tier"):
        yield Attack(f"half a character as {name}", partial(_ask, **{name: LONE}))
    yield Attack("half a character as a choice", lambda: _ask(choice=[LONE, "a"]))
    yield Attack("half a character as a field", lambda: _ask(**{LONE: 1}))
    schema = {"type": "object", "properties": {LONE: {"enum": [LONE], "description": LONE}}}
    schema["required"] = [LONE]
    yield Attack("half a character in a schema", lambda: ask_for_call(schema))
    named = {"type": "object", "properties": {"a": {"pattern": LONE}, "b": {"const": LONE}}}
    yield Attack("half a character in a pattern", lambda: ask_for_call(named))
    reference = {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{LONE}"}}}
    reference["$defs"] = {LONE: {"type": "string"}}
    yield Attack("half a character in a reference", lambda: ask_for_call(reference))
    for name in ("previous_response_id", "user", "instructions", "prompt_cache_key"):
        body = {"input": HELLO, "max_output_tokens": 4, name: LONE}
        yield Attack(f"Responses: half a character as {name}", partial(dict, body), path=RESPONSES)
    body = {"input": HELLO, "max_output_tokens": 4, "metadata": {LONE: LONE}}
    yield Attack("Responses: half a character in metadata", lambda: body, path=RESPONSES)


def _nest(depth: int) -> Any:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def _list_depths() -> Iterator[Attack]:
    deep = _nest(480)
    for name in ("metadata", "chat_template_kwargs", "tools", "tool_choice", "logit_bias", "x"):
        value = [deep] if name in ("tools", "logit_bias") else {"a": deep}
        yield Attack(f"{name}, 480 deep", partial(_ask, **{name: value}))
    called = {"function": {"name": "f", "arguments": deep}}
    said = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [called]}, *HELLO]
    yield Attack(
        "arguments, 470 deep", lambda: {"messages": said, "stream": False}, path="/api/chat"
    )
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": deep}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    turns = [*HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    yield Attack(
        "an input, 480 deep", lambda: {"messages": turns, "max_tokens": 4}, path="/v1/messages"
    )
    function = {"name": "f", "parameters": {"type": "object", "default": deep, "x": deep}}
    tools = [{"type": "function", "function": function}]
    yield Attack("a default, 480 deep", lambda: _ask(tools=tools, tool_choice="required"))
    yield Attack("a message, 480 deep", lambda: _ask(messages=[{**HELLO[0], "x": deep}]))
    flat = {"type": "function", "name": "f", "parameters": {"default": deep}}
    body = {"input": HELLO, "tools": [flat], "max_output_tokens": 4, "stream": True}
    yield Attack("Responses: a default, 480 deep", lambda: body, path=RESPONSES)


FIELDS = (
    *_list_numbers(),
    *_list_biases(),
    *_list_stops(),
    *_list_choices(),
    *_list_surrogates(),
    *_list_depths(),
)
