"""Releases what requests hold, such as their model, when the answer is complete. Plain ASGI, so
that it does not buffer streams."""

from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_HELD = "constrained.held"


class _Held:
    """What a request holds."""

    def __init__(self) -> None:
        self._releases = ExitStack()  # calls every callback, even if one fails
        self._is_over = False

    def add(self, release: Callable[[], None]) -> None:
        """Adds a release; calls it immediately if the request has been answered."""
        if self._is_over:
            release()
        else:
            self._releases.callback(release)

    def release_all(self) -> None:
        """Releases everything, since the request has been answered."""
        self._is_over = True
        self._releases.close()


class Leases:
    """Releases what requests hold.

    Args:
        app: the application whose requests hold something.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = _Held()
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            held.release_all()


def hold(scope: MutableMapping[str, Any], release: Callable[[], None]) -> None:
    """Makes a request hold something. `release` is called when the request has been answered;
    immediately, if it has been already.

    Args:
        scope: the ASGI scope of the request.
    """
    scope[_HELD].add(release)
