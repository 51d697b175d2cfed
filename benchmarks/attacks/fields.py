"""Fields with values at the edge of what numbers and texts can be."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.attacks.attack import Attack, ask_for_call
from benchmarks.attacks.bodies import HELLO, RESPONSES, chat, respond

NUMBERS = ("max_tokens", "n", "best_of", "top_k", "seed", "max_repetition", "reasoning_budget")
FLOATS = ("temperature", "top_p", "min_p", "repeat_penalty")
LONE = "\ud83d"


def _list_numbers() -> Iterator[Attack]:
    for name in NUMBERS:
        yield Attack(f"{name} of 10^30", partial(chat, **{name: 10**30}))
    for name in FLOATS:
        yield Attack(f"{name} of 1e308", partial(chat, **{name: 1e308}))
        yield Attack(f"{name} of 5e-324", partial(chat, **{name: 5e-324}))
    options = {"num_predict": 10**30, "num_ctx": 10**30, "seed": 10**30}
    body = {"messages": HELLO, "stream": False, "options": options}
    yield Attack("Ollama: options of 10^30", lambda: body, path="/api/chat")
    every = [[token, False] for token in range(100_000)]
    yield Attack("a bias against more than all", partial(chat, logit_bias=every))
    yield Attack("a bias of 1e308", partial(chat, logit_bias={"300": 1e308}))
    yield Attack("a token of 10^4 digits", partial(chat, logit_bias={"9" * 10_000: 1}))
    yield Attack("an empty stop text", partial(chat, stop=["", "a"]))
    schema = {"type": "object", "properties": {"a": {"enum": [f"w{n}" for n in range(2_000)]}}}
    several = {**ask_for_call({**schema, "required": ["a"]}), "best_of": 16}
    yield Attack("16 turns with a value of 2,000", lambda: several)


def _list_surrogates() -> Iterator[Attack]:
    """Half a character, wherever a text can be."""
    for name in ("model", "user", "cache_salt", "stop", "grammar", "regex"):
        yield Attack(f"half a character as {name}", partial(chat, **{name: LONE}))
    yield Attack("half a character as a choice", partial(chat, choice=[LONE, "a"]))
    yield Attack("half a character as a field", partial(chat, **{LONE: 1}))
    schema = {
        "type": "object",
        "properties": {LONE: {"enum": [LONE]}, "a": {"$ref": f"#/$defs/{LONE}"}},
        "required": [LONE],
        "$defs": {LONE: {"type": "string", "pattern": LONE}},
    }
    yield Attack("half a character in a schema", partial(ask_for_call, schema))
    told = partial(respond, metadata={LONE: LONE}, previous_response_id=LONE)
    yield Attack("Responses: half a character", told, path=RESPONSES)


def _list_depths() -> Iterator[Attack]:
    deep: Any = 1
    for number in range(480):
        deep = [deep] if number % 2 else {"a": deep}
    for name in ("metadata", "chat_template_kwargs", "tools", "tool_choice", "logit_bias", "x"):
        value = [deep] if name in ("tools", "logit_bias") else {"a": deep}
        yield Attack(f"{name}, 480 deep", partial(chat, **{name: value}))
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": deep}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    turns = [*HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    yield Attack("an input, 480 deep", partial(chat, messages=turns), path="/v1/messages")
    yield Attack("a default, 480 deep", partial(ask_for_call, {"type": "object", "default": deep}))


FIELDS = (*_list_numbers(), *_list_surrogates(), *_list_depths())
