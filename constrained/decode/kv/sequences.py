"""The prefix cache: which tokens each sequence of the KV cache holds, so that prompts reuse them.

An idle sequence keeps its tokens. The next prompt that begins with the same tokens takes the
sequence over and computes only the rest. Before a sequence is overwritten, its state can be saved
as a snapshot, and restored later.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

import numpy as np

from constrained.decode.kv.snapshot_files import SnapshotFiles
from constrained.decode.kv.snapshots import NO_CACHE, Cache, Outline, Snapshot, Snapshots
from constrained.decode.kv.write_behind import WriteBehind
from constrained.decode.metrics import Amount, Metrics
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError, ModelError
from constrained.prompt.cache_scope import COMMON, CacheScope, ScopedTokens
from grammars.wire.format import count_common

WAITING = 4  # snapshots that wait to be written take a quarter of the memory for snapshots
SPARED = 64  # tokens: computing fewer again is cheaper than a sequence or a snapshot for them
ENDLESS = 1 << 62  # tokens
LATEST = 4  # checkpoints that a sequence keeps, besides the pinned ones


class TokensInScope(Protocol):
    """Tokens, and the scope of the request that computed them or needs them."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def scope(self) -> CacheScope: ...


class ComputedTokens(TokensInScope, Protocol):
    """The computed tokens of a sequence or a snapshot, and where they can be cut."""

    @property
    def in_blocks(self) -> int:
        """The length of the prefix that was computed in whole blocks."""
        ...

    @property
    def checkpoints(self) -> Collection[int]:
        """Lengths of prefixes that a model which cannot cut anywhere can go back to."""
        ...


@dataclass
class SequenceState:
    """The state of one sequence; it is a `ComputedTokens`.

    Attributes:
        in_blocks: the length of the prefix that was computed in whole blocks.
        checkpoints: the saved states, by the number of tokens at that time.
        pins: lengths of prefixes that other prompts are likely to share with this one.
        stops: the numbers of tokens at which checkpoints are taken.
        used: when the sequence was used last, as a running number.
        scope: of the request that computed the tokens; None: no other request may reuse them.
    """

    tokens: list[int] = field(default_factory=list[int])
    in_blocks: int = 0
    checkpoints: dict[int, bytes] = field(default_factory=dict[int, bytes])
    pins: tuple[int, ...] = ()
    stops: frozenset[int] = frozenset()
    used: int = 0
    scope: CacheScope = None

    def cut(self, length: int) -> None:
        """Keeps only the first `length` tokens."""
        del self.tokens[length:]
        self.in_blocks = min(self.in_blocks, length)
        self.checkpoints = {at: data for at, data in self.checkpoints.items() if at <= length}

    def pin(self, places: Iterable[int], block: int) -> None:
        """Pins the prefixes of these lengths, rounded down to whole blocks."""
        whole = {place - place % block for place in places if place >= block}
        self.pins = tuple(sorted(whole))

    def copy(self) -> "SequenceState":
        """Returns the state for another sequence with the same tokens, without pins."""
        return SequenceState(
            [*self.tokens],
            self.in_blocks,
            {**self.checkpoints},
            used=self.used,
            scope=self.scope,
        )


def count_reusable(
    computed: ComputedTokens,
    wanted: TokensInScope,
    *,
    max_tokens: int,
    block: int,
    can_cut: Callable[[int], bool],
) -> int:
    """Returns how many of the computed tokens a prompt can reuse; 0 if the scopes differ.

    Args:
        max_tokens: the maximum of the result.
        block: the result is a multiple of this, unless all computed tokens are reused.
        can_cut: whether the computed tokens can be cut to a length; otherwise only the lengths of
            the checkpoints are possible.
    """
    if wanted.scope is None or wanted.scope != computed.scope:
        return 0
    length = min(count_common(computed.tokens, wanted.tokens), max_tokens)
    if block > 1:
        length = min(length, computed.in_blocks) // block * block
    if length == len(computed.tokens) or can_cut(length):
        return length
    return find_checkpoint(computed.checkpoints, length, block)


def find_checkpoint(checkpoints: Iterable[int], length: int, block: int = 1) -> int:
    """Returns the last checkpoint up to `length` that is a multiple of `block`, or else 0."""
    last = 0
    for position in checkpoints:
        if position <= length and position % block == 0:
            last = max(last, position)
    return last


