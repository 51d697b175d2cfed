"""The hash chain of a prompt: a name for each of its prefixes, a block of tokens at a time.

The tokens are those that the model reads, so what the chat template makes of tools and system
messages is inside. The chain begins with the cache scope: who does not share a cache has no name in
common.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice

from constrained.cache_scope import CacheScope

BLOCK = 64
"""Tokens in a block."""
_NAME_BYTES = 8


def chain_prefixes(tokens: Sequence[int], scope: CacheScope, block: int = BLOCK) -> tuple[int, ...]:
    """The names of the prefixes of one block, two blocks and so on; tokens after the last whole
    block are left out.

    Args:
        tokens: ids of the prompt.
        scope: of those who share what is computed; None: the prompt is kept for nobody, and has no
            names.
        block: tokens in a block.
    """
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
    """Every so manieth name of a chain, and the last one: enough to find a prefix again, if with
    less precision.

    Args:
        chain: see `chain_prefixes`.
        stride: of so many names, one is taken.
        known: of the first so many names only the last is taken: the others are kept already.
    """
    taken: list[int] = []
    if known:
        taken.append(chain[known - 1])
    taken += islice(chain, known + stride - 1 - known % stride, None, stride)
    if len(chain) > known and len(chain) % stride:
        taken.append(chain[-1])
    return taken
