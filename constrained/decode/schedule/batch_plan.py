"""What the next decode computes: the tokens of running turns, pieces of prompts, and drafts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from constrained.decode.drafts.decode_costs import DecodeCosts
from constrained.decode.kv.sequences import Sequences
from constrained.decode.schedule.active_turn import ActiveTurn
from constrained.engine.batch import count_passes, sort_chunks
from constrained.engine.protocol import Chunk

BLOCK = 64  # prompt tokens of one decode, if `deterministic`
STEP = 512  # maximum tokens of one decode; other turns wait as long as these take
PROMPT_STEP = 64
"""Maximum prompt tokens of one decode on the CPU while turns are being written. On 2 cores a decode
of 512 takes 8 times as long and hardly less a token. A GPU needs large batches."""


class BatchPlan:
    """Chooses the chunks of each decode.

    Turns with few pending tokens come first. Then one prompt after the other gets as much of the
    batch as is left, or less of it, so that those who read a stream do not wait long.

    Args:
        step: the maximum number of tokens of one decode.
        deterministic: each decode has one turn alone, its prompt in blocks.
    """

    def __init__(self, sequences: Sequences, *, step: int, deterministic: bool):
        self._sequences = sequences
        self._step = step
        self._deterministic = deterministic
        self._costs = DecodeCosts(evens_out=sequences.engine.splits_uneven)
        self._count = 0  # of decodes

    def note_decode(self, seconds: float) -> None:
        """Notes how long the last decode took, which had no prompts."""
        self._costs.note(self._sequences.engine.last_decode, seconds)

    def choose(self, running: dict[int, ActiveTurn], *, has_drafts: bool = True) -> list[Chunk]:
        """Returns the chunks of the next decode."""
        if not running:
            return []
        self._count += 1
        # Those that pause are left out, unless all do.
        due = {n: active for n, active in running.items() if not active.share.sits_out} or running
        if self._deterministic:
            return [self._choose_one(running, due)]
        chunks = self._choose_many(running, due, has_drafts=has_drafts)
        if not self._sequences.engine.splits_uneven:
            return chunks
        return level_off(chunks, {n for n, active in due.items() if active.is_reading})

    def _choose_one(self, running: dict[int, ActiveTurn], due: Mapping[int, ActiveTurn]) -> Chunk:
        """Returns the next chunk of one turn; turns alternate (round robin)."""
        number, active = next(iter(due.items()))
        running[number] = running.pop(number)  # to the end of the line
        # The order in which llama.cpp's kernels add up depends on the size of the batch, and so do
        # the last digits of the logits.
        if not active.decoder.input.unread:
            return active.decoder.input.next_chunk(1)
        block = BLOCK - active.decoder.input.position % BLOCK
        return active.decoder.input.next_chunk(min(active.decoder.input.unread, block))

    def _choose_many(
        self,
        running: Mapping[int, ActiveTurn],
        due: Mapping[int, ActiveTurn],
        *,
        has_drafts: bool,
    ) -> list[Chunk]:
        drafts = self._draft(due) if has_drafts else {}
        room = prompts = self._step
        # A turn that pauses counts, too: a long decode would make its pause longer.
        if not self._sequences.engine.offloads and _has_writer(running):
            prompts = PROMPT_STEP
        chunks: list[Chunk] = []
        order = self._sort(due)
        for done, number in enumerate(order):
            active = due[number]
            available = min(room, prompts) if active.is_reading else room
            # Each turn after it gets at least one. A checkpoint can only be taken where a decode
            # ends.
            share = max(1, available - (len(order) - done - 1))
            share = min(share, self._sequences.until_stop(number))
            chunk = active.decoder.input.next_chunk(share, drafts.get(number, ()))
            room -= len(chunk.tokens)
            if active.is_reading:
                prompts -= len(chunk.tokens)
            chunks.append(chunk)
        return sort_chunks(chunks)

    def _sort(self, due: Mapping[int, ActiveTurn]) -> list[int]:
        """Sorts turns: first those that are written, then prompts, the shortest first, which gives
        the shortest waits on average. Of n prompts, the oldest comes first in every n-th step, so
        that a long one does not wait for ever."""
        reading = [number for number, active in due.items() if active.is_reading]
        oldest = reading[0] if reading and self._count % len(reading) == 0 else None

        def rank(number: int) -> tuple[bool, bool, int]:
            active = due[number]
            return active.is_reading, number != oldest, active.decoder.input.pending

        return sorted(due, key=rank)

    def _draft(self, due: Mapping[int, ActiveTurn]) -> dict[int, Sequence[int]]:
        """Returns a draft for each turn that gets one.

        A drafted token saves a turn a decode, but the more turns a decode has, the less it saves:
        the time of a decode is shared by its turns, that of a drafted token is not. So the costs
        are measured.
        """
        drafting: dict[int, ActiveTurn] = {}
        for number, active in due.items():
            if active.decoder.drafts and not active.is_reading:
                drafting[number] = active
        spare = self._sequences.engine.max_drafted
        if not drafting or spare < 1:
            return {}
        costs = self._costs.estimate(len(due))
        drafts: dict[int, Sequence[int]] = {}
        for done, (number, active) in enumerate(drafting.items()):
            if active.share.is_costly:  # each drafted token costs a mask
                continue
            with active.share:
                most = spare // (len(drafting) - done)
                draft = active.decoder.propose_draft(most, costs)
            if draft:
                drafts[number] = draft
                spare -= len(draft)
        return drafts


def _has_writer(running: Mapping[int, ActiveTurn]) -> bool:
    return any(not active.is_reading for active in running.values())


def level_off(chunks: Sequence[Chunk], reading: set[int]) -> list[Chunk]:
    """Shortens chunks of turns so that llama.cpp needs few passes for a decode; see `count_passes`.

    A pass delays all turns by about one step. It saves as many steps as it has tokens of turns,
    since otherwise a turn decodes one of them in each step. The rest waits for the next decode.

    Args:
        chunks: what could be decoded, in ascending order of the sequences.
        reading: the sequences of prompts, whose chunks stay as they are.
    """
    turns = [chunk for chunk in chunks if chunk.sequence not in reading]

    def shorten(size: int) -> list[Chunk]:
        shorter: list[Chunk] = []
        for chunk in chunks:
            is_prompt = chunk.sequence in reading
            shorter.append(chunk if is_prompt else _cut(chunk, size))
        return shorter

    def find_gain(size: int) -> int:
        tokens = sum(min(size, len(chunk.tokens)) for chunk in turns)
        return tokens - len(turns) * count_passes(shorten(size))

    sizes = {len(chunk.tokens) for chunk in chunks}
    return shorten(max(sorted(sizes, reverse=True), key=find_gain)) if sizes else []


def _cut(chunk: Chunk, size: int) -> Chunk:
    """Returns the first tokens of a chunk; their logits are wanted as before."""
    left_out = len(chunk.tokens) - size
    if left_out <= 0:
        return chunk
    return replace(chunk, tokens=chunk.tokens[:size], wanted=max(0, chunk.wanted - left_out))
