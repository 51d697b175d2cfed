"""Messages: the signatures of blocks of thinking, which clients carry back."""

import base64
import binascii
import hashlib
from typing import Any

OWN = b"constrained:"


def sign(thought: str) -> str:
    """Returns the signature of a block of thinking: an opaque text, which clients carry back. It
    marks a block as ours, but proves nothing; any returned block is accepted."""
    digest = hashlib.sha256(f"constrained {thought}".encode("utf-8", "replace")).digest()
    return base64.b64encode(OWN + digest).decode()


def is_signed_here(signature: Any) -> bool:
    """Returns whether a signature looks like one that this server has written."""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    try:
        return base64.b64decode(signature).startswith(OWN)
    except binascii.Error:
        return False
