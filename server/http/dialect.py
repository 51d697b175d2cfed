"""A dialect as the application knows it: its paths, and the form of its errors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from server.errors import HttpError, encode_openai_error


@dataclass(frozen=True)
class Dialect:
    """A dialect.

    Args:
        router: its paths.
        prefixes: what the paths begin with, after `/v1`, that have its errors; "": all those that
            no other dialect claims.
        encode_error: the body of an error.
        has_request_ids: replies have their id as `request-id`, too, which Anthropic's SDKs show.
    """

    router: APIRouter
    prefixes: Sequence[str] = ("",)
    encode_error: Callable[[HttpError], dict[str, Any]] = encode_openai_error
    has_request_ids: bool = False


def find_dialect(dialects: Iterable[Dialect], path: str) -> Dialect:
    """Returns the dialect whose errors a path has, also where there is no such path; one of
    `dialects` has to have the prefix ""."""
    path = path.rpartition("/v1")[2]  # also behind a base URL that this server does not have
    claims = {prefix: dialect for dialect in dialects for prefix in dialect.prefixes}
    return claims[max(filter(path.startswith, claims), key=len)]
