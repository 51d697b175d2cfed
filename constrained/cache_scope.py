"""Cache scopes: what was computed for a request is found by requests of the same scope alone.

Whether a prompt is known can be told from the time that it takes, and from the count of cached
tokens: who may try prompts out against those of others reads them, a piece at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from constrained.errors import RequestError

CacheScope: TypeAlias = str | None
"""The name of those who share a cache; None: nothing is taken from it, and nothing is kept."""
COMMON = ""
"""The scope of requests that name none, and of snapshots from before there were scopes."""


def name_scope(salt: str | None) -> str:
    """The scope of those who share a salt; None: the common one.

    A salt may be a secret, such as an API key, and the name stands in files: it is a hash.

    Raises:
        RequestError: it is not text, or it is empty.
    """
    if salt is None:
        return COMMON
    if not isinstance(salt, str) or not salt:
        hint = "Use a text of one character or more, or leave it out"
        raise RequestError("it is not text, or it is empty", where="/cache_salt", hint=hint)
    data = salt.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16, person=b"cache scope").hexdigest()


@dataclass(frozen=True)
class ScopedTokens:
    """Tokens, and the scope that may have computed them already."""

    tokens: list[int]
    scope: CacheScope


def scope_tokens(tokens: Sequence[int], scope: CacheScope) -> ScopedTokens:
    """The same tokens in a list of their own, with a scope."""
    return ScopedTokens([*tokens], scope)
