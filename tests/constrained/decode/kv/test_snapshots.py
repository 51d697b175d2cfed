"""What is kept of a sequence that others take the place of: what goes first, what is of use."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.decode.kv.sequences import (
    LATEST,
    PrefixMatch,
    Sequences,
    SequenceState,
    count_reusable,
)
from constrained.decode.kv.snapshots import Cache, Outline, Snapshot, Snapshots
from constrained.decode.metrics import Amount
from constrained.engine.protocol import Chunk
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import ModelError
from constrained.prompt.cache_scope import ScopedTokens

BYTES = byte_vocabulary(())
ROOM = 1 << 20
BLOCK = 16


class Engine(ScriptedEngine):
    """One sequence; remembers what was appended, and may refuse states and checkpoints."""

    def __init__(self, **options: Any):
        super().__init__(BYTES, random_logits(BYTES), **{"max_sequences": 1, **options})
        self.saved = self.computed = 0
        self.is_broken = False

    def decode(self, chunks: Sequence[Chunk]) -> Any:
        self.computed += sum(len(chunk.tokens) for chunk in chunks)
        return super().decode(chunks)

    def save(self, sequence: int) -> bytes:
        self.saved += 1
        return super().save(sequence)

    def restore(self, sequence: int, length: int, state: bytes) -> None:
        super().restore(sequence, length, state[:-1] if self.is_broken else state)

    def go_back(self, sequence: int, length: int, checkpoint: bytes) -> None:
        super().go_back(sequence, length, checkpoint[:-1] if self.is_broken else checkpoint)


def read(
    sequences: Sequences, prompt: list[int], boundaries: Sequence[int] = (), block: int = ROOM
) -> PrefixMatch:
    """Reads a prompt as a schedule does; returns what was known of it."""
    match = sequences.claim(prompt, range(sequences.engine.max_sequences))
    number, place = match.sequence, match.length
    assert list(sequences.tokens(number)) == prompt[:place]
    sequences.pin(number, len(prompt), boundaries=boundaries)
    while place < len(prompt):
        size = min(sequences.until_stop(number), block - place % block, len(prompt) - place)
        sequences.decode([Chunk(number, prompt[place : place + size], place)])
        place += size
    return match


def head(letter: str, length: int = 200) -> list[int]:
    return [ord(letter)] * length


def snapshot(letter: str, size: int = 100, pinned: bool = False) -> Snapshot:
    return Snapshot(Outline(head(letter), is_pinned=pinned), bytes(size))


def letters(kept: Snapshots) -> str:
    return "".join(chr(outline.tokens[0]) for outline in kept.outlines())


def test_the_least_recently_used_goes_first() -> None:
    kept = Snapshots(300)
    for letter in "abc":
        kept.put(snapshot(letter))
    assert kept.take(snapshot("a").outline) == snapshot("a")
    kept.put(snapshot("d"))
    assert letters(kept) == "cad"
    assert kept.amount == Amount(3, 600, 300)
    kept.put(snapshot("e", 250))
    assert letters(kept) == "e"
    kept.put(snapshot("f", 301))
    assert letters(kept) == "e"
    kept.drop(snapshot("e").outline)
    assert kept.amount == Amount()


def test_the_pinned_go_last() -> None:
    kept = Snapshots(300)
    for letter in "abc":
        kept.put(snapshot(letter, pinned=letter != "c"))
    kept.put(snapshot("d"))
    assert letters(kept) == "abd"
    kept.put(snapshot("e", 200))
    assert letters(kept) == "be"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 120), st.booleans())))
def test_the_figures_are_those_of_what_is_kept(puts: list[tuple[str, int, bool]]) -> None:
    kept = Snapshots(200)
    for letter, size, pinned in puts:
        kept.put(snapshot(letter, size, pinned))
        found = [kept.take(outline) for outline in kept.outlines()]
        sizes = [it.size for it in found if it]
        assert kept.amount == Amount(len(found), 200 * len(found), sum(sizes))
        assert sum(sizes) <= 200


@pytest.mark.parametrize("keeps_past", [True, False])
def test_two_prompts_take_turns_on_one_sequence(keeps_past: bool) -> None:
    engine = Engine(can_roll_back=keeps_past)
    sequences = Sequences(engine, cache=Cache(ROOM))
    known = [
        read(sequences, [*head(letter), number], [200]).length
        for number, letter in enumerate("ABABAB")
    ]
    assert known == [0, 0, 200, 200, 200, 200]
    assert engine.computed == 2 * 201 + 4
    metrics = sequences.metrics
    assert (metrics.hits, metrics.misses, metrics.failures) == (4, 2, 0)
    assert metrics.memory.tokens >= 400
    assert metrics.kv_cache.tokens == 201


def test_without_a_cache_nothing_is_saved() -> None:
    engine = Engine()
    sequences = Sequences(engine)
    known = [read(sequences, head(letter)).length for letter in "ABAB"]
    assert (known, engine.saved) == ([0, 0, 0, 0], 0)


def test_what_is_too_large_is_not_even_read() -> None:
    engine = Engine()
    sequences = Sequences(engine, cache=Cache(4 * 200 - 1))
    known = [read(sequences, head(letter)).length for letter in "ABAB"]
    assert (known, engine.saved) == ([0, 0, 0, 0], 0)


@pytest.mark.parametrize("keeps_past", [True, False])
def test_what_is_pinned_survives_what_is_not(keeps_past: bool) -> None:
    engine = Engine(can_roll_back=keeps_past)
    # Room for the pinned part and one or two of the others, with their checkpoints.
    sequences = Sequences(engine, cache=Cache(4 * (600 if keeps_past else 1900)))
    read(sequences, [*head("A"), *head("x")], [200])
    for letter in "bcdef":
        read(sequences, head(letter, 300))
    assert read(sequences, [*head("A"), *head("y")], [200]).length == 200
    assert read(sequences, head("b", 301)).length == 0


def test_little_is_neither_saved_nor_restored() -> None:
    engine = Engine()
    sequences = Sequences(engine, cache=Cache(ROOM))
    read(sequences, head("A", 64))
    read(sequences, head("B", 300))
    assert engine.saved == 0
    read(sequences, [*head("B", 299), *head("C", 60)])
    assert engine.saved == 0  # one token of B was lost
    assert read(sequences, head("B", 64)).length == 63
    assert engine.saved == 1
    # A snapshot has 63 tokens more.
    assert read(sequences, [*head("B", 127), *head("C", 100)]).length == 64
    assert read(sequences, [*head("B", 200), 1]).length == 200
    assert sequences.metrics.hits == 1


def test_what_goes_on_takes_the_place_of_what_it_began_with() -> None:
    sequences = Sequences(Engine(), cache=Cache(ROOM))
    prompt = head("A")
    for number in range(5):
        read(sequences, prompt)
        read(sequences, [number, *head("B", 100)])
        prompt = [*prompt, *head("A")]
    assert sorted(len(past.tokens) for past in sequences._prefix_cache.snapshots.outlines()) == (
        [101] * 4 + [1000]
    )


def test_where_room_is_short_a_sequence_is_saved_before_it_is_emptied() -> None:
    engine = Engine()
    sequences = Sequences(engine, cache=Cache(ROOM))
    read(sequences, head("A"))
    assert sequences.forget_oldest([0])
    assert not sequences.tokens(0)
    assert read(sequences, [*head("A"), 1]).length == 200


def test_a_prefix_that_another_sequence_has_is_not_saved() -> None:
    engine = Engine(max_sequences=2)
    sequences = Sequences(engine, cache=Cache(ROOM))
    read(sequences, [*head("A"), *head("x", 50)], [200])
    sequences.decode([Chunk(0, head("x", 20), 250)])
    assert read(sequences, [*head("A"), *head("y", 5)], [200]).length == 200
    read(sequences, head("B"))  # on the sequence with the x, of which 70 tokens are saved
    assert [len(past.tokens) for past in sequences._prefix_cache.snapshots.outlines()] == [270]
    read(sequences, head("C"))  # on the one with the y; nobody else has its prefix now
    assert [len(past.tokens) for past in sequences._prefix_cache.snapshots.outlines()] == [
        270,
        200,
    ]


def test_what_another_sequence_has_nearly_all_of_is_not_saved() -> None:
    engine = Engine(max_sequences=2)
    sequences = Sequences(engine, cache=Cache(ROOM))
    read(sequences, [*head("A"), *head("x", 70)])
    read(sequences, [*head("A"), *head("y", 5)])
    read(sequences, [*head("A"), *head("x", 71)])
    read(sequences, head("B"))  # on the sequence with the y
    assert engine.saved == 0


@pytest.mark.parametrize(("keeps_past", "near"), [(True, 176), (False, 80)])
def test_in_blocks_only_what_came_in_whole_blocks_is_of_use(keeps_past: bool, near: int) -> None:
    engine = Engine(can_roll_back=keeps_past)
    sequences = Sequences(engine, BLOCK, Cache(ROOM))
    read(sequences, head("A"), [90], BLOCK)
    for number in range(50):  # a reply, token by token
        sequences.decode([Chunk(0, [number], 200 + number)])
    read(sequences, head("B"), [90], BLOCK)
    whole = [*head("A"), *range(50), 1]
    assert read(sequences, whole, [90], BLOCK).length == 192
    read(sequences, head("B"), [90], BLOCK)
    assert read(sequences, [*head("A", 191), 1], [90], BLOCK).length == near


def test_a_state_that_the_engine_refuses_is_forgotten() -> None:
    engine = Engine()
    sequences = Sequences(engine, cache=Cache(ROOM))
    read(sequences, head("A"))
    read(sequences, head("B"))
    engine.is_broken = True
    assert read(sequences, [*head("A"), 1]).length == 0
    metrics = sequences.metrics
    assert (metrics.hits, metrics.failures) == (0, 1)
    assert metrics.last_failure == "a state of 799 bytes is not that of 200 tokens"
    assert all(past.tokens[0] == ord("B") for past in sequences._prefix_cache.snapshots.outlines())


def test_checkpoints_are_the_pinned_and_the_latest() -> None:
    sequences = Sequences(Engine(can_roll_back=False))
    prompt = head("A")
    for number in range(10):
        assert read(sequences, prompt, [150]).length == (0 if number == 0 else len(prompt) - 5)
        prompt = [*prompt, *head("A", 5)]
    places = sorted(sequences._states[0].checkpoints)
    assert places == [150, *(199 + 5 * number for number in range(10 - LATEST, 10))]
    assert sequences.metrics.held == Amount(1, 245, 4 * sum(places))
    assert sequences.go_back(0, 243) == 239
    assert sequences.go_back(0, 223) == 150
    assert sequences.go_back(0, 149) is None
    assert list(sequences.tokens(0)) == head("A", 150)


def test_the_same_prompt_again_and_one_that_differs_later() -> None:
    sequences = Sequences(Engine(can_roll_back=False))
    prompt = [*head("A"), *head("x", 50)]
    read(sequences, prompt, [200])
    sequences.decode([Chunk(0, [1, 2, 3], 250)])
    assert read(sequences, prompt, [200]).length == 249
    assert read(sequences, [*head("A"), *head("y", 50)], [200]).length == 200
    assert read(sequences, [*head("A", 100), 1]).length == 0


def test_checkpoints_of_tokens_that_are_gone_are_gone_too() -> None:
    sequences = Sequences(Engine(can_roll_back=False))
    read(sequences, [*head("A"), *head("x", 100)], [200])
    read(sequences, [*head("A"), *head("y", 200)], [200])
    assert sorted(sequences._states[0].checkpoints) == [200, 399]
    assert read(sequences, [*head("A"), *head("y", 110), 1], [200]).length == 200


def test_what_cannot_be_cut_after_all_is_emptied() -> None:
    engine = Engine()
    sequences = Sequences(engine)
    read(sequences, head("A"))
    engine._can_roll_back = False
    engine.can_cut = lambda sequence, length: True
    assert read(sequences, [*head("A", 150), 1]) == PrefixMatch(0, 0)


def test_files_of_other_blocks_are_of_no_use(tmp_path: Path) -> None:
    """Where blocks are not asked for, single tokens are blocks."""
    cache = Cache(0, tmp_path)
    sequences = Sequences(Engine(), cache=cache)
    read(sequences, head("A"), block=1)
    sequences.save()
    assert sequences.metrics.disk.count == 1
    assert read(Sequences(Engine(), BLOCK, cache), head("A"), block=BLOCK).length == 0
    assert read(Sequences(Engine(), 1, cache), head("A")).length == 199


def test_a_copy_can_go_back_too() -> None:
    engine = Engine(can_roll_back=False, max_sequences=2)
    sequences = Sequences(engine)
    read(sequences, [*head("A"), *head("x", 70)], [200])
    match = read(sequences, [*head("A"), *head("y", 70)], [200])
    assert match == PrefixMatch(1, 200)
    assert len(sequences.tokens(0)) == len(sequences.tokens(1)) == 270


def test_a_checkpoint_that_the_engine_refuses_empties_the_sequence() -> None:
    engine = Engine(can_roll_back=False)
    sequences = Sequences(engine)
    read(sequences, head("A"), [100])
    engine.is_broken = True
    with pytest.raises(ModelError, match="no checkpoint of the first 100 tokens"):
        sequences.go_back(0, 150)
    assert not sequences.tokens(0)
    read(sequences, head("B"), [100])
    assert read(sequences, [*head("B", 150), 1]).length == 0
    assert sequences.metrics.failures == 1


def test_boundaries_outside_of_the_prompt_are_none() -> None:
    sequences = Sequences(Engine(can_roll_back=False))
    read(sequences, head("A"), [-5, 0, 200, 201, 10**9])
    assert sorted(sequences._states[0].checkpoints) == [199, 200]


@given(
    st.lists(st.integers(0, 1), max_size=12),
    st.integers(0, 12),
    st.lists(st.integers(0, 1), max_size=3),
    st.integers(0, 12),
    st.sets(st.integers(1, 12)),
    st.integers(1, 3),
)
def test_measure_is_the_longest_that_can_be_had(
    held: list[int],
    shared: int,
    rest: list[int],
    in_blocks: int,
    places: set[int],
    block: int,
) -> None:
    wanted = [*held[:shared], *rest]
    past = SequenceState(
        held,
        min(in_blocks, len(held)),
        {at: b"" for at in places if at <= len(held)},
        scope="a",
    )
    for is_cut_anywhere in (True, False):
        possible = {0, len(held), *past.checkpoints}
        if is_cut_anywhere:
            possible |= set(range(len(held)))
        fit = [
            at
            for at in possible
            if held[:at] == wanted[:at]
            and at <= len(wanted)
            and at % block == 0
            and (block == 1 or at <= past.in_blocks)
        ]
        found = count_reusable(
            past,
            ScopedTokens(wanted, "a"),
            max_tokens=len(wanted),
            block=block,
            can_cut=lambda _, cut=is_cut_anywhere: cut,
        )
        assert found == max(fit)


def test_what_is_read_anew_stays_in_its_scope() -> None:
    """A draft that cannot be taken back: the sequence is emptied, and the turn goes on in it."""
    sequences = Sequences(Engine())
    prompt = head("a")
    number = sequences.claim(prompt, [0], "a").sequence
    sequences.decode([Chunk(number, prompt, 0)])
    sequences.release(number)
    sequences.decode([Chunk(number, prompt, 0)])
    known = [sequences.find(prompt, scope) for scope in ("a", "b", "", None)]
    assert known == [len(prompt) - 1, 0, 0, 0]
