"""Limits of sizes and counts in a request, checked before its fields are validated: validation of
long lists item by item would take long, and remember each error."""

from collections.abc import Iterator, Mapping
from typing import Any

from constrained.decode.filters.stop_texts import MAX_STOPS
from server.errors import HttpError
from server.http.json_body import count_values
from server.settings import Settings
from server.turns.request_checks import measure

Json = Mapping[str, Any]
MAX_FIELDS = 200
"""The maximum number of fields of a request, since the reply names those that the server does not
know."""
CONVERSATIONS = ("messages", "input")
STOPS = ("stop", "stop_sequences")
KWARGS = "chat_template_kwargs"
TEXTS = frozenset(
    "prompt input instructions system grammar regex content suffix template text "
    "input_prefix input_suffix".split()
)
"""Fields of a request whose texts may be as long as the body."""
MAX_NAME_LENGTH = 16_384
"""The maximum number of characters of any other text of a request, and of names of messages, parts
and tools."""
NAMES = ("role", "type", "name", "id", "tool_call_id", "tool_use_id", "call_id", "tool_name")
MAX_TOOL_CHOICE_LENGTH = 1 << 20
"""The maximum number of characters of a tool choice, which may list the tools."""
PARTS = ("content", "tool_calls", "summary", "output")
"""Lists in messages, in items of Responses, and in their parts."""


def check_lengths(body: Json, settings: Settings) -> None:
    """Refuses a request that exceeds a limit of the server. The fields are those of all dialects;
    values of a wrong type are left to validation.

    Raises:
        HttpError: names the field, the limit, and the option that raises it.
    """
    if len(body) > MAX_FIELDS:
        raise _refuse(f"the request has {len(body):,} fields, the limit is {MAX_FIELDS}", "")
    _check_names(body)
    for name in CONVERSATIONS:
        hint = "send fewer, or raise --max-messages"
        _check_list(body, name, "messages", limit=settings.max_messages, hint=hint)
    hint = "send fewer, or raise --max-tools"
    _check_list(body, "tools", "tools", limit=settings.max_tools, hint=hint)
    for name in STOPS:
        _check_list(body, name, "stop texts", limit=MAX_STOPS, hint="send fewer")
    _check_parts(body, settings.max_parts)
    _check_arguments(body, settings.max_values)
    kwargs = body.get(KWARGS)
    size = 0 if kwargs is None else measure(kwargs, f"/{KWARGS}")
    if size > settings.max_template_kwargs:
        limit = settings.max_template_kwargs
        message = f"it has {size:,} bytes, the limit is {limit:,}: raise --max-template-kwargs"
        raise _refuse(message, f"/{KWARGS}")


def _check_names(body: Json) -> None:
    """Refuses long names: errors, notes and the log quote them."""
    for name, value in body.items():
        if len(name) > MAX_NAME_LENGTH:
            raise _refuse(f"a field has a name of {len(name):,} characters", "")
        if name not in TEXTS:
            _check_name(value, f"/{name}")
    if measure(body.get("tool_choice"), "/tool_choice") > MAX_TOOL_CHOICE_LENGTH:
        message = f"it has more than {MAX_TOOL_CHOICE_LENGTH:,} characters, which is the limit"
        raise _refuse(message, "/tool_choice")
    tools = body.get("tools")
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        where = f"/tools/{number}"
        _check_names_of(tool, where)
        if isinstance(tool, dict):
            _check_names_of(tool.get("function"), f"{where}/function")
    for name in CONVERSATIONS:
        messages = body.get(name)
        for number, message in enumerate(messages if isinstance(messages, list) else ()):
            _check_names_of(message, f"/{name}/{number}")
    for where, parts in _list_parts(body):
        for number, part in enumerate(parts):
            _check_names_of(part, f"{where}/{number}")


def _check_names_of(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for name in NAMES:
            _check_name(value.get(name), f"{where}/{name}")


def _check_name(value: Any, where: str) -> None:
    if isinstance(value, str) and len(value) > MAX_NAME_LENGTH:
        message = f"it has {len(value):,} characters, the limit is {MAX_NAME_LENGTH:,}"
        raise _refuse(message, where)


def _check_list(body: Json, name: str, what: str, *, limit: int, hint: str) -> None:
    items = body.get(name)
    if isinstance(items, list) and len(items) > limit:
        message = f"there are {len(items):,} {what}, the limit is {limit:,}: {hint}"
        raise _refuse(message, f"/{name}", f"too_many_{what.replace(' ', '_')}")


def _check_parts(body: Json, limit: int) -> None:
    """Refuses content with too many parts in all messages together."""
    count = 0
    for where, parts in _list_parts(body):
        count += len(parts)
        if count > limit:
            message = (
                f"there are more than {limit:,} parts of content and calls of tools up to here"
            )
            raise _refuse(f"{message}: send fewer, or raise --max-parts", where, "too_many_parts")


def _check_arguments(body: Json, limit: int) -> None:
    """Refuses calls whose arguments have too many values in all. They are JSON in a text, so they
    do not count as values of the body, but they are read in the same way."""
    texts = [*_list_arguments(body)]
    if sum(len(text) for _, text in texts) <= limit:
        return
    count = 0
    for where, text in texts:
        count += count_values(text.encode("utf-8", "replace"))
        if count > limit:
            message = f"the arguments of calls up to here have more than {limit:,} values"
            raise _refuse(f"{message}: send fewer, or raise --max-values", where)


def _list_arguments(body: Json) -> Iterator[tuple[str, str]]:
    for name in CONVERSATIONS:
        messages = body.get(name)
        for number, message in enumerate(messages if isinstance(messages, list) else ()):
            where = f"/{name}/{number}"
            yield from _list_arguments_of(message, where)
            calls = message.get("tool_calls") if isinstance(message, dict) else None
            for i, call in enumerate(calls if isinstance(calls, list) else ()):
                function = call.get("function") if isinstance(call, dict) else None
                yield from _list_arguments_of(function, f"{where}/tool_calls/{i}/function")


def _list_arguments_of(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and isinstance(value.get("arguments"), str):
        yield f"{where}/arguments", value["arguments"]


def _list_parts(body: Json) -> Iterator[tuple[str, list[Any]]]:
    system = body.get("system")
    if isinstance(system, list):
        yield "/system", system
    for name in CONVERSATIONS:
        messages = body.get(name)
        if isinstance(messages, list):
            for number, message in enumerate(messages):
                yield from _list_parts_of(message, f"/{name}/{number}")


def _list_parts_of(message: Any, where: str) -> Iterator[tuple[str, list[Any]]]:
    if not isinstance(message, dict):
        return
    for name in PARTS:
        parts = message.get(name)
        if not isinstance(parts, list):
            continue
        yield f"{where}/{name}", parts
        for number, part in enumerate(parts):  # of a tool result
            inner = part.get("content") if isinstance(part, dict) else None
            if isinstance(inner, list):
                yield f"{where}/{name}/{number}/content", inner


def _refuse(message: str, where: str, code: str = "too_large") -> HttpError:
    return HttpError(400, message, code, where=where)
