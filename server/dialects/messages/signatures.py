"""Messages: the signatures of blocks of thinking, which clients carry back."""

import base64
import binascii
import hashlib
from typing import Any

OWN = b"constrained:"


def sign(thought: str) -> str:
    """The signature of a block of thinking: an opaque text, which clients carry back. It says that
    the block is ours, and is no proof of it; whatever comes back is taken."""
    digest = hashlib.sha256(f"constrained {thought}".encode("utf-8", "replace")).digest()
    return base64.b64encode(OWN + digest).decode()


def is_signed_here(signature: Any) -> bool:
    """True of a signature that this server has written, as far as it says so itself."""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    try:
        return base64.b64decode(signature).startswith(OWN)
    except binascii.Error:
        return False
