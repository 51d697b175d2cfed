"""Which replicas have computed which prefixes: from hash chains to the numbers of replicas.

It may lack entries: a missing one only means that a prompt is computed again, never a wrong answer.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from grammars.limits.byte_cache import MIB
from server.cluster.prefix_chain import thin_out

DEFAULT_MAX_BYTES = 256 * MIB
ENTRY_BYTES = 240
"""Of one name with one holder: the place in the dictionary, the number, the tuple."""
HOLDER_BYTES = 8
MAX_HOLDERS = 64
"""Replicas that are known for one prefix: tools that everybody has would have thousands."""
STRIDE = 4
"""Of the blocks of a chain, one in this many is kept, and the last one."""


class PrefixIndex:
    """The prefixes that replicas have computed, in about `max_bytes`; those that were not used for
    the longest time are forgotten first."""

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
