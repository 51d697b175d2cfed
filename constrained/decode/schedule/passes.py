"""How many tokens of each sequence a decode takes, if llama.cpp splits it into passes.

If sequences have KV caches of their own, a pass of the model has neighbouring sequences, and as
many tokens of each (`llama_batch_allocr::split_equal`). Chunks of 1, 1, 5 and 2 tokens are three
passes: one token of all four, one more of the last two, and three of the third. A pass reads all
weights. So it takes about as long as a decode of one token of each sequence on a GPU, and wherever
reading the weights takes longer than computing with them.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from constrained.engine.batch import count_passes
from constrained.engine.protocol import Chunk


def even_out(chunks: Sequence[Chunk], prompts: Set[int]) -> list[Chunk]:
    """Shortens chunks of turns where a further pass does not pay. Those of prompts stay.

    Args:
        chunks: what could be decoded, in ascending order of the sequences.
    """
    sizes = {chunk.sequence: len(chunk.tokens) for chunk in chunks}
    chosen = choose_sizes(sizes, prompts)
    return [_shorten(chunk, chosen[chunk.sequence]) for chunk in chunks]


def choose_sizes(sizes: Mapping[int, int], prompts: Set[int]) -> dict[int, int]:
    """Chooses how many tokens of each chunk are decoded.

    The tokens that are left wait for the next decode. A pass delays all turns by about one step. It
    saves as many steps as it has tokens of turns, since otherwise a turn decodes one of them in
    each step. So a pass pays if it has more of these than there are turns.

    Args:
        sizes: how many tokens the chunk of each sequence could have, 1 or more; in ascending order.
        prompts: the sequences whose chunks stay as they are.

    Returns:
        How many tokens each chunk gets: 1 or more, at most its own.
    """
    choice = _PassChoice(sizes, prompts)
    chosen = dict[int, int]()
    for run in _split_runs([*sizes]):
        # The first pass of a run is needed anyway, so it is as long as it can be.
        level = min(sizes[sequence] for sequence in run)
        chosen |= dict.fromkeys(run, level) | choice.go_on(run, level, level).sizes
    return chosen | {sequence: sizes[sequence] for sequence in prompts}


@dataclass
class _Passes:
    """Further passes of a decode.

    Attributes:
        gain: their tokens of turns, less what the passes cost.
        sizes: how many tokens the turns that have a part in them get.
    """

    gain: int = 0
    sizes: dict[int, int] = field(default_factory=dict[int, int])

    def add(self, other: "_Passes") -> None:
        self.gain += other.gain
        self.sizes |= other.sizes


class _PassChoice:
    """Chooses the passes after the first ones; see `choose_sizes` for the arguments."""

    def __init__(self, sizes: Mapping[int, int], prompts: Set[int]):
        self._sizes = sizes
        self._prompts = prompts
        self._cost = len(sizes.keys() - prompts)  # of a pass, in tokens
        self._known: dict[tuple[int, int, int, int], _Passes] = {}

    def go_on(self, run: Sequence[int], level: int, done: int) -> _Passes:
        """Chooses passes of the sequences of a run that could have more tokens.

        Args:
            run: neighbours.
            level: turns that could have no more than this have no part in the passes.
            done: the tokens that the other sequences have without these passes.
        """
        longer: list[int] = []
        for sequence in run:
            least = done if sequence in self._prompts else level
            if self._sizes[sequence] > least:
                longer.append(sequence)
        passes = _Passes()
        for part in _split_runs(longer):
            passes.add(self._choose(part, done))
        return passes

    def _choose(self, run: Sequence[int], done: int) -> _Passes:
        turns = [sequence for sequence in run if sequence not in self._prompts]
        if not turns:
            chunks = [Chunk(number, range(self._sizes[number] - done), 0) for number in run]
            return _Passes(-self._cost * count_passes(chunks))
        shortest = min(self._sizes[sequence] for sequence in turns)
        key = run[0], run[-1], shortest, done
        if key not in self._known:
            # Either all have a part in the next pass, or the shortest turns have none.
            level = min(self._sizes[sequence] for sequence in run)
            own = len(turns) * (level - done) - self._cost
            with_all = _Passes(own, dict.fromkeys(turns, level))
            with_all.add(self.go_on(run, level, level))
            without_shortest = self.go_on(run, shortest, done)
            self._known[key] = max(with_all, without_shortest, key=lambda passes: passes.gain)
        return self._known[key]


def _split_runs(sequences: Sequence[int]) -> list[list[int]]:
    """Splits ascending sequences into runs of neighbours."""
    runs: list[list[int]] = []
    for sequence in sequences:
        if runs and sequence == runs[-1][-1] + 1:
            runs[-1].append(sequence)
        else:
            runs.append([sequence])
    return runs


def _shorten(chunk: Chunk, size: int) -> Chunk:
    """Returns the first tokens of a chunk; their logits are wanted as before."""
    cut = len(chunk.tokens) - size
    return replace(chunk, tokens=chunk.tokens[:size], wanted=max(0, chunk.wanted - cut))
