"""Chunks of several sequences: what is legal, and the batches that they are decoded in."""

from collections.abc import Sequence

import numpy as np

from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ContextError


def check_chunks(
    chunks: Sequence[Chunk], lengths: Sequence[int], context_length: int, max_drafted: int
) -> None:
    """Checks chunks against the number of tokens that each sequence has; raises as `decode`."""
    if (drafted := sum(max(0, chunk.wanted - 1) for chunk in chunks)) > max_drafted:
        raise ValueError(f"logits of {drafted} more tokens are wanted, the limit is {max_drafted}")
    seen: set[int] = set()
    for chunk in chunks:
        name = f"the chunk of sequence {chunk.sequence}"
        if not 0 <= chunk.sequence < len(lengths):
            raise ValueError(f"{name}: there are {len(lengths)} sequences")
        if chunk.sequence in seen:
            raise ValueError(f"{name}: there is a second one")
        seen.add(chunk.sequence)
        if not chunk.tokens:
            raise ValueError(f"{name} has no tokens")
        if chunk.position != lengths[chunk.sequence]:
            have = lengths[chunk.sequence]
            raise ValueError(f"{name} is at {chunk.position}, but the sequence has {have} tokens")
        if not 0 <= chunk.wanted <= len(chunk.tokens):
            raise ValueError(f"{name} wants {chunk.wanted} logits of {len(chunk.tokens)} tokens")
        size = chunk.position + len(chunk.tokens)
        if size > context_length:
            raise ContextError(
                f"{size} tokens do not fit into a context of {context_length}",
                hint="Shorten the conversation, or load the model with a longer context",
            )


def check_copy(engine: Engine, source: int, target: int, length: int, held: int) -> None:
    """Raises as `copy`; `held` is the number of tokens that the target has."""
    check_empty(target, held)
    if not engine.can_cut(source, length):
        raise ValueError(f"sequence {source} cannot be cut to {length} tokens")


def check_empty(sequence: int, held: int) -> None:
    """Raises as `restore`; `held` is the number of tokens that the sequence has."""
    if held:
        raise ValueError(f"sequence {sequence} has {held} tokens already")


def check_shorter(sequence: int, held: int, length: int) -> None:
    """Raises as `go_back`; `held` is the number of tokens that the sequence has."""
    if not 0 < length <= held:
        raise ValueError(f"sequence {sequence} has {held} tokens, and cannot go back to {length}")


def batches(chunks: Sequence[Chunk], capacity: int) -> list[np.ndarray]:
    """Lays out chunks as batches of at most `capacity` tokens, in order.

    Only the logits of one batch are kept, so the last one has all tokens whose logits are wanted.

    Returns:
        For each batch four rows of int32, one column per token: the token, its position, its
        sequence, and 1 where the logits are wanted. Those columns are in the order of the chunks.
    """
    sizes = [len(chunk.tokens) for chunk in chunks]
    table = np.zeros((4, sum(sizes)), np.int32)
    table[0] = np.concatenate([np.asarray(chunk.tokens, np.int32) for chunk in chunks])
    table[1] = np.concatenate([c.position + np.arange(len(c.tokens)) for c in chunks])
    table[2] = np.repeat([chunk.sequence for chunk in chunks], sizes)
    table[3] = np.concatenate([np.arange(len(c.tokens), 0, -1) <= c.wanted for c in chunks])
    if table.shape[1] <= capacity:
        return [table]
    table = table[:, np.argsort(table[3], kind="stable")]  # the wanted ones last
    parts: list[np.ndarray] = []
    while table.shape[1] > capacity:
        size = min(capacity, table.shape[1] - int(table[3].sum()))
        parts.append(table[:, :size])
        table = table[:, size:]
    return [*parts, table]
