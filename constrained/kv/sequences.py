"""The KV cache: what the sequences of an engine hold, so that nothing is computed twice.

A sequence that is free keeps its tokens: the next prompt that begins with them goes on from there
(prefix cache). What is about to be overwritten can be saved as a snapshot, and restored later.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np

from constrained.engine.protocol import Chunk, Engine, Sampler, Sampling
from constrained.errors import ContextError, ModelError
from constrained.kv.snapshot_files import SnapshotFiles
from constrained.kv.snapshots import NO_CACHE, Cache, Outline, Snapshot, Snapshots
from constrained.kv.write_behind import WriteBehind
from constrained.metrics import Amount, Metrics
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import count_common

WAITING = 4  # the part of the memory for snapshots that those may have that are to be written
SPARED = 64  # tokens: what is worth a sequence or a snapshot of its own, and worth waiting for
ENDLESS = 1 << 62  # tokens
LATEST = 4  # checkpoints of a sequence, beside the pinned ones


class Past(Protocol):
    """Tokens that have been computed, and where they can be gone back to."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def in_blocks(self) -> int:
        """How many of the first tokens were computed in whole blocks."""
        ...

    @property
    def checkpoints(self) -> Collection[int]:
        """How many tokens there were at each."""
        ...


@dataclass
class Held:
    """What a sequence holds: a `Past`.

    Attributes:
        checkpoints: by the number of tokens that there were.
        pins: numbers of tokens that other prompts are likely to have in common with this one.
        stops: where checkpoints are to be taken.
        used: when it was used last, as a running number.
    """

    tokens: list[int] = field(default_factory=list[int])
    in_blocks: int = 0
    checkpoints: dict[int, bytes] = field(default_factory=dict[int, bytes])
    pins: tuple[int, ...] = ()
    stops: frozenset[int] = frozenset()
    used: int = 0

    def cut(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        del self.tokens[length:]
        self.in_blocks = min(self.in_blocks, length)
        self.checkpoints = {at: data for at, data in self.checkpoints.items() if at <= length}

    def copy(self) -> "Held":
        """The same tokens, for another sequence; nothing is pinned there."""
        return Held([*self.tokens], self.in_blocks, {**self.checkpoints}, used=self.used)


def measure(
    past: Past, tokens: list[int], most: int, block: int, can_cut: Callable[[int], bool]
) -> int:
    """How many of the first tokens a past can be cut to.

    Args:
        past: what was computed.
        tokens: those that are wanted.
        most: so many at most.
        block: whole blocks of so many tokens only.
        can_cut: tells whether the past can be cut to so many; if not, its checkpoints remain.
    """
    length = min(count_common(past.tokens, tokens), most)
    if block > 1:
        length = min(length, past.in_blocks) // block * block
    if length == len(past.tokens) or can_cut(length):
        return length
    return max((at for at in past.checkpoints if at <= length and at % block == 0), default=0)


class Saving:
    """The snapshots of the sequences of an engine; see `Sequences` for the arguments."""

    def __init__(self, engine: Engine, block: int, cache: Cache):
        self._engine, self._block = engine, block
        self._snapshots = Snapshots(cache.memory)
        self._writing = None
        if cache.folder is not None:
            name = f"{engine.fingerprint}, blocks of {block}"
            files = SnapshotFiles(cache.folder, name, cache.disk)
            self._writing = WriteBehind(files, cache.memory // WAITING, self._snapshots.note)
            self._snapshots.files = self._writing
        self._hits = self._misses = 0
        self.is_off, self.note = self._snapshots.is_off, self._snapshots.note

    def metrics(self, sequences: int, held: Amount) -> Metrics:
        """The figures; `held` is what the sequences hold."""
        kept = self._snapshots
        disk = kept.files.amount if kept.files else Amount()
        counts = (self._hits, self._misses, kept.failures, kept.last_failure)
        return Metrics(sequences, held, kept.amount, disk, *counts)

    def flush(self) -> None:
        """Writes to files what is in memory, and waits for all of it."""
        self._snapshots.flush()
        if self._writing:
            self._writing.wait()

    def find(self, tokens: list[int], known: int) -> tuple[int, Outline | None]:
        """The snapshot that gains most over `known` tokens, and how many of the first it has; 0
        and None if that is not worth it."""
        most = max(0, len(tokens) - 1)
        if most - known <= SPARED:
            return 0, None
        length, outline = self._snapshots.find(lambda past: self._measure(past, tokens, most))
        return (length, outline) if length - known > SPARED else (0, None)

    def look_up(self, tokens: list[int], known: int) -> Snapshot | None:
        """As `find`, and counts."""
        while outline := self.find(tokens, known)[1]:
            if snapshot := self._snapshots.take(outline):
                return snapshot
        if len(tokens) - 1 - known > SPARED:
            self._misses += 1
        return None

    def restore(self, snapshot: Snapshot, number: int) -> Held:
        """Gives an empty sequence the state; raises ModelError, and forgets it, if it is no use."""
        outline = snapshot.outline
        try:
            self._engine.restore(number, len(outline.tokens), snapshot.state)
        except ModelError as error:
            self._snapshots.drop(outline)
            self._snapshots.note(error)
            raise
        self._hits += 1
        checkpoints = dict(zip(outline.checkpoints, snapshot.checkpoints, strict=True))
        return Held([*outline.tokens], outline.in_blocks, checkpoints)

    def save(self, number: int, held: Held, known: int, *, is_pinned: bool = False) -> None:
        """Keeps the state of a sequence if it has much more than what is known elsewhere.

        Args:
            number: of the sequence.
            held: what it holds.
            known: how many of its tokens stay, or are in other sequences.
            is_pinned: others are likely to begin with all of it.
        """
        tokens = [*held.tokens]
        worth = held.in_blocks if self._block > 1 else len(tokens)
        if worth - max(known, self._find_whole(tokens, is_pinned)) <= SPARED:
            return
        size = self._engine.state_size(number) + sum(map(len, held.checkpoints.values()))
        if not self._snapshots.admits(size):
            return
        try:
            state = self._engine.save(number)
        except (ModelError, MemoryError) as error:
            self._snapshots.note(error)
            return
        outline = Outline(tokens, held.in_blocks, tuple(held.checkpoints), is_pinned)
        for other in [*self._snapshots.outlines()]:
            if self._covers(outline, other):
                self._snapshots.drop(other)
        self._snapshots.put(Snapshot(outline, state, tuple(held.checkpoints.values())))

    def is_worth_pinning(self, tokens: list[int], known: int) -> bool:
        """Is there so far no pinned snapshot of these tokens?"""
        return len(tokens) - max(known, self._find_whole(tokens, True)) > SPARED

    def _find_whole(self, tokens: list[int], is_pinned: bool) -> int:
        """How many of the tokens there is a snapshot of; only pinned ones stand for pinned ones."""

        def value(past: Outline) -> int:
            is_of_use = past.is_pinned or not is_pinned
            return self._measure(past, tokens, len(tokens)) if is_of_use else 0

        return self._snapshots.find(value)[0]

    def _covers(self, new: Outline, old: Outline) -> bool:
        """Is the old one of little use once there is the new one?"""
        worth = old.in_blocks if self._block > 1 else len(old.tokens)
        return not old.is_pinned and worth - self._measure(new, old.tokens, worth) <= SPARED

    def _measure(self, past: Outline, tokens: list[int], most: int) -> int:
        is_cut_anywhere = not self._engine.needs_checkpoints
        return measure(past, tokens, most, self._block, lambda _: is_cut_anywhere)


@dataclass(frozen=True)
class Match:
    """A sequence holds the first `length` tokens of a prompt, and nothing else."""

    sequence: int
    length: int


class Sequences:
    """An engine that remembers the tokens of its sequences. Not for two threads at once.

    Args:
        engine: that nobody else uses.
        block: go on with whole blocks of so many tokens only, each computed by itself: what is
            computed then does not depend on what was there. 1: with any number, however computed.
        cache: how much is kept of what sequences have held, when others take their place.

    Raises:
        RequestError: the folder of the cache cannot be used.
    """

    def __init__(self, engine: Engine, block: int = 1, cache: Cache = NO_CACHE):
        self._engine = engine
        self._block = block
        self._held = [Held() for _ in range(engine.max_sequences)]
        self._clock = count(1)
        self._saving = Saving(engine, block, cache)

    @property
    def vocabulary(self) -> Vocabulary:
        return self._engine.vocabulary

    @property
    def context_length(self) -> int:
        """How many tokens one sequence can have."""
        return self._engine.context_length

    @property
    def max_sequences(self) -> int:
        return len(self._held)

    @property
    def metrics(self) -> Metrics:
        """What is held and what has come of it, also for other threads."""
        full = [held for held in self._held if held.tokens]
        tokens = sum(len(held.tokens) for held in full)
        sizes = [len(data) for held in full for data in [*held.checkpoints.values()]]
        return self._saving.metrics(len(self._held), Amount(len(full), tokens, sum(sizes)))

    @property
    def max_drafted(self) -> int:
        """As the engine's."""
        return self._engine.max_drafted

    def sampler(self, sampling: Sampling) -> Sampler:
        """As the engine's."""
        return self._engine.sampler(sampling)

    def decode(self, chunks: Sequence[Chunk]) -> list[np.ndarray]:
        """As the engine's."""
        try:
            logits = self._engine.decode(chunks)
        except ContextError:
            raise
        except BaseException:
            for chunk in chunks:
                self.release(chunk.sequence)
            raise
        for chunk in chunks:
            held, size = self._held[chunk.sequence], len(chunk.tokens)
            held.tokens += chunk.tokens
            if chunk.position == held.in_blocks and size == self._block:
                held.in_blocks += size
            held.used = next(self._clock)
            if len(held.tokens) in held.stops:
                self._take_checkpoint(chunk.sequence)
        return logits

    def rollback(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        if not self._engine.rollback(sequence, length):
            return False
        self._held[sequence].cut(length)
        return True

    def go_back(self, sequence: int, length: int) -> int | None:
        """Forgets all tokens of a sequence but the first `length`, or fewer: up to a checkpoint.

        Returns:
            How many are left; None if the model cannot go back, then nothing has changed.

        Raises:
            ModelError: the model failed, and the sequence is released.
        """
        held = self._held[sequence]
        if length == len(held.tokens) or self.rollback(sequence, length):
            return length
        place = max((at for at in held.checkpoints if at <= length), default=None)
        if place is None:
            return None
        try:
            self._engine.go_back(sequence, place, held.checkpoints[place])
        except ModelError:
            self.release(sequence)
            raise
        held.cut(place)
        return place

    def can_cut(self, sequence: int, length: int) -> bool:
        """As the engine's."""
        return self._engine.can_cut(sequence, length)

    def release(self, sequence: int) -> None:
        """Forgets all tokens of a sequence."""
        self._held[sequence] = Held(used=self._held[sequence].used)
        self._engine.release(sequence)

    def tokens(self, sequence: int) -> Sequence[int]:
        """What a sequence holds."""
        return self._held[sequence].tokens

    def pin(self, sequence: int, length: int, boundaries: Iterable[int], closed: int = 0) -> None:
        """Says where in a prompt others are likely to differ from it, and this one may go on anew.

        Args:
            sequence: will read the prompt.
            length: of the prompt.
            boundaries: numbers of its first tokens; what is kept of these stays longest.
            closed: as in `Request`.
        """
        held, block = self._held[sequence], self._block
        inside = (at for at in boundaries if 0 < at <= length)
        held.pins = tuple(sorted({at - at % block for at in inside} - {0}))
        if self._engine.needs_checkpoints:
            last = min(closed or length, length - 1)  # one is computed anew, for its logits
            held.stops = frozenset((*held.pins, last - last % block))

    def until_stop(self, sequence: int) -> int:
        """How many tokens may be appended at once, so that a checkpoint can be taken then."""
        held = self._held[sequence]
        size = len(held.tokens)
        return min((at - size for at in held.stops if at > size), default=ENDLESS)

    def find(self, tokens: Sequence[int]) -> int:
        """How many of the first tokens are known somewhere, and can be gone on with."""
        tokens = list(tokens)
        known = max(self._compare(tokens))
        return max(known, self._saving.find(tokens, known)[0])

    def claim(self, tokens: Sequence[int], idle: Iterable[int]) -> Match:
        """Makes an idle sequence hold as many of the first tokens as are known, and no others.

        Either the one that has them goes on with them, or they are copied or restored to the one
        that was not used for the longest time: what is lost should be worth as little as possible.
        """
        tokens, idle, held = list(tokens), list(idle), self._held
        if (restored := self._restore(tokens, idle)) is not None:
            return Match(restored, len(held[restored].tokens))
        lengths, oldest = self._compare(tokens), self._oldest(idle)
        best = max(range(len(held)), key=lambda n: (lengths[n], n in idle, -len(held[n].tokens)))
        length = lengths[best]
        if best in idle and (len(held[best].tokens) - length <= SPARED or best == oldest):
            self._cut(best, length)
            return Match(best, len(held[best].tokens))
        self._empty(oldest)
        if length:
            self._copy(best, oldest, length)
        return Match(oldest, len(held[oldest].tokens))

    def forget_oldest(self, idle: Iterable[int]) -> bool:
        """Empties the idle sequence that was not used for the longest time; False if all are."""
        full = [number for number in idle if self._held[number].tokens]
        if full:
            self._empty(self._oldest(full))
        return bool(full)

    def save(self) -> None:
        """Empties all sequences, and writes what is worth it to files, if there are any."""
        for number in range(len(self._held)):
            self._empty(number)
        self._saving.flush()

    def clear(self) -> None:
        """Forgets everything that the sequences hold."""
        for number in range(len(self._held)):
            self.release(number)

    def _oldest(self, idle: Collection[int]) -> int:
        held = self._held
        return min(idle, key=lambda number: (bool(held[number].tokens), held[number].used))

    def _compare(self, tokens: list[int]) -> list[int]:
        """For each sequence, how many of the first tokens it can be cut to.

        Their last one does not count, for its logits are wanted; and a sequence that the engine
        cannot cut can go back to its checkpoints alone.
        """
        most = max(0, len(tokens) - 1)
        return [self._measure(number, tokens, most) for number in range(len(self._held))]

    def _measure(self, number: int, tokens: list[int], most: int) -> int:
        def can_cut(length: int) -> bool:
            return self._engine.can_cut(number, length)

        return measure(self._held[number], tokens, most, self._block, can_cut)

    def _restore(self, tokens: list[int], idle: Collection[int]) -> int | None:
        """Restores a snapshot that gains much over what is held; returns where to, or None."""
        while snapshot := self._saving.look_up(tokens, max(self._compare(tokens))):
            number = self._oldest(idle)
            self._empty(number)
            try:
                self._held[number] = self._saving.restore(snapshot, number)
            except ModelError:  # it is forgotten, and noted
                continue
            self._held[number].used = next(self._clock)
            self._shorten(number, self._measure(number, tokens, max(0, len(tokens) - 1)))
            return number
        return None

    def _copy(self, source: int, target: int, length: int) -> None:
        """Makes an empty sequence hold what another one can be cut to."""
        held = self._held[source]
        whole = not self._engine.can_cut(source, length)
        self._engine.copy(source, target, len(held.tokens) if whole else length)
        self._held[target] = held.copy()
        if whole:
            self._shorten(target, length)
        else:
            self._held[target].cut(length)

    def _empty(self, number: int) -> None:
        self._save(number, 0)
        self.release(number)

    def _cut(self, number: int, length: int) -> None:
        if length < len(self._held[number].tokens):
            self._save(number, length)
            self._shorten(number, length)

    def _shorten(self, number: int, length: int) -> None:
        """Cuts a sequence to so many tokens; to none if that fails."""
        if length == 0:
            self.release(number)
        elif length < len(self._held[number].tokens):
            try:
                kept = self.go_back(number, length)
            except ModelError as error:
                kept = None
                self._saving.note(error)
            if kept is None:
                self.release(number)

    def _save(self, number: int, stays: int) -> None:
        """Keeps what a sequence is about to lose, and by itself what others are likely to share."""
        if self._saving.is_off:
            return
        held = self._held[number]
        others = [n for n in range(len(self._held)) if n != number]

        def held_elsewhere(tokens: list[int]) -> int:
            return max((self._measure(n, tokens, len(tokens)) for n in others), default=stays)

        self._saving.save(number, held, max(stays, held_elsewhere(held.tokens)))
        for pin in reversed(held.pins):
            head = held.tokens[:pin]
            if len(head) < pin or pin <= stays or self._measure(number, head, pin) < pin:
                continue
            known = held_elsewhere(head)
            if self._saving.is_worth_pinning(head, known):
                self._shorten(number, pin)
                self._saving.save(number, self._held[number], known, is_pinned=True)

    def _take_checkpoint(self, number: int) -> None:
        """Takes one where the sequence is now; all but the latest and the pinned ones go."""
        held = self._held[number]
        try:
            held.checkpoints[len(held.tokens)] = self._engine.checkpoint(number)
        except (ModelError, MemoryError) as error:
            self._saving.note(error)
        loose = sorted(at for at in held.checkpoints if at not in held.pins)
        for place in loose[:-LATEST]:
            del held.checkpoints[place]
