"""What requests hold, such as the model that answers: it is let go of when the answer is complete.
Plain ASGI, so that streams flow through it."""

from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_HELD = "constrained.held"


class _Held:
    """What a request holds."""

    def __init__(self) -> None:
        self._releases = ExitStack()  # which calls all of them, also where one fails
        self._is_over = False

    def add(self, release: Callable[[], None]) -> None:
        """It holds something more; nothing any more, if it is answered."""
        if self._is_over:
            release()
        else:
            self._releases.callback(release)

    def let_go(self) -> None:
        """The request is answered."""
        self._is_over = True
        self._releases.close()


class Leases:
    """Lets go of what requests hold.

    Args:
        app: what holds it.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = _Held()
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            held.let_go()


def hold(scope: MutableMapping[str, Any], release: Callable[[], None]) -> None:
    """The request of this scope holds something; `release` is called when it is answered, and at
    once if it is."""
    scope[_HELD].add(release)
