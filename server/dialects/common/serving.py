"""Shared by the paths of all dialects: finds the model of a request, and the owner of what the
request stores."""

import hashlib
from functools import partial

from fastapi import Request

from server.http.disconnects import wait_for_client
from server.http.gate import find_key
from server.http.leases import hold
from server.models.served_models import ServedModels
from server.turns.service import Service


async def find_named_service(request: Request, name: str | None) -> Service:
    """Returns the model of this name. It stays loaded until the request has been answered.

    Args:
        request: its body, if it has one, must have been read: waiting for a model would consume it.

    Raises:
        HttpError: there is no such model, it cannot be loaded, or the client has disconnected.
    """
    models: ServedModels = request.app.state.models
    model = await wait_for_client(request, models.acquire(name))
    hold(request.scope, partial(models.release, model))
    assert model.service is not None, "who has acquired it keeps it loaded"
    return model.service


def find_key_owner(request: Request) -> str:
    """Returns the owner of what a request stores and finds on the server: a hash of its API key; ""
    if no key is needed."""
    if not request.app.state.settings.api_keys:
        return ""
    return hashlib.sha256(find_key(request.scope["headers"])).hexdigest()
