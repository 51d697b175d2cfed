"""Responses: reasoning as clients carry it back without reading it (`encrypted_content`)."""

import base64
import binascii
import hashlib
from typing import Any

from server.errors import HttpError

MARK = 8  # bytes of the hash in front of a sealed text


def seal(text: str) -> str:
    """Reasoning as `encrypted_content`: opaque to clients, and told from that of others."""
    data = text.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(_mark(data) + data).decode()


def unseal(sealed: Any, where: str) -> str:
    """The text that was sealed.

    Raises:
        HttpError: it is not what this server has written.
    """
    try:
        data = base64.b64decode(sealed, altchars=b"-_", validate=True)
        if data[:MARK] == _mark(data[MARK:]):
            return data[MARK:].decode("utf-8", "surrogatepass")
    except (TypeError, ValueError, binascii.Error):
        pass
    message = "this reasoning was not written by this server: leave the item out"
    raise HttpError(400, message, "invalid_encrypted_content", where)


def _mark(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=MARK, person=b"reasoning").digest()
