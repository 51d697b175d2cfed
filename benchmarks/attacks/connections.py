"""What is sent on a connection when it is no ordinary request: heads and bodies that are ambiguous,
too large or too small, other protocols, and clients that take their answer a byte at a time."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

PATIENCE = 30  # seconds
CHAT = "/v1/chat/completions"
BODY = json.dumps({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}).encode()
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_CLOSE = "Connection: close"
_LENGTH = f"Content-Length: {len(BODY)}"
_CHUNKED = "Transfer-Encoding: chunked"


@dataclass(frozen=True)
class RawAttack:
    """Bytes that are sent on a connection of their own.

    Args:
        name: what is wrong with them.
        make: gives the bytes; called only when they are sent.
        statuses: of the answers, in order, the last of which ends the connection. 100 (Continue) is
            one of them.
    """

    name: str
    make: Callable[[], bytes]
    statuses: tuple[int, ...]


def write_request(
    *fields: str,
    method: str = "POST",
    path: str = CHAT,
    body: bytes = b"",
    key: str = "",
    kind: str = "application/json",
) -> bytes:
    """A request to this machine.

    Args:
        fields: of the head, in addition to the usual ones.
        method: of the request.
        path: of the request.
        body: as it stands after the head.
        key: an API key; "": none.
        kind: the content type.
    """
    usual = ["Host: localhost", f"Content-Type: {kind}"]
    if key:
        usual.append(f"Authorization: Bearer {key}")
    lines = [f"{method} {path} HTTP/1.1", *usual, *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def write_chunk(data: bytes, size: str = "", end: bytes = b"\r\n") -> bytes:
    """A chunk of a body, whose size is said as it is given."""
    return f"{size or hex(len(data))[2:]}".encode() + end + data + end


def send_raw(url: str, attack: RawAttack) -> tuple[int, ...]:
    """The statuses of what is answered until the server closes the connection."""
    place = urlsplit(url)
    answer = b""
    with socket.create_connection((place.hostname, place.port), PATIENCE) as connection:
        try:
            connection.sendall(attack.make())
            while part := connection.recv(65_536):
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed while something was still on its way
    return tuple(int(found) for found in _STATUS.findall(answer))


def _refuse(name: str, make: Callable[[], bytes]) -> RawAttack:
    return RawAttack(name, make, (400,))


def _list_lengths() -> Iterator[RawAttack]:
    """A proxy in front that believes another length would take a part of the body for a request of
    somebody else (request smuggling)."""
    for value in ("+5", "0x10", "5, 6", "9" * 5_000):
        fields = (_CLOSE, f"Content-Length: {value}")
        yield _refuse(f"Content-Length {value[:9]}", partial(write_request, *fields, body=BODY))
    for name, fields in (
        ("two lengths", (_LENGTH, "Content-Length: 5")),
        ("a length and chunks", (_LENGTH, _CHUNKED)),
        ("a space in front of a colon", ("Transfer-Encoding : chunked",)),
        ("chunked twice", ("Transfer-Encoding: chunked, chunked",)),
        ("a NUL", (_LENGTH, "X: a\0b")),
        ("a carriage return", (_LENGTH, "X: a\rb")),
    ):
        body = write_chunk(BODY) + b"0\r\n\r\n"
        yield _refuse(name, partial(write_request, _CLOSE, *fields, body=body))
    for name, chunk in (
        ("a chunk without end", write_chunk(BODY, "F" * 30)),
        ("an extension of 100 kB", write_chunk(BODY, f"{len(BODY):x};" + "a" * 100_000)),
        ("100,000 trailers", write_chunk(BODY) + b"0\r\n" + b"X: y\r\n" * 100_000),
    ):
        yield _refuse(name, partial(write_request, _CLOSE, _CHUNKED, body=chunk))
    smuggled = write_request(method="GET", path="/health")
    length = f"Content-Length: {len(smuggled)}"
    request = write_request(length, _CLOSE, method="GET", path="/health", body=smuggled)
    yield RawAttack("a request in the body of another", lambda: request, (200,))


def _list_floods() -> Iterator[RawAttack]:
    fields = [f"X{number}: y" for number in range(100_000)]
    yield _refuse("100,000 fields of a head", partial(write_request, _LENGTH, *fields))
    yield _refuse("a field of 1 MB", partial(write_request, _LENGTH, "X: " + "a" * 1_000_000))
    path = "/" + "a" * 100_000
    yield _refuse("a path of 100 kB", partial(write_request, _CLOSE, method="GET", path=path))
    health = write_request(method="GET", path="/health")
    last = write_request(_CLOSE, method="GET", path="/health")
    yield RawAttack("300 requests at once", lambda: health * 300 + last, (200,) * 301)
    chat = write_request(_LENGTH, body=BODY)
    yield RawAttack("nonsense behind a request", lambda: chat + b"\0\1\r\n\r\n", (200, 400))


def _list_protocols() -> Iterator[RawAttack]:
    get = partial(write_request, method="GET")
    for name, path, status in (
        ("a URL of another protocol", "ftp://localhost/health", 404),
        ("a path of two slashes", "//evil.example/health", 404),
        ("a path of bytes that are no text", "/v1/responses/%00%zz%ff", 404),
        ("a limit of 5,000 digits", "/v1/responses/x/input_items?limit=" + "9" * 5_000, 400),
    ):
        yield RawAttack(name, partial(get, _CLOSE, path=path), (status,))
    unknown = partial(write_request, _CLOSE, method="FROB", path="/health")
    yield RawAttack("an unknown method", unknown, (405,))
    packed = partial(write_request, _LENGTH, _CLOSE, "Content-Encoding: gzip", body=BODY)
    yield RawAttack("a packed body", packed, (415,))
    body = BODY.decode().encode("utf-16")
    length = f"Content-Length: {len(body)}"
    yield _refuse("a body in UTF-16", partial(write_request, length, _CLOSE, body=body))
    yield _refuse("TLS", lambda: bytes.fromhex("160301020001000100fc0303") + b"a" * 100)
    waiting = ("Expect: 100-continue", _LENGTH, _CLOSE)
    waited = partial(write_request, *waiting, body=BODY)
    yield RawAttack("a body that waits to be asked for", waited, (100, 200))


CONNECTIONS = (*_list_lengths(), *_list_floods(), *_list_protocols())
