"""Files whose clients leave while they send them."""

import asyncio
import logging

import pytest
from starlette.types import Message

from server.app import make_app
from tests.scripted_model import scripted


def test_a_client_that_leaves_is_no_fault_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    part = b'--a\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    come: list[Message] = [
        {"type": "http.request", "body": part, "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return come.pop(0) if len(come) > 1 else come[0]

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/files",
        "raw_path": b"/v1/files",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(b"content-type", b"multipart/form-data; boundary=a"), (b"host", b"localhost")],
        "server": None,
        "client": None,
    }
    with caplog.at_level(logging.ERROR):
        asyncio.run(make_app(lambda: scripted("Hi."))(scope, receive, send))
    assert sent[0]["status"] == 499
    assert caplog.records == []
