"""Cache scopes: cached results are shared only between requests of the same scope.

The response time and the count of cached tokens reveal whether a prompt was cached. Without scopes,
a client could guess the prompts of others piece by piece.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

from constrained.errors import RequestError

CacheScope: TypeAlias = str | None
"""Names the clients that share cached results; None: the cache is neither read nor written."""
COMMON = ""
"""The scope of requests without a salt, and of snapshots of versions without scopes."""


def name_scope(salt: str | None) -> str:
    """Returns the scope of a salt; without one, the common scope. It is a hash, since a salt may be
    a secret such as an API key, and scopes are stored in files."""
    if salt is None:
        return COMMON
    if not isinstance(salt, str) or not salt:
        hint = "Use a text of one character or more, or leave it out"
        raise RequestError("it is not text, or it is empty", where="/cache_salt", hint=hint)
    data = salt.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=16, person=b"cache scope").hexdigest()


@dataclass(frozen=True)
class ScopedTokens:
    tokens: list[int]
    scope: CacheScope
