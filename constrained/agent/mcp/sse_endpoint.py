"""Checks the address that an SSE server sends in its first event, `endpoint`, for the client's
messages.

The package `mcp` refuses an address on another host, but then waits for another one endlessly. Here
the connection ends with the reason.
"""

import re
from codecs import BOM_UTF8
from urllib.parse import urljoin, urlsplit

from constrained.agent.mcp.bounded_http import ForeignEndpointError

MAX_BEGIN_LENGTH = 65_536  # bytes that are looked through for the event
MAX_SHOWN_LENGTH = 200  # characters of an address in a message
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EndpointCheck:
    """Looks at the beginning of a stream of events.

    Args:
        url: the address of the stream.
    """

    def __init__(self, url: str):
        self._url = url
        self._room = MAX_BEGIN_LENGTH
        self._line = bytearray()
        self._ends_in_cr = False
        self._is_first = True
        self._is_found = False
        self._event = ""
        self._data: list[str] = []

    def take(self, piece: bytes) -> None:
        """Looks at the next piece. Each byte is looked at once.

        Raises:
            ForeignEndpointError: the event names an address on another host.
        """
        piece = piece[: self._room]
        if not piece:
            return
        self._room -= len(piece)
        begin = 1 if self._ends_in_cr and piece.startswith(b"\n") else 0  # the rest of a CR LF
        self._ends_in_cr = piece.endswith(b"\r")
        *ended, rest = _LINE_END.split(piece[begin:])
        for part in ended:
            self._line += part
            self._take_line(bytes(self._line))
            self._line.clear()
        self._line += rest

    def _take_line(self, line: bytes) -> None:
        if self._is_first:
            line = line.removeprefix(BOM_UTF8)
            self._is_first = False
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "" if not line:
                self._end_event()
            case _:  # a comment, or a field other than the address
                pass

    def _end_event(self) -> None:
        is_endpoint, address = self._event == "endpoint", "\n".join(self._data)
        self._event, self._data = "", []
        if is_endpoint and not self._is_found:
            self._is_found = True
            self._room = 0
            self._check(address)

    def _check(self, address: str) -> None:
        endpoint = urljoin(self._url, address)
        ours, theirs = urlsplit(self._url), urlsplit(endpoint)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            message = (
                f"it names an address on another host, {endpoint[:MAX_SHOWN_LENGTH]}, to which "
                "nothing is sent"
            )
            raise ForeignEndpointError(message)
