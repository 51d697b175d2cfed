"""The prefixes of prompts by name, and which replicas have computed which of them.

The name of a prefix is its hash, in steps of one block of tokens; those of a prompt are its hash
chain. The tokens are those that the model reads, so they include the tools and system messages as
the chat template writes them. The chain begins with the cache scope, so clients that share no cache
have no hash in common.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from constrained.prompt.cache_scope import CacheScope
from grammars.limits.byte_cache import MIB

BLOCK = 64  # tokens in a block
_NAME_BYTES = 8
DEFAULT_MAX_BYTES = 256 * MIB
ENTRY_BYTES = 240
"""Of one name with one holder: the place in the dictionary, the number, the tuple."""
HOLDER_BYTES = 8
MAX_HOLDERS = 64
"""Replicas that are known for one prefix: tools that everybody has would have thousands."""
STRIDE = 4
"""Of the blocks of a chain, one in this many is kept, and the last one."""


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
    with less precision. Of those that are `known` already, at its beginning, only the last is
    kept."""
    taken: list[int] = []
    if known:
        taken.append(chain[known - 1])
    taken += islice(chain, known + stride - 1 - known % stride, None, stride)
    if len(chain) > known and len(chain) % stride:
        taken.append(chain[-1])
    return taken


class PrefixIndex:
    """The prefixes that replicas have computed, in about `max_bytes`; those that were not used for
    the longest time are forgotten first. A missing entry only means that a prompt is computed
    again, never a wrong answer."""

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES, stride: int = STRIDE):
        self._max_bytes = max_bytes
        self._stride = stride
        self._holders: OrderedDict[int, tuple[int, ...]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._holders)

    @property
    def bytes(self) -> int:
        return self._bytes

    def note(self, replica: int, chain: Sequence[int], known: int = 0) -> None:
        """Notes that a replica has computed a prompt, of whose blocks it is known to have `known`
        already."""
        self.note_names(replica, thin_out(chain, self._stride, known=known))

    def note_names(self, replica: int, names: Sequence[int]) -> None:
        for name in names:
            self._add(name, replica)
        while self._bytes > self._max_bytes:
            _, holders = self._holders.popitem(last=False)
            self._bytes -= _measure(holders)

    def _add(self, name: int, replica: int) -> None:
        holders = self._holders.pop(name, ())
        if holders:
            self._bytes -= _measure(holders)
        if not holders or holders[-1] != replica:
            others = tuple(holder for holder in holders if holder != replica)
            holders = (*others, replica)[-MAX_HOLDERS:]
        self._holders[name] = holders
        self._bytes += _measure(holders)

    def find(self, chain: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yields the prefixes of a prompt that replicas have, the longest first: how many blocks of
        the prompt, and the replicas that have them, the latest one last."""
        for blocks in range(len(chain), 0, -1):
            holders = self._holders.get(chain[blocks - 1])
            if holders is not None:
                yield blocks, holders


def _measure(holders: tuple[int, ...]) -> int:
    return ENTRY_BYTES + HOLDER_BYTES * len(holders)
