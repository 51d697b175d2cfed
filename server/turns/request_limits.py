"""Limits of a request besides the size of its body and the number of its values: they are checked
before its fields are validated, which other threads wait for."""

from collections.abc import Iterator, Mapping
from typing import Any

from server.errors import HttpError
from server.json_body import count_values
from server.settings import Settings
from server.turns.request_checks import measure

MAX_FIELDS = 200
"""The maximum number of fields of a request, since the reply names those that the server does not
know."""
KWARGS = "chat_template_kwargs"
CONVERSATIONS = ("messages", "input")


def check_lengths(body: Mapping[str, Any], settings: Settings) -> None:
    """Refuses a request that exceeds a limit of the server. The fields are those of all dialects;
    values of a wrong type are left to validation.

    Raises:
        HttpError: names the field, the limit, and the option that raises it.
    """
    if len(body) > MAX_FIELDS:
        raise _refuse(f"the request has {len(body):,} fields, the limit is {MAX_FIELDS}", "")
    tools = body.get("tools")
    if isinstance(tools, list) and len(tools) > settings.max_tools:
        message = f"there are {len(tools):,} tools, the limit is {settings.max_tools:,}"
        hint = "send fewer, or raise --max-tools"
        raise _refuse(f"{message}: {hint}", "/tools", "too_many_tools")
    _check_arguments(body, settings.max_values)
    kwargs = body.get(KWARGS)
    size = 0 if kwargs is None else measure(kwargs, f"/{KWARGS}")
    if size > settings.max_template_kwargs:
        limit = settings.max_template_kwargs
        message = f"it has {size:,} bytes, the limit is {limit:,}: raise --max-template-kwargs"
        raise _refuse(message, f"/{KWARGS}")


def _check_arguments(body: Mapping[str, Any], limit: int) -> None:
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


def _list_arguments(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
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


def _refuse(message: str, where: str, code: str = "too_large") -> HttpError:
    return HttpError(400, message, code, where=where)
