"""The KV cache: the tokens that the sequences of an engine have, so that none is computed twice.

A sequence that is free keeps its tokens: the next prompt that begins with them goes on from there
(prefix cache). What is about to be overwritten can be saved as a snapshot, and restored later.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np

from constrained.cache_scope import COMMON, CacheScope, ScopedTokens, scope_tokens
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError, ModelError
from constrained.kv.snapshot_files import SnapshotFiles
from constrained.kv.snapshots import NO_CACHE, Cache, Outline, Snapshot, Snapshots
from constrained.kv.write_behind import WriteBehind
from constrained.metrics import Amount, Metrics
from grammars.wire.format import count_common

WAITING = 4  # the part of the memory for snapshots that those may have that are to be written
SPARED = 64  # tokens: what is worth a sequence or a snapshot of its own, and worth waiting for
ENDLESS = 1 << 62  # tokens
LATEST = 4  # checkpoints of a sequence, beside the pinned ones


class TokensInScope(Protocol):
    """Tokens, and the scope that they were computed for, or are wanted for."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def scope(self) -> CacheScope: ...


class ComputedTokens(TokensInScope, Protocol):
    """Tokens that have been computed, of a sequence or a snapshot, and where they can be cut."""

    @property
    def in_blocks(self) -> int:
        """The number of first tokens that were computed in whole blocks."""
        ...

    @property
    def checkpoints(self) -> Collection[int]:
        """Numbers of first tokens that the model can go back to, if it cannot cut anywhere."""
        ...


@dataclass
class SequenceState:
    """The state of a sequence: `ComputedTokens`.

    Attributes:
        tokens: those in the KV cache.
        in_blocks: the number of first tokens that were computed in whole blocks.
        checkpoints: by the number of tokens that there were.
        pins: numbers of tokens that other prompts are likely to have in common with this one.
        stops: positions at which checkpoints are to be taken.
        used: a running number; the higher, the later it was used.
        scope: of the request that the tokens are of; None: no other request may have them.
    """

    tokens: list[int] = field(default_factory=list[int])
    in_blocks: int = 0
    checkpoints: dict[int, bytes] = field(default_factory=dict[int, bytes])
    pins: tuple[int, ...] = ()
    stops: frozenset[int] = frozenset()
    used: int = 0
    scope: CacheScope = None

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        del self.tokens[length:]
        self.in_blocks = min(self.in_blocks, length)
        self.checkpoints = {at: data for at, data in self.checkpoints.items() if at <= length}

    def copy(self) -> "SequenceState":
        """The same tokens, for another sequence; nothing is pinned there."""
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
    """The number of first tokens that a prompt can go on with: none of those of another scope.

    Args:
        computed: those of a sequence or snapshot.
        wanted: those that are wanted.
        max_tokens: so many at most.
        block: whole blocks of so many tokens only.
        can_cut: tells if what was computed can be cut to so many; if not, its checkpoints remain.
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
    """The last checkpoint within the first `length` tokens, on the edge of a block; 0: none is."""
    last = 0
    for position in checkpoints:
        if position <= length and position % block == 0:
            last = max(last, position)
    return last


class PrefixCache:
    """The snapshots of the sequences of an engine: saves and restores those that are worth it.

    See `Sequences` for the arguments.
    """

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

    def metrics(self, sequences: int, cached: Amount) -> Metrics:
        """The figures; `cached` is the amount in the sequences."""
        snapshots = self.snapshots
        return Metrics(
            sequences=sequences,
            kv_cache=cached,
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
        """Writes to files what is in memory, and waits for all of it."""
        self.snapshots.flush()
        if self._writing:
            self._writing.wait()

    def find(self, wanted: ScopedTokens, known: int) -> tuple[int, Outline | None]:
        """The snapshot that gains most over `known` tokens, and how many of the first it has; 0
        and None if that is not worth it."""
        max_tokens = max(0, len(wanted.tokens) - 1)
        if max_tokens - known <= SPARED:
            return 0, None
        length, outline = self.snapshots.find(
            lambda outline: self._count_reusable(outline, wanted, max_tokens)
        )
        if length - known <= SPARED:
            return 0, None
        return length, outline

    def look_up(self, wanted: ScopedTokens, known: int) -> Snapshot | None:
        """As `find`, and counts hits and misses."""
        _, outline = self.find(wanted, known)
        while outline is not None:
            snapshot = self.snapshots.take(outline)
            if snapshot is not None:
                return snapshot
            _, outline = self.find(wanted, known)  # that one is damaged, and forgotten by now
        if len(wanted.tokens) - 1 - known > SPARED:
            self._misses += 1
        return None

    def restore(self, snapshot: Snapshot, number: int) -> SequenceState:
        """Gives an empty sequence the state; raises ModelError, and forgets it, if it is no use."""
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

    def save(
        self, number: int, state: SequenceState, known: int, *, is_pinned: bool = False
    ) -> None:
        """Keeps the state of a sequence if it has much more than what is known elsewhere.

        Args:
            number: of the sequence.
            state: of the sequence.
            known: the number of its tokens that stay, or are in other sequences.
            is_pinned: others are likely to begin with all of it.
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

    def is_worth_pinning(self, prefix: ScopedTokens, known: int) -> bool:
        """True if there is no pinned snapshot of these tokens yet."""
        return len(prefix.tokens) - max(known, self._find_whole(prefix, True)) > SPARED

    def _find_whole(self, wanted: TokensInScope, is_pinned: bool) -> int:
        """The number of tokens that a snapshot has; only pinned ones stand for pinned ones."""

        def value(outline: Outline) -> int:
            if is_pinned and not outline.is_pinned:
                return 0
            return self._count_reusable(outline, wanted, len(wanted.tokens))

        return self.snapshots.find(value)[0]

    def _covers(self, new: Outline, old: Outline) -> bool:
        """True if the old one is of little use once there is the new one."""
        if old.is_pinned or old.scope != new.scope:
            return False
        usable = self._count_usable(old)
        return usable - self._count_reusable(new, old, usable) <= SPARED

    def _count_usable(self, computed: ComputedTokens) -> int:
        """The number of tokens that a prompt which begins with all of them could go on with."""
        return computed.in_blocks if self._block > 1 else len(computed.tokens)

    def _count_reusable(self, outline: Outline, wanted: TokensInScope, max_tokens: int) -> int:
        is_cut_anywhere = not self._engine.needs_checkpoints
        return count_reusable(
            outline,
            wanted,
            max_tokens=max_tokens,
            block=self._block,
            can_cut=lambda _: is_cut_anywhere,
        )


