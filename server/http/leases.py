"""What requests hold until their answer is complete, such as their model. Plain ASGI, so that it
does not buffer streams."""

from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_HELD = "constrained.held"


class Leases:
    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as held:  # calls every callback, even if one fails
            scope[_HELD] = held
            await self._app(scope, receive, send)


def hold(scope: MutableMapping[str, Any], release: Callable[[], None]) -> None:
    """Makes the request of this ASGI scope hold something; `release` is called when it has been
    answered."""
    scope[_HELD].callback(release)
