"""The models that requests hold: each lets go of its own when its answer is complete. Plain ASGI,
so that streams flow through it."""

from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from server.models.served_models import ServedModel, ServedModels

_HELD = "constrained.models"


class ModelLeases:
    """Releases what requests hold of the models of the server.

    Args:
        app: what asks for models.
        models: those of the server.
    """

    def __init__(self, app: ASGIApp, models: ServedModels):
        self._app = app
        self._models = models

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[ServedModel] = []
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            for model in held:
                self._models.release(model)


def hold(scope: MutableMapping[str, Any], model: ServedModel) -> None:
    """The request of this scope holds a model, until its answer is complete."""
    scope[_HELD].append(model)