@dataclass(frozen=True)
class PrefixMatch:
    """A sequence holds the first `length` tokens of a prompt, and nothing else."""

    sequence: int
    length: int


class Sequences:
    """An engine that remembers the tokens of its sequences. Not for two threads at once.

    Args:
        engine: that nobody else uses. What changes its sequences goes through this object.
        block: go on with whole blocks of so many tokens only, each computed by itself: what is
            computed then does not depend on what was there. 1: with any number, however computed.
        cache: the room for the states of sequences that others take over.

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
        """The figures of sequences and snapshots; also for other threads."""
        count, tokens, size = 0, 0, 0
        for state in self._states:
            if state.tokens:
                count += 1
                tokens += len(state.tokens)
                # A copy: another thread may be taking a checkpoint while this one iterates.
                size += sum(map(len, [*state.checkpoints.values()]))
        return self._prefix_cache.metrics(len(self._states), Amount(count, tokens, size))

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        """As the engine's."""
        try:
            logits = self.engine.decode(chunks)
        except ContextError:
            raise
        except BaseException:
            # Nobody knows how many of the tokens llama.cpp has taken.
            for chunk in chunks:
                self.release(chunk.sequence)
            raise
        for chunk in chunks:
            state = self._states[chunk.sequence]
            size = len(chunk.tokens)
            state.tokens += chunk.tokens
            # Only whole blocks from the start on, each in a chunk of its own, are always the same.
            if chunk.position == state.in_blocks and size == self._block:
                state.in_blocks += size
            state.used = next(self._clock)
            if len(state.tokens) in state.stops:
                self._take_checkpoint(chunk.sequence)
        return logits

    def rollback(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        if not self.engine.rollback(sequence, length):
            return False
        self._states[sequence].cut(length)
        return True

    def go_back(self, sequence: int, length: int) -> int | None:
        """Forgets all tokens of a sequence but the first `length`, or fewer: up to a checkpoint.

        Returns:
            How many are left; None if the model cannot go back, then nothing has changed.

        Raises:
            ModelError: the model failed, and the sequence is released.
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
        """Forgets all tokens of a sequence; its scope stays, for it may be read anew."""
        state = self._states[sequence]
        self._states[sequence] = SequenceState(used=state.used, scope=state.scope)
        self.engine.release(sequence)

    def tokens(self, sequence: int) -> Sequence[int]:
        """The tokens of a sequence."""
        return self._states[sequence].tokens

    def pin(
        self, sequence: int, length: int, *, boundaries: Iterable[int], closed: int = 0
    ) -> None:
        """Notes where in a prompt others are likely to differ from it, and this one may go on anew.

        Args:
            sequence: will read the prompt.
            length: of the prompt.
            boundaries: numbers of its first tokens; what is kept of these stays longest.
            closed: as in `CacheBreakpoints`.
        """
        state = self._states[sequence]
        pins: set[int] = set()
        for boundary in boundaries:
            if 0 < boundary <= length:
                pins.add(self._round_down(boundary))
        state.pins = tuple(sorted(pins - {0}))
        if self.engine.needs_checkpoints:
            # A recurrent state is that of the last token alone: it is saved while it is there.
            # The last token is computed anew, for its logits.
            last = min(closed or length, length - 1)
            state.stops = frozenset((*state.pins, self._round_down(last)))

    def _round_down(self, length: int) -> int:
        return length - length % self._block

    def until_stop(self, sequence: int) -> int:
        """The number of tokens up to the next checkpoint that is to be taken."""
        state = self._states[sequence]
        size = len(state.tokens)
        left = ENDLESS
        for stop in state.stops:
            if stop > size:
                left = min(left, stop - size)
        return left

    def find(self, tokens: Sequence[int], scope: CacheScope = COMMON) -> int:
        """The number of first tokens that are known in a scope, and can be gone on with."""
        wanted = scope_tokens(tokens, scope)
        known = max(self._compare(wanted))
        return max(known, self._prefix_cache.find(wanted, known)[0])

    def claim(
        self, tokens: Sequence[int], idle: Iterable[int], scope: CacheScope = COMMON
    ) -> PrefixMatch:
        """Makes an idle sequence hold as many of the first tokens as are known in a scope, and no
        others; what it has from now on is known there.

        Either the one that has them goes on with them, or they are copied or restored to the one
        that was not used for the longest time: what is lost should be worth as little as possible.
        """
        number = self._fill(scope_tokens(tokens, scope), list(idle))
        self._states[number].scope = scope
        return PrefixMatch(number, self._count(number))

    def _fill(self, wanted: ScopedTokens, idle: Collection[int]) -> int:
        """Makes an idle sequence hold what is known of the tokens; returns which one."""
        restored = self._restore(wanted, idle)
        if restored is not None:
            return restored
        lengths = self._compare(wanted)

        def rank(number: int) -> tuple[int, bool, int]:
            """Most tokens in common first, then idle ones, then those with the least to lose."""
            return lengths[number], number in idle, -self._count(number)

        best = max(range(len(self._states)), key=rank)
        oldest = self._find_oldest(idle)
        is_little_lost = self._count(best) - lengths[best] <= SPARED
        if best in idle and (is_little_lost or best == oldest):
            self._cut(best, lengths[best])
            return best
        self._empty(oldest)
        if lengths[best]:
            self._copy(best, oldest, lengths[best])
        return oldest

    def _count(self, number: int) -> int:
        """The number of tokens of a sequence."""
        return len(self._states[number].tokens)

    def forget_oldest(self, idle: Iterable[int]) -> bool:
        """Empties the idle sequence that was not used for the longest time; False if all are."""
        full = [number for number in idle if self._count(number)]
        if full:
            self._empty(self._find_oldest(full))
        return bool(full)

    def save(self) -> None:
        """Empties all sequences, and writes their state to files, if there are any."""
        if not self._prefix_cache.has_files:
            return
        for number in range(len(self._states)):
            self._empty(number)
        self._prefix_cache.flush()

    def clear(self) -> None:
        """Forgets all tokens of all sequences."""
        for number in range(len(self._states)):
            self.release(number)

    def _find_oldest(self, idle: Collection[int]) -> int:
        """The one to empty first: one that is empty, or the one that was used longest ago."""
        states = self._states
        return min(idle, key=lambda number: (bool(states[number].tokens), states[number].used))

    def _compare(self, wanted: ScopedTokens) -> list[int]:
        """For each sequence, the number of first tokens that it can be cut to.

        Their last one does not count, for its logits are wanted; and a sequence that the engine
        cannot cut can go back to its checkpoints alone.
        """
        max_tokens = max(0, len(wanted.tokens) - 1)
        return [
            self._count_reusable(number, wanted, max_tokens) for number in range(len(self._states))
        ]

    def _count_reusable(self, number: int, wanted: TokensInScope, max_tokens: int) -> int:
        return count_reusable(
            self._states[number],
            wanted,
            max_tokens=max_tokens,
            block=self._block,
            can_cut=lambda length: self.engine.can_cut(number, length),
        )

    def _restore(self, wanted: ScopedTokens, idle: Collection[int]) -> int | None:
        """Restores a snapshot that gains much over all sequences; returns which one has it, if any
        does."""
        while True:
            snapshot = self._prefix_cache.look_up(wanted, max(self._compare(wanted)))
            if snapshot is None:
                return None
            number = self._find_oldest(idle)
            self._empty(number)
            try:
                self._states[number] = self._prefix_cache.restore(snapshot, number)
            except ModelError:  # it is forgotten, and noted
                continue
            self._states[number].used = next(self._clock)
            max_tokens = max(0, len(wanted.tokens) - 1)
            self._shorten(number, self._count_reusable(number, wanted, max_tokens))
            return number

    def _copy(self, source: int, target: int, length: int) -> None:
        """Gives an empty sequence what another one can be cut to."""
        state = self._states[source].copy()
        if self.engine.can_cut(source, length):
            self.engine.copy(source, target, length)
            state.cut(length)
            self._states[target] = state
        else:  # all of it, and back to a checkpoint
            self.engine.copy(source, target, len(state.tokens))
            self._states[target] = state
            self._shorten(target, length)

    def _empty(self, number: int) -> None:
        self._save(number, 0)
        self.release(number)

    def _cut(self, number: int, length: int) -> None:
        if length < self._count(number):
            self._save(number, length)
            self._shorten(number, length)

    def _shorten(self, number: int, length: int) -> None:
        """Cuts a sequence to so many tokens; to none if that fails."""
        if length == 0:
            self.release(number)
        elif length < self._count(number):
            try:
                kept = self.go_back(number, length)
            except ModelError as error:
                kept = None
                self._prefix_cache.snapshots.note(error)
            if kept is None:
                self.release(number)

    def _save(self, number: int, stays: int) -> None:
        """Keeps what a sequence is about to lose, and by itself what others are likely to share."""
        if self._prefix_cache.snapshots.is_off:
            return
        state = self._states[number]
        if state.scope is None:
            return
        known = self._find_elsewhere(number, state, stays)
        self._prefix_cache.save(number, state, max(stays, known))
        # From the longest to the shortest: the sequence is cut to each, and cannot grow again.
        for pin in reversed(state.pins):
            prefix = scope_tokens(state.tokens[:pin], state.scope)
            if len(prefix.tokens) < pin or pin <= stays:
                continue
            if self._count_reusable(number, prefix, pin) < pin:
                continue
            known = self._find_elsewhere(number, prefix, stays)
            if self._prefix_cache.is_worth_pinning(prefix, known):
                self._shorten(number, pin)
                self._prefix_cache.save(number, self._states[number], known, is_pinned=True)

    def _find_elsewhere(self, number: int, wanted: TokensInScope, default: int) -> int:
        """The number of first tokens that another sequence has; `default` if there is no other."""
        known: list[int] = []
        for other in range(len(self._states)):
            if other != number:
                known.append(self._count_reusable(other, wanted, len(wanted.tokens)))
        return max(known, default=default)

    def _take_checkpoint(self, number: int) -> None:
        """Takes one where the sequence is now; all but the latest and the pinned ones go."""
        state = self._states[number]
        try:
            state.checkpoints[len(state.tokens)] = self.engine.checkpoint(number)
        except (ModelError, MemoryError) as error:
            self._prefix_cache.snapshots.note(error)
        loose = sorted(set(state.checkpoints).difference(state.pins))
        for position in loose[:-LATEST]:
            del state.checkpoints[position]
