"""How many passes a decode takes, and chunks that spare some."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from constrained.engine.batch import count_passes, fill_gaps, sort_chunks
from constrained.engine.protocol import Chunk


def make_chunks(*sizes: int) -> list[Chunk]:
    """Chunks of neighbouring sequences; 0: there is none of this sequence."""
    return [Chunk(number, [1] * size, 0) for number, size in enumerate(sizes) if size]


def split_equal(sizes: Sequence[int]) -> list[list[int]]:
    """The sequences of each pass, as `llama_batch_allocr::split_equal` finds them: neighbours from
    the first that is left, and tokens of each until one has no more."""
    left = [*sizes]
    passes = list[list[int]]()
    while any(left):
        first = next(number for number, size in enumerate(left) if size)
        end = first
        while end < len(left) and left[end]:
            end += 1
        run = [*range(first, end)]
        shortest = min(left[number] for number in run)
        for number in run:
            left[number] -= shortest
        passes.append(run)
    return passes


@given(st.lists(st.integers(0, 4), max_size=10))
def test_passes_are_those_of_llama_cpp(sizes: list[int]) -> None:
    assert count_passes(make_chunks(*sizes)) == len(split_equal(sizes))


def fill(*sizes: int, lengths: Sequence[int] = (7,) * 10) -> list[int]:
    return [chunk.sequence for chunk in fill_gaps(make_chunks(*sizes), lengths, 10)]


def test_gaps_are_filled_where_that_saves_more_than_it_costs() -> None:
    assert fill(1, 0, 1) == [1]
    assert fill(1, 0, 0, 1, 0, 1) == [1, 2, 4]
    assert fill(1, 0, 0, 0, 1) == []
    assert fill(1, 1, 1) == []
    assert fill(3, 0, 1) == [], "the first sequence needs a pass of its own anyway"
    assert fill(1, 0, 1, lengths=(7, 10, 7)) == [], "sequence 1 is full"


def test_a_filler_is_the_next_token_of_its_sequence() -> None:
    chunks = make_chunks(1, 0, 1)
    (filler,) = fill_gaps(chunks, (0, 4, 0), 10)
    assert filler == Chunk(1, [0], 4, wanted=0)
    assert [chunk.sequence for chunk in sort_chunks([*chunks, filler])] == [0, 1, 2]
