"""The address that a server over SSE names in its first event, for what is posted to it.

The package `mcp` refuses one on another host, and then waits for another one without end; here the
connection ends, and says why.
"""

import re
from urllib.parse import urljoin, urlsplit

from constrained.mcp.bounded_http import ForeignEndpointError

LONGEST_EVENT = 65_536  # bytes that are looked through for the end of the first event
LONGEST_SHOWN = 200  # characters of an address in a message
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINES = re.compile(r"\r\n|\n|\r")


class EndpointCheck:
    """Looks at the beginning of a stream of events.

    Args:
        url: the address of the stream.
    """

    def __init__(self, url: str):
        self._url = url
        self._begin: bytes | None = b""

    def take(self, piece: bytes) -> None:
        """Looks at the next piece.

        Raises:
            ForeignEndpointError: the first event names an address on another host.
        """
        if self._begin is None:
            return
        self._begin += piece[:LONGEST_EVENT]
        end = _END.search(self._begin)
        if end is not None:
            self._check(self._begin[: end.start()].decode("utf-8", "replace"))
        if end is not None or len(self._begin) > LONGEST_EVENT:
            self._begin = None

    def _check(self, event: str) -> None:
        fields: dict[str, str] = {}
        for line in _LINES.split(event):
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        if fields.get("event") != "endpoint":
            return
        endpoint = urljoin(self._url, fields.get("data", ""))
        ours, theirs = urlsplit(self._url), urlsplit(endpoint)
        if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
            message = (
                f"it names an address on another host, {endpoint[:LONGEST_SHOWN]}, to which "
                "nothing is sent"
            )
            raise ForeignEndpointError(message)
