"""A dialect as the application knows it: its paths, and the form of its errors."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from server.errors import HttpError, encode_openai_error


@dataclass(frozen=True)
class Dialect:
    """What paths an API has, and the form of its errors.

    Args:
        prefixes: what the paths begin with, after `/v1`, that have its errors; "": all those that
            no other dialect claims.
        id_headers: the headers of replies with the id of the request.
    """

    router: APIRouter
    prefixes: Sequence[str] = ("",)
    encode_error: Callable[[HttpError], dict[str, Any]] = encode_openai_error
    id_headers: Sequence[bytes] = (b"x-request-id",)

    def answer(self, fault: HttpError) -> Response:
        # In ASCII: a message may quote text of the client, which may contain lone surrogates.
        body = json.dumps(self.encode_error(fault))
        return Response(body, fault.status, fault.headers, media_type="application/json")


def find_dialect(dialects: Iterable[Dialect], path: str) -> Dialect:
    """Returns the dialect whose errors a path has, also where there is no such path; one of
    `dialects` has to have the prefix ""."""
    path = path.rpartition("/v1")[2]  # also behind a base URL that this server does not have
    claims = {prefix: dialect for dialect in dialects for prefix in dialect.prefixes}
    return claims[max(filter(path.startswith, claims), key=len)]
