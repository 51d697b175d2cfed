"""Files and Batches: the paths. A file and a batch belong to the API key that made them; others get
404."""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Literal, Protocol

from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile

from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_fields
from server.dialects.common.serving import find_key_owner
from server.errors import UNSUPPORTED_ENCODING, HttpError, refuse
from server.hosting.batches.batch import YEAR, BatchRequest
from server.hosting.batches.batch_runner import BatchRunner
from server.hosting.batches.file_store import StoredFile
from server.http.gate import find_key, make_too_large
from server.http.openapi import ApiRouter, describe_errors, describe_text

router = ApiRouter()
FIND_ERRORS = describe_errors(400, 401, 404)
ADD_ERRORS = describe_errors(400, 401, 404, 413, 415, 503)
START_ERRORS = ADD_ERRORS | describe_errors(501, 504)
MAX_FIELDS = 10  # of the form with a file
MAX_FIELD_LENGTH = 4096  # bytes
MAX_NAME_LENGTH = 255  # characters
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""The encodings that the header of a form may name."""
PIECE = 1 << 18  # bytes of a file that are copied at a time; others are answered in between
FORM: JsonObject = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": ["batch"]},
                    },
                    "required": ["file", "purpose"],
                }
            }
        },
    }
}


class _Listed(Protocol):
    id: str

    def describe(self) -> JsonObject: ...


def find_batches(request: Request) -> BatchRunner:
    """Returns the batches of this server, and their files."""
    return request.app.state.batches


@router.post("/v1/files", responses=ADD_ERRORS, openapi_extra=FORM)
async def create_file(request: Request) -> JsonObject:
    """Takes a file: the requests of a batch, one JSON object a line."""
    settings = request.app.state.settings
    _check_charset(request)
    async with request.form(
        max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_LENGTH
    ) as form:
        purpose = form.get("purpose")
        if purpose != "batch":
            given = "a file" if isinstance(purpose, UploadFile) else repr(purpose)
            message = f"purpose is {given}: this server takes files with purpose batch"
            raise refuse(message, "/purpose")
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise refuse("the form has no file", "/file", "missing_file")
        if (file.size or 0) > settings.max_file:
            raise make_too_large(settings.max_file)
        stored = StoredFile(
            find_key_owner(request),
            (file.filename or "file")[:MAX_NAME_LENGTH],
            "batch",
            lifetime=_read_lifetime(form),
            content=await _read_content(file),
        )
    await find_batches(request).files.receive(stored)
    return stored.describe()


def _check_charset(request: Request) -> None:
    """Refuses a form whose texts are not UTF-8: its header may name any codec of Python, some of
    which fail, or make texts that no reply can have.

    Raises:
        HttpError: the header names another encoding.
    """
    _, options = parse_options_header(request.headers.get("Content-Type"))
    charset = options.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in CHARSETS:
        message = f"the form is in {charset[:100]!r}: send it in UTF-8"
        raise HttpError(415, message, UNSUPPORTED_ENCODING)


async def _read_content(file: UploadFile) -> bytearray:
    content = bytearray()
    while piece := await file.read(PIECE):
        content += piece
    return content


def _read_lifetime(form: FormData) -> int | None:
    """Returns the seconds of `expires_after`, which forms write as `expires_after[seconds]`."""
    given = form.get("expires_after[seconds]")
    if given is None:
        return None
    seconds = 0
    if isinstance(given, str) and given.isascii() and given.isdigit():
        seconds = int(given[:20])
    if not 1 <= seconds <= YEAR:
        raise refuse(f"seconds must be a number from 1 to {YEAR}", "/expires_after/seconds")
    return seconds


@router.get("/v1/files", responses=FIND_ERRORS)
async def list_files(
    request: Request,
    purpose: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
    after: str | None = None,
) -> JsonObject:
    """The files of the API key."""
    files = [*find_batches(request).files.list_files(find_key_owner(request))]
    if purpose is not None:
        files = [file for file in files if file.purpose == purpose]
    if order == "desc":
        files.reverse()
    return _make_page(files, limit=limit, after=after)


@router.get("/v1/files/{id}", responses=FIND_ERRORS)
async def show_file(id: str, request: Request) -> JsonObject:
    """A file, without its content."""
    return find_batches(request).files.get(find_key_owner(request), id).describe()


@router.get(
    "/v1/files/{id}/content",
    responses=describe_text("application/jsonl", "The lines of the file") | FIND_ERRORS,
    response_class=Response,
)
async def show_content(id: str, request: Request) -> Response:
    """Returns the content of a file; for a running batch's output, the content so far."""
    content = find_batches(request).files.get(find_key_owner(request), id).content
    size = len(content)  # of now: the output of a batch grows

    async def write() -> AsyncIterator[bytes]:
        for begin in range(0, size, PIECE):
            yield bytes(content[begin : min(begin + PIECE, size)])

    headers = {"Content-Length": f"{size}"}
    return StreamingResponse(write(), media_type="application/jsonl", headers=headers)


@router.delete("/v1/files/{id}", responses=FIND_ERRORS)
async def delete_file(id: str, request: Request) -> JsonObject:
    """Forgets a file."""
    find_batches(request).files.delete(find_key_owner(request), id)
    return {"id": id, "object": "file", "deleted": True}


@router.post_json("/v1/batches", BatchRequest, responses=START_ERRORS)
async def create_batch(request: Request) -> JsonObject:
    """Begins to carry out the requests of a file."""
    body = await read_fields(request, BatchRequest)
    key = find_key(request.scope["headers"])
    return find_batches(request).create(find_key_owner(request), key, body).describe()


@router.get("/v1/batches", responses=FIND_ERRORS)
async def list_batches(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: str | None = None,
) -> JsonObject:
    """The batches of the API key, the newest first."""
    batches = find_batches(request).list_batches(find_key_owner(request))
    return _make_page([*reversed(batches)], limit=limit, after=after)


@router.get("/v1/batches/{id}", responses=FIND_ERRORS)
async def show_batch(id: str, request: Request) -> JsonObject:
    """A batch, and how far it is."""
    return find_batches(request).get(find_key_owner(request), id).describe()


@router.post("/v1/batches/{id}/cancel", responses=FIND_ERRORS)
async def cancel_batch(id: str, request: Request) -> JsonObject:
    """Ends a batch; its results so far stay."""
    batches = find_batches(request)
    batch = batches.get(find_key_owner(request), id)
    batches.cancel(batch)
    return batch.describe()


def _make_page(items: Sequence[_Listed], *, limit: int, after: str | None) -> JsonObject:
    """Returns a part of a list.

    Raises:
        HttpError: `after` is not in it.
    """
    if after is not None:
        ids = [item.id for item in items]
        if after not in ids:
            raise refuse(f"there is no {after!r} to continue after")
        items = items[ids.index(after) + 1 :]
    shown = items[:limit]
    return {
        "object": "list",
        "data": [item.describe() for item in shown],
        "has_more": len(items) > limit,
        "first_id": shown[0].id if shown else None,
        "last_id": shown[-1].id if shown else None,
    }
