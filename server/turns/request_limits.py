"""Limits of a request besides the size of its body and the number of its values: they are checked
before its fields are validated, which other threads wait for."""

from collections.abc import Mapping
from typing import Any

from server.errors import HttpError
from server.settings import Settings
from server.turns.request_checks import measure

MAX_FIELDS = 200
"""The maximum number of fields of a request, since the reply names those that the server does not
know."""
KWARGS = "chat_template_kwargs"


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
    kwargs = body.get(KWARGS)
    size = 0 if kwargs is None else measure(kwargs, f"/{KWARGS}")
    if size > settings.max_template_kwargs:
        limit = settings.max_template_kwargs
        message = f"it has {size:,} bytes, the limit is {limit:,}: raise --max-template-kwargs"
        raise _refuse(message, f"/{KWARGS}")


def _refuse(message: str, where: str, code: str = "too_large") -> HttpError:
    return HttpError(400, message, code, where=where)
