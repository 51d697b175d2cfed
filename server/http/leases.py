"""What requests hold, such as the model that answers: it is let go of when the answer is complete.
Plain ASGI, so that streams flow through it."""

from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_HELD = "constrained.held"


class Leases:
    """Lets go of what requests hold.

    Args:
        app: what holds it.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Callable[[], None]] = []
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            for release in held:
                release()


def hold(scope: MutableMapping[str, Any], release: Callable[[], None]) -> None:
    """The request of this scope holds something; `release` is called when it is answered."""
    scope[_HELD].append(release)
