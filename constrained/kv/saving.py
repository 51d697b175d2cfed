"""What is worth saving of a sequence before it is lost, and what is worth restoring."""

from constrained.engine.protocol import Engine
from constrained.errors import ModelError
from constrained.kv.sequence_state import Held, measure
from constrained.kv.snapshot_files import SnapshotFiles
from constrained.kv.snapshots import Cache, Outline, Snapshot, Snapshots
from constrained.kv.write_behind import WriteBehind
from constrained.metrics import Amount, Metrics

WAITING = 4  # the part of the memory for snapshots that those may have that are to be written
SPARED = 64  # tokens: what is worth a sequence or a snapshot of its own, and worth waiting for


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
