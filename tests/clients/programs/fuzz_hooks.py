"""What schemathesis sends, made whole: of two requests in three, what the schema says too little of
(messages, input, ids) is what a client would send, and the rest stays as it was drawn."""

import itertools
from typing import Any

import report
import schemathesis

TOOLS: dict[str, Any] = {
    "/v1/messages": {
        "name": "get_weather",
        "description": "Get the weather.",
        "input_schema": report.PARAMETERS,
    },
    "/v1/responses": {"type": "function", **report.WEATHER},
}
CHAT_TOOL: dict[str, Any] = {"type": "function", "function": report.WEATHER}
TALKS = (
    "/v1/chat/completions",
    "/v1/chat/completions/input_tokens",
    "/v1/messages",
    "/v1/messages/count_tokens",
)
MESSAGES: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": report.QUESTION}],
    [{"role": "user", "content": [{"type": "text", "text": report.GREETING}]}],
    [
        {"role": "user", "content": report.QUESTION},
        {"role": "assistant", "content": "It is"},
    ],
]
_numbers = itertools.count()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Mends a request; every third stays as it is."""
    number, turn = divmod(next(_numbers), 3)
    if turn == 0:
        return
    if case.operation.path == "/v1/models/{id}":
        case.path_parameters = {"id": "demo"}
    if isinstance(case.body, dict):
        case.body = _mend(case.operation.path, case.body, number, is_short=turn == 1)


def _mend(path: str, body: dict[str, Any], number: int, *, is_short: bool) -> dict[str, Any]:
    """The body with what its path needs; a short one has but one of the fields beside."""
    if is_short and body:
        names = sorted(body, key=repr)
        name = names[number % len(names)]
        body = {name: body[name]}
    needed: dict[str, Any] = {}
    if path in TALKS:
        needed["messages"] = MESSAGES[number % len(MESSAGES)]
    if path == "/v1/messages":
        needed["max_tokens"] = 30
    if path == "/v1/responses":
        needed["input"] = report.QUESTION
    if path in ("/models/load", "/models/unload"):
        needed["model"] = "demo"
    if needed.keys() & {"messages", "input"} and number % 2:
        needed["tools"] = [TOOLS.get(path.removesuffix("/count_tokens"), CHAT_TOOL)]
    return {**body, **needed}
