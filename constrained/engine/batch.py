"""Checks the chunks of a decode, and lays them out as batches."""

from collections.abc import Iterable, Sequence

import numpy as np

from constrained.engine.protocol import Chunk, DecodeSize, Engine
from constrained.errors import ContextError


def check_chunks(engine: Engine, chunks: Sequence[Chunk], lengths: Sequence[int]) -> None:
    drafted = sum(chunk.drafted for chunk in chunks)
    limit = engine.max_drafted
    if drafted > limit:
        raise ValueError(f"logits of {drafted} more tokens are wanted, the limit is {limit}")
    last = -1
    for chunk in chunks:
        name = f"the chunk of sequence {chunk.sequence}"
        size = chunk.position + len(chunk.tokens)
        if not 0 <= chunk.sequence < len(lengths):
            raise ValueError(f"{name}: there are {len(lengths)} sequences")
        if chunk.sequence == last:
            raise ValueError(f"{name}: there is a second one")
        if chunk.sequence < last:
            raise ValueError(f"{name} comes after that of sequence {last}")
        last = chunk.sequence
        if not chunk.tokens:
            raise ValueError(f"{name} has no tokens")
        if chunk.position != lengths[chunk.sequence]:
            have = lengths[chunk.sequence]
            raise ValueError(f"{name} is at {chunk.position}, but the sequence has {have} tokens")
        if not 0 <= chunk.wanted <= len(chunk.tokens):
            raise ValueError(f"{name} wants {chunk.wanted} logits of {len(chunk.tokens)} tokens")
        if size > engine.context_length:
            raise ContextError(
                f"{size} tokens do not fit into a context of {engine.context_length}",
                hint="Shorten the conversation, or load the model with a longer context",
            )


def count_passes(chunks: Sequence[Chunk]) -> int:
    """Returns the number of passes of the model that llama.cpp runs for a decode, if each sequence
    has a KV cache of its own: a pass has neighbouring sequences, and as many tokens of each
    (`llama_batch_allocr::split_equal`)."""
    # A run of neighbours needs a pass for each size that a chunk has and no shorter one has parted
    # from the last chunk of this size.
    passes, last = 0, -1
    sizes: list[int] = []  # ascending
    for chunk in chunks:
        size = len(chunk.tokens)
        if chunk.sequence != last + 1:
            sizes.clear()
        while sizes and sizes[-1] > size:
            sizes.pop()
        if not sizes or sizes[-1] < size:
            sizes.append(size)
            passes += 1
        last = chunk.sequence
    return passes


def measure_decode(chunks: Sequence[Chunk], *, is_shared: bool = False) -> DecodeSize:
    """`is_shared`: the sequences share the cells of the KV cache."""
    passes = 1 if is_shared and chunks else count_passes(chunks)
    return DecodeSize(passes, sum(len(chunk.tokens) for chunk in chunks))


def fill_gaps(chunks: Sequence[Chunk], lengths: Sequence[int], context_length: int) -> list[Chunk]:
    """Returns chunks of one token each, whose logits are not wanted, for the sequences between
    those of a decode, so that they become neighbours. The token is any one: it has to be removed
    after the decode. Empty if that saves no passes, or fewer than it costs: a pass takes about as
    long as a token of each sequence."""
    present = {chunk.sequence for chunk in chunks}
    fillers: list[Chunk] = []
    for sequence in range(min(present), max(present)):
        if sequence not in present and lengths[sequence] < context_length:
            fillers.append(Chunk(sequence, [0], lengths[sequence], wanted=0))
    saved = count_passes(chunks) - count_passes(sort_chunks([*chunks, *fillers]))
    return fillers if len(fillers) <= saved * len(chunks) else []


def sort_chunks(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Returns chunks in the order that `Engine.decode` requires."""
    return sorted(chunks, key=lambda chunk: chunk.sequence)


def check_cut(engine: Engine, source: int, length: int) -> None:
    if not engine.can_cut(source, length):
        raise ValueError(f"sequence {source} cannot be cut to {length} tokens")


def check_empty(sequence: int, present: int) -> None:
    if present:
        raise ValueError(f"sequence {sequence} has {present} tokens already")


def check_shorter(sequence: int, present: int, length: int) -> None:
    """Raises ValueError unless a sequence of `present` tokens can go back to `length` tokens."""
    if not 0 < length <= present:
        message = f"sequence {sequence} has {present} tokens, and cannot go back to {length}"
        raise ValueError(message)


def batches(chunks: Sequence[Chunk], capacity: int) -> list[np.ndarray]:
    """Lays out chunks as batches of at most `capacity` tokens, in order. llama.cpp keeps the logits
    of the last batch only, so all tokens whose logits are needed are in that one. Each batch has
    four rows of int32, one column per token: the token, its position, its sequence, and 1 if its
    logits are needed. Those columns are in the order of the chunks."""
    n_tokens = sum(len(chunk.tokens) for chunk in chunks)
    table = np.zeros((4, n_tokens), np.int32)
    start = 0
    for chunk in chunks:
        size = len(chunk.tokens)
        columns = table[:, start : start + size]
        columns[0] = chunk.tokens
        columns[1] = np.arange(chunk.position, chunk.position + size)
        columns[2] = chunk.sequence
        columns[3, size - chunk.wanted :] = 1
        start += size
    if table.shape[1] <= capacity:
        return [table]
    wanted_last = np.argsort(table[3], kind="stable")
    table = table[:, wanted_last]
    n_wanted = int(table[3].sum())
    parts: list[np.ndarray] = []
    while table.shape[1] > capacity:
        size = min(capacity, table.shape[1] - n_wanted)
        parts.append(table[:, :size])
        table = table[:, size:]
    return [*parts, table]
