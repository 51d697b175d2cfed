"""Who asks: clients share the server by their API keys."""

import hashlib
from contextvars import ContextVar

current_client: ContextVar[str] = ContextVar("current_client", default="")
"""Names the client of the request under way; the same for all requests of one API key. The gate
sets it."""


def name_client(key: bytes) -> str:
    """The name of the client with this API key, which does not tell the key."""
    return hashlib.sha256(key).hexdigest()[:16]
