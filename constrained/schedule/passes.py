"""How many tokens of each sequence a decode takes, if llama.cpp splits it into passes.

If sequences have KV caches of their own, llama.cpp runs the model on equal numbers of tokens of
each (`llama_batch_allocr::split_equal`). Chunks of 1, 1, 2 and 5 tokens are three passes: one token
of all four, one more of two, and three more of one. On a GPU, each pass takes about as long as a
decode of one token of each sequence.
"""

from collections.abc import Sequence, Set
from dataclasses import replace

from constrained.engine.protocol import Chunk


def even_out(chunks: Sequence[Chunk], prompts: Set[int]) -> list[Chunk]:
    """Shortens chunks of turns where a further pass does not pay. Those of prompts stay.

    Args:
        chunks: what could be decoded.
        prompts: the sequences whose chunks are pieces of prompts.
    """
    turns = [chunk for chunk in chunks if chunk.sequence not in prompts]
    sizes = choose_sizes([len(chunk.tokens) for chunk in turns])
    shorter = {
        chunk.sequence: _shorten(chunk, size) for chunk, size in zip(turns, sizes, strict=True)
    }
    return [shorter.get(chunk.sequence, chunk) for chunk in chunks]


def choose_sizes(sizes: Sequence[int]) -> list[int]:
    """Chooses how many tokens of each chunk are decoded.

    The tokens that are left wait for the next decode. A pass delays all turns by about one step. It
    saves as many steps as it has tokens, since otherwise a turn decodes one of them in each step.
    So a pass pays if it has more tokens than there are chunks.

    Args:
        sizes: how many tokens each chunk could have, 1 or more.

    Returns:
        How many tokens each chunk gets: at least the size of the smallest one, at most its own.
    """
    if not sizes:
        return []
    levels = sorted(set(sizes))
    # For each level as the size of the largest chunks: the best gain, and the level before it.
    gains, previous = [0], [0]
    for place, level in enumerate(levels[1:], 1):
        count = sum(size >= level for size in sizes)
        options = [
            (gains[before] + count * (level - levels[before]) - len(sizes), before)
            for before in range(place)
        ]
        gain, before = max(options)
        gains.append(gain)
        previous.append(before)
    place = max(range(len(levels)), key=gains.__getitem__)
    kept = [levels[place]]
    while place:
        place = previous[place]
        kept.append(levels[place])
    return [next(level for level in kept if level <= size) for size in sizes]


def _shorten(chunk: Chunk, size: int) -> Chunk:
    """Returns the first tokens of a chunk; their logits are wanted as before."""
    cut = len(chunk.tokens) - size
    return replace(chunk, tokens=chunk.tokens[:size], wanted=max(0, chunk.wanted - cut))
