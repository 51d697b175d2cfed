"""The hash chain of a prompt: a hash for each of its prefixes, in steps of one block of tokens.

The tokens are those that the model reads, so they include the tools and system messages as the chat
template writes them. The chain begins with the cache scope, so clients that share no cache have no
hash in common.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

from constrained.prompt.cache_scope import CacheScope

BLOCK = 64  # tokens in a block
_NAME_BYTES = 8


def chain_prefixes(tokens: Sequence[int], scope: CacheScope, block: int = BLOCK) -> tuple[int, ...]:
    """Returns the hashes of the prefixes of one block, two blocks and so on. Tokens after the last
    complete block are left out. Without a scope, a prompt is not cached and has no hashes."""
    if scope is None:
        return ()
    data = array("i", tokens).tobytes()
    size = block * array("i").itemsize
    name = blake2b(scope.encode(), digest_size=_NAME_BYTES, person=b"prefix chain").digest()
    names: list[int] = []
    for end in range(size, len(data) + 1, size):
        name = blake2b(name + data[end - size : end], digest_size=_NAME_BYTES).digest()
        names.append(int.from_bytes(name))
    return tuple(names)


def thin_out(chain: Sequence[int], stride: int, *, known: int = 0) -> list[int]:
    """Returns every `stride`-th hash of a chain, and the last one: enough to find a prefix again,
    with less precision.

    Args:
        known: the number of hashes at the beginning that are known already; only the last of them
            is kept.
    """
    taken: list[int] = []
    if known:
        taken.append(chain[known - 1])
    taken += islice(chain, known + stride - 1 - known % stride, None, stride)
    if len(chain) > known and len(chain) % stride:
        taken.append(chain[-1])
    return taken
