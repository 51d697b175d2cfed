"""Request bodies: received on the event loop; read and validated in any thread."""

from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from grammars.schema.json_values import JsonObject
from grammars.schema.pointers import point_to
from server.errors import HttpError, refuse
from server.http.disconnects import make_gone
from server.http.json_body import count_values, read_json
from server.settings import Settings
from server.turns.fields.common_fields import Fields
from server.turns.fields.request_lists import WRONG_VALUE

M = TypeVar("M", bound=BaseModel)
DEFAULT_TYPES = frozenset(
    {"text/plain", "application/x-www-form-urlencoded", "application/octet-stream"}
)
"""Content types that clients send without choosing one: no header, or that of `curl -d`."""
MAX_FIELDS = 200
"""The maximum number of fields of a request, since the reply names those that the server does not
know."""
BROWSER_HEADERS = ("origin", "referer", "sec-fetch-site")
"""Headers of which every request of a web page has at least one."""


async def receive_body(request: Request) -> bytes:
    """Receives the body of a request. It must be JSON; for web pages, the content type must say so,
    too.

    Another site's web page may send a body without a preflight request, but not with the content
    type of JSON. So web pages must send this type. Other clients often leave it out, since Ollama
    and llama-server do not check it.
    """
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    may_be_unsaid = not any(name in request.headers for name in BROWSER_HEADERS)
    if not _is_json(header) and not (may_be_unsaid and header.get_content_type() in DEFAULT_TYPES):
        message = "the body must be JSON: send the header Content-Type: application/json"
        raise HttpError(415, message, "unsupported_media_type")
    try:
        return await request.body()  # starlette caches it for later calls
    except ClientDisconnect as error:
        raise make_gone() from error


def _is_json(header: Message) -> bool:
    kind = header.get_content_subtype()
    return header.get_content_maintype() == "application" and (
        kind == "json" or kind.endswith("+json")
    )


def read_object(body: bytes, settings: Settings) -> JsonObject:
    value = read_json(body, max_values=settings.max_values)
    if not isinstance(value, dict):
        raise refuse("the body must be a JSON object", "")
    _check_arguments(value, settings.max_values)
    return value


def _check_arguments(body: JsonObject, limit: int) -> None:
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
            hint = "send fewer, or raise --max-values"
            raise refuse(f"{message}: {hint}", f"{where}/arguments", "too_large")


def _list_arguments(body: JsonObject) -> Iterator[tuple[str, str]]:
    for name in ("messages", "input"):
        for number, message in enumerate(_as_list(body.get(name))):
            where = f"/{name}/{number}"
            calls = message.get("tool_calls") if isinstance(message, dict) else None
            holders = [(where, message)]
            for index, call in enumerate(_as_list(calls)):
                function = call.get("function") if isinstance(call, dict) else None
                holders.append((f"{where}/tool_calls/{index}/function", function))
            for place, holder in holders:
                if isinstance(holder, dict) and isinstance(holder.get("arguments"), str):
                    yield place, holder["arguments"]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def validate_fields(value: JsonObject, kind: type[M]) -> M:
    if len(value) > MAX_FIELDS:
        message = f"the request has {len(value):,} fields, the limit is {MAX_FIELDS}"
        raise refuse(message, "", "too_large")
    try:
        fields = kind.model_validate(value)
    except ValidationError as error:
        raise describe_mistakes(error.errors(include_url=False), value) from None
    if isinstance(fields, Fields):
        fields.check_refused()
    return fields


_REASONS = {
    "string_unicode": "it has a lone surrogate, a half of a character such as an emoji: send the "
    "other half, too, or neither"
}
"""What is said in place of pydantic's words, which name no remedy."""


def describe_mistakes(details: Sequence[Mapping[str, Any]], body: Any) -> HttpError:
    """Describes the first field with a mistake that pydantic found (`errors()` of a
    ValidationError, with inputs); of the branches of a union, that which got furthest."""
    places = [_find_place(detail, body) for detail in details]
    furthest = places[0]
    for place in places:
        if place[:1] == furthest[:1] and len(place) > len(furthest):
            furthest = place
    reasons: dict[str, None] = {}  # of all branches that got equally far
    for place, detail in zip(places, details, strict=True):
        if place == furthest:
            reason: str = _REASONS.get(detail["type"]) or detail["msg"]
            reasons[reason] = None
    field = ".".join(map(str, furthest)) or "the body"
    return refuse(f"{field}: {', or: '.join(reasons)}", point_to(map(str, furthest)))


def _find_place(detail: Mapping[str, Any], body: Any) -> tuple[str | int, ...]:
    """Returns the keys and indexes from the body to a mistake. The other steps of pydantic's
    location name branches of unions, and the value that failed may have keys with such names."""
    place: list[str | int] = []
    value = body
    for step in detail["loc"]:
        if value is not detail["input"] and _has(value, step):
            place.append(step)
            value = value[step]
    if detail["type"] == "missing":
        place += detail["loc"][-1:]
    elif detail["type"] == WRONG_VALUE:
        place.append(detail["ctx"]["key"])
    return tuple(place)


def _has(value: Any, step: Any) -> bool:
    if isinstance(value, Mapping):
        return step in value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return isinstance(step, int) and step < len(value)
    return False