class PrefixCache:
    """Saves states of sequences as snapshots and restores them, if that saves enough tokens."""

    def __init__(self, engine: Engine, block: int, cache: Cache):
        self._engine = engine
        self._block = block
        self.snapshots = Snapshots(cache.memory)
        self._writing = None
        if cache.folder is not None:
            name = f"{engine.fingerprint}, blocks of {block}"
            files = SnapshotFiles(cache.folder, name, cache.disk)
            self._writing = WriteBehind(files, cache.memory // WAITING, self.snapshots.note)
            self.snapshots.files = self._writing
        self._hits = 0
        self._misses = 0

    def measure(self, states: Sequence[SequenceState]) -> Metrics:
        """Returns the figures of the cache and of these sequences; any thread may call it."""
        count, tokens, size = 0, 0, 0
        for state in states:
            if state.tokens:
                count += 1
                tokens += len(state.tokens)
                # A copy: another thread may be taking a checkpoint while this one iterates.
                size += sum(map(len, [*state.checkpoints.values()]))
        snapshots = self.snapshots
        return Metrics(
            sequences=len(states),
            kv_cache=Amount(count, tokens, size),
            memory=snapshots.amount,
            disk=snapshots.files.amount if snapshots.files else Amount(),
            hits=self._hits,
            misses=self._misses,
            failures=snapshots.failures,
            last_failure=snapshots.last_failure,
        )

    @property
    def has_files(self) -> bool:
        """True if snapshots outlive this process."""
        return self._writing is not None

    def flush(self) -> None:
        """Writes the snapshots in memory to files, and waits until all are written."""
        self.snapshots.flush()
        if self._writing:
            self._writing.wait()

    def find(self, wanted: ScopedTokens, known: int) -> tuple[int, Outline | None]:
        """Finds the snapshot with the longest prefix of a prompt.

        Args:
            known: how many of these the sequences have already.

        Returns the length of the prefix and the snapshot; 0 and None if none spares enough tokens.
        """
        max_tokens = max(0, len(wanted.tokens) - 1)
        if max_tokens - known <= SPARED:
            return 0, None
        length, outline = self.snapshots.find(
            lambda outline: self._count_in_snapshot(outline, wanted, max_tokens)
        )
        if length - known <= SPARED:
            return 0, None
        return length, outline

    def look_up(self, wanted: ScopedTokens, known: int) -> Snapshot | None:
        """Finds and reads the snapshot with the longest prefix of a prompt, and counts a miss.

        Returns None if none spares enough tokens.
        """
        _, outline = self.find(wanted, known)
        while outline is not None:
            snapshot = self.snapshots.take(outline)
            if snapshot is not None:
                return snapshot
            _, outline = self.find(wanted, known)  # `take` has dropped the damaged one
        if len(wanted.tokens) - 1 - known > SPARED:
            self._misses += 1
        return None

    def restore(self, snapshot: Snapshot, number: int) -> SequenceState:
        """Restores a snapshot into an empty sequence, and returns the state of the sequence.

        Args:
            snapshot: is dropped if it cannot be restored.
        """
        outline = snapshot.outline
        try:
            self._engine.restore(number, len(outline.tokens), snapshot.state)
        except ModelError as error:
            self.snapshots.drop(outline)
            self.snapshots.note(error)
            raise
        self._hits += 1
        checkpoints = dict(zip(outline.checkpoints, snapshot.checkpoints, strict=True))
        return SequenceState([*outline.tokens], outline.in_blocks, checkpoints, scope=outline.scope)

    def take_snapshot(
        self, number: int, state: SequenceState, known: int, *, is_pinned: bool = False
    ) -> None:
        """Saves a sequence as a snapshot, if that keeps enough tokens that are nowhere else.

        Args:
            known: the length of its prefix that remains in this or another sequence.
            is_pinned: other prompts are likely to begin with all of its tokens.
        """
        if state.scope is None:
            return
        if self._count_usable(state) - max(known, self._find_whole(state, is_pinned)) <= SPARED:
            return
        size = self._engine.state_size(number) + sum(map(len, state.checkpoints.values()))
        if not self.snapshots.admits(size):
            return
        try:
            data = self._engine.save(number)
        except (ModelError, MemoryError) as error:
            self.snapshots.note(error)
            return
        checkpoints = tuple(state.checkpoints)
        outline = Outline(
            [*state.tokens],
            state.in_blocks,
            checkpoints,
            is_pinned=is_pinned,
            scope=state.scope,
        )
        for other in [*self.snapshots.outlines()]:
            if self._covers(outline, other):
                self.snapshots.drop(other)
        self.snapshots.put(Snapshot(outline, data, tuple(state.checkpoints.values())))

    def take_checkpoint(self, number: int, state: SequenceState) -> None:
        """Saves the state of a sequence as a checkpoint; deletes old ones that are not pinned."""
        try:
            state.checkpoints[len(state.tokens)] = self._engine.checkpoint(number)
        except (ModelError, MemoryError) as error:
            self.snapshots.note(error)
        loose = sorted(set(state.checkpoints).difference(state.pins))
        for position in loose[:-LATEST]:
            del state.checkpoints[position]

    def _find_whole(self, wanted: TokensInScope, is_pinned: bool) -> int:
        """Returns how many of the wanted tokens one snapshot has; if `is_pinned`, a pinned one."""

        def value(outline: Outline) -> int:
            if is_pinned and not outline.is_pinned:
                return 0
            return self._count_in_snapshot(outline, wanted, len(wanted.tokens))

        return self.snapshots.find(value)[0]

    def _covers(self, new: Outline, old: Outline) -> bool:
        if old.is_pinned or old.scope != new.scope:
            return False
        usable = self._count_usable(old)
        return usable - self._count_in_snapshot(new, old, usable) <= SPARED

    def _count_usable(self, computed: ComputedTokens) -> int:
        """Returns how many of the tokens a prompt that begins with all of them could reuse."""
        return computed.in_blocks if self._block > 1 else len(computed.tokens)

    def _count_in_snapshot(self, outline: Outline, wanted: TokensInScope, max_tokens: int) -> int:
        """`count_reusable` of a snapshot."""
        is_cut_anywhere = not self._engine.needs_checkpoints
        return count_reusable(
            outline,
            wanted,
            max_tokens=max_tokens,
            block=self._block,
            can_cut=lambda _: is_cut_anywhere,
        )

    def count_in_sequence(
        self, number: int, state: SequenceState, wanted: TokensInScope, max_tokens: int
    ) -> int:
        """`count_reusable` of a sequence."""
        return count_reusable(
            state,
            wanted,
            max_tokens=max_tokens,
            block=self._block,
            can_cut=lambda length: self._engine.can_cut(number, length),
        )

    def save_prefixes(
        self,
        number: int,
        states: Sequence[SequenceState],
        *,
        stays: int,
        shorten: Callable[[int], None],
    ) -> None:
        """Saves a sequence that is about to be cut, as one snapshot of all its tokens and one of
        each pinned prefix.

        Args:
            stays: the number of tokens that it will be cut to.
        """
        state = states[number]
        if self.snapshots.is_off or state.scope is None:
            return

        def find_elsewhere(wanted: TokensInScope) -> int:
            """Returns how many of the tokens another sequence has; all that stay if none exists."""
            known: list[int] = []
            for other, its in enumerate(states):
                if other != number:
                    known.append(self.count_in_sequence(other, its, wanted, len(wanted.tokens)))
            return max(known, default=stays)

        self.take_snapshot(number, state, max(stays, find_elsewhere(state)))
        # The longest prefix first, since the sequence is cut to each of them.
        for pin in reversed(state.pins):
            prefix = ScopedTokens(state.tokens[:pin], state.scope)
            if len(prefix.tokens) < pin or pin <= stays:
                continue
            if self.count_in_sequence(number, states[number], prefix, pin) < pin:
                continue
            known = find_elsewhere(prefix)
            if pin - max(known, self._find_whole(prefix, True)) > SPARED:
                shorten(pin)
                self.take_snapshot(number, states[number], known, is_pinned=True)


@dataclass(frozen=True)
class PrefixMatch:
    """A sequence that holds the first `length` tokens of a prompt and no others."""

    sequence: int
    length: int


class Sequences:
    """The sequences of an engine, and the tokens that each of them holds. Not thread-safe.

    Args:
        engine: is used by this object alone.
        block: reused prefixes consist of whole blocks of this many tokens, each computed in a
            separate decode. So the logits do not depend on what was cached. 1: prefixes of any
            length are reused.
        cache: the room for snapshots of sequences that are overwritten.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """

    def __init__(self, engine: Engine, block: int = 1, cache: Cache = NO_CACHE):
        self.engine = engine
        self._block = block
        self._states = [SequenceState() for _ in range(engine.max_sequences)]
        self._clock = count(1)
        self._prefix_cache = PrefixCache(engine, block, cache)

    @property
    def metrics(self) -> Metrics:
        """The figures of sequences and snapshots; any thread may read them."""
        return self._prefix_cache.measure(self._states)

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """Decodes as `Engine.decode` does, and notes the tokens of each sequence."""
        try:
            logits = self.engine.decode(chunks)
        except ContextError:
            raise
        except BaseException:
            # It is unknown how many of the tokens are in the KV cache now.
            for chunk in chunks:
                self.release(chunk.sequence)
            raise
        for chunk in chunks:
            state = self._states[chunk.sequence]
            size = len(chunk.tokens)
            state.tokens += chunk.tokens
            # A block counts only if it follows whole blocks and is a chunk of its own: then its
            # values do not depend on the batches before.
            if chunk.position == state.in_blocks and size == self._block:
                state.in_blocks += size
            state.used = next(self._clock)
            if len(state.tokens) in state.stops:
                self._prefix_cache.take_checkpoint(chunk.sequence, state)
        return logits

    def rollback(self, sequence: int, length: int) -> bool:
        """Cuts a sequence to its first `length` tokens; False if the engine cannot."""
        if not self.engine.rollback(sequence, length):
            return False
        self._states[sequence].cut(length)
        return True

    def go_back(self, sequence: int, length: int) -> int | None:
        """Cuts a sequence to its first `length` tokens, or to the last checkpoint before.

        Returns:
            How many tokens are left; None if the sequence cannot be cut, and has not changed.
        """
        state = self._states[sequence]
        if length == len(state.tokens) or self.rollback(sequence, length):
            return length
        position = find_checkpoint(state.checkpoints, length)
        if position == 0:
            return None
        try:
            self.engine.go_back(sequence, position, state.checkpoints[position])
        except ModelError:
            self.release(sequence)
            raise
        state.cut(position)
        return position

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence. Its scope stays: its turn may read its prompt again."""
        state = self._states[sequence]
        self._states[sequence] = SequenceState(used=state.used, scope=state.scope)
        self.engine.release(sequence)

    def tokens(self, sequence: int) -> Sequence[int]:
        """Returns the tokens of a sequence."""
        return self._states[sequence].tokens

    def pin(
        self, sequence: int, length: int, *, boundaries: Iterable[int], closed: int = 0
    ) -> None:
        """Notes which prefixes of a prompt later prompts are likely to share.

        Args:
            boundaries: the lengths of these prefixes; their snapshots are kept longest.
            closed: as in `CacheBreakpoints`.
        """
        state = self._states[sequence]
        state.pin([place for place in boundaries if place <= length], self._block)
        if self.engine.needs_checkpoints:
            # A recurrent model has only its state after the last token, so checkpoints are taken
            # on the way. The last token of a prompt is always decoded, for its logits.
            last = min(closed or length, length - 1)
            state.stops = frozenset((*state.pins, last - last % self._block))

    def until_stop(self, sequence: int) -> int:
        """Returns how many more tokens there are until the next checkpoint is taken."""
        state = self._states[sequence]
        size = len(state.tokens)
        return min((stop - size for stop in state.stops if stop > size), default=ENDLESS)

    def find(self, tokens: Sequence[int], scope: CacheScope = COMMON) -> int:
        """Returns how many of the first tokens a prompt of this scope can reuse."""
        wanted = ScopedTokens([*tokens], scope)
        known = max(self._compare(wanted))
        return max(known, self._prefix_cache.find(wanted, known)[0])

    def claim(
        self, tokens: Sequence[int], idle: Iterable[int], scope: CacheScope = COMMON
    ) -> PrefixMatch:
        """Prepares an idle sequence for a prompt: it holds the longest known prefix, and no more.

        Either the sequence with the prefix is cut, or the prefix is copied or restored into the
        least recently used sequence, depending on which loses less.

        Args:
            idle: the numbers of the sequences to choose from; at least one.
            scope: of the request. Only tokens of this scope are reused, and only requests of this
                scope will reuse those that the sequence gets.
        """
        number = self._fill(ScopedTokens([*tokens], scope), list(idle))
        self._states[number].scope = scope
        return PrefixMatch(number, len(self.tokens(number)))

    def _fill(self, wanted: ScopedTokens, idle: Collection[int]) -> int:
        """Puts the longest known prefix into an idle sequence, and returns its number."""
        restored = self._restore(wanted, idle)
        if restored is not None:
            return restored
        lengths = self._compare(wanted)

        def rank(number: int) -> tuple[int, bool, int]:
            """Longest common prefix first, then idle sequences, then those with fewest tokens."""
            return lengths[number], number in idle, -len(self.tokens(number))

        best = max(range(len(self._states)), key=rank)
        oldest = self._find_oldest(idle)
        is_little_lost = len(self.tokens(best)) - lengths[best] <= SPARED
        if best in idle and (is_little_lost or best == oldest):
            self._cut(best, lengths[best])
            return best
        self._cut(oldest, 0)
        if lengths[best]:
            self._copy(best, oldest, lengths[best])
        return oldest

    def forget_oldest(self, idle: Iterable[int]) -> bool:
        """Empties the least recently used of the idle sequences; False if all are empty already."""
        full = [number for number in idle if len(self.tokens(number))]
        if full:
            self._cut(self._find_oldest(full), 0)
        return bool(full)

    def save(self) -> None:
        """Empties all sequences and writes their states to files, if snapshots have a folder."""
        if not self._prefix_cache.has_files:
            return
        for number in range(len(self._states)):
            self._cut(number, 0)
        self._prefix_cache.flush()

    def clear(self) -> None:
        """Forgets all tokens of all sequences."""
        for number in range(len(self._states)):
            self.release(number)

    def _find_oldest(self, idle: Collection[int]) -> int:
        """Returns the sequence to overwrite first: an empty one, or the least recently used."""
        states = self._states
        return min(idle, key=lambda number: (bool(states[number].tokens), states[number].used))

    def _compare(self, wanted: ScopedTokens) -> list[int]:
        """Returns for each sequence how many of the first wanted tokens it can be cut to.

        The last token of the prompt is left out, because it must be decoded for its logits.
        """
        max_tokens = max(0, len(wanted.tokens) - 1)
        count_in = self._prefix_cache.count_in_sequence
        return [
            count_in(number, state, wanted, max_tokens) for number, state in enumerate(self._states)
        ]

    def _restore(self, wanted: ScopedTokens, idle: Collection[int]) -> int | None:
        """Restores the snapshot with the longest prefix, if it spares enough tokens.

        Returns the number of the sequence that has it now; None if there is no such snapshot.
        """
        while True:
            snapshot = self._prefix_cache.look_up(wanted, max(self._compare(wanted)))
            if snapshot is None:
                return None
            number = self._find_oldest(idle)
            self._cut(number, 0)
            try:
                self._states[number] = self._prefix_cache.restore(snapshot, number)
            except ModelError:  # the snapshot is dropped, and the error is noted
                continue
            self._states[number].used = next(self._clock)
            self._shorten(number, self._compare(wanted)[number])
            return number

    def _copy(self, source: int, target: int, length: int) -> None:
        state = self._states[source].copy()
        if self.engine.can_cut(source, length):
            self.engine.copy(source, target, length)
            state.cut(length)
            self._states[target] = state
        else:  # copy all tokens, then go back to a checkpoint
            self.engine.copy(source, target, len(state.tokens))
            self._states[target] = state
            self._shorten(target, length)

    def _save_prefixes(self, number: int, stays: int) -> None:
        shorten = partial(self._shorten, number)
        self._prefix_cache.save_prefixes(number, self._states, stays=stays, shorten=shorten)

    def _cut(self, number: int, length: int) -> None:
        """Cuts a sequence to its first `length` tokens, after saving what is lost."""
        if length < len(self.tokens(number)):
            self._save_prefixes(number, length)
            self._shorten(number, length)

    def _shorten(self, number: int, length: int) -> None:
        """Cuts a sequence to its first `length` tokens; empties it if that fails."""
        if length == 0:
            self.release(number)
        elif length < len(self.tokens(number)):
            try:
                kept = self.go_back(number, length)
            except ModelError as error:
                kept = None
                self._prefix_cache.snapshots.note(error)
            if kept is None:
                self.release(number)
