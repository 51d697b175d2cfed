"""Reasoning that clients carry back: sealed, as `encrypted_content` of Responses, or signed, as in
Messages."""

import base64
import binascii
import hashlib
from typing import Any

from server.errors import refuse

OWN = b"constrained:"
"""The beginning of this server's sealed texts; those of other servers cannot be read here."""
HASH_BYTES = 8


def seal(text: str) -> str:
    """Returns the reasoning as `encrypted_content`: opaque to clients, with a hash that shows
    whether it is complete."""
    data = text.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(OWN + _hash(data) + data).decode()


def unseal(sealed: Any, where: str) -> str | None:
    """Returns the text that was sealed; None: another server has sealed it. A damaged one is
    refused."""
    if not isinstance(sealed, str):
        raise refuse("it must be a text", where)
    if not is_sealed_here(sealed):
        return None
    try:
        data = base64.b64decode(sealed, altchars=b"-_", validate=True)[len(OWN) :]
        if data[:HASH_BYTES] == _hash(data[HASH_BYTES:]):
            return data[HASH_BYTES:].decode("utf-8", "surrogatepass")
    except (ValueError, binascii.Error):
        pass
    message = "this reasoning was damaged since this server wrote it: leave the item out"
    raise refuse(message, where, "invalid_encrypted_content")


def sign(thought: str) -> str:
    """Returns the signature of a block of thinking: an opaque text, which clients carry back. It
    marks a block as ours, but proves nothing; any returned block is accepted."""
    digest = hashlib.sha256(f"constrained {thought}".encode("utf-8", "replace")).digest()
    return base64.b64encode(OWN + digest).decode()


def is_sealed_here(sealed: Any) -> bool:
    """Returns True for a text that this server has sealed or signed, whole or not."""
    return isinstance(sealed, str) and sealed.startswith(base64.b64encode(OWN).decode())


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=HASH_BYTES, person=b"reasoning").digest()
