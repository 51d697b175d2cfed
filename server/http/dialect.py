"""What the application has to know of a dialect: its paths, and the form of its errors."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from server.errors import HttpError, encode_error


@dataclass(frozen=True)
class Dialect:
    """A dialect.

    Args:
        router: its paths.
        prefix: what the paths begin with that have its errors, behind `/v1`; "": none has, its
            errors are OpenAI's.
        encode_error: the body of an error.
        has_request_ids: replies have the header `request-id`, which Anthropic's SDKs show.
    """

    router: APIRouter
    prefix: str = ""
    encode_error: Callable[[HttpError], dict[str, Any]] = encode_error
    has_request_ids: bool = False


OPENAI = Dialect(APIRouter())
"""Of paths that belong to no dialect of their own."""


def find_dialect(dialects: Iterable[Dialect], path: str) -> Dialect:
    """The dialect whose errors a path has, also where there is no such path."""
    for dialect in dialects:
        if dialect.prefix and path.removeprefix("/v1").startswith(dialect.prefix):
            return dialect
    return OPENAI
