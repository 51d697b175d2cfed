"""Requests share an engine: nothing is computed twice, and none of them sees another one."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from constrained.decode.kv.sequences import SPARED, Sequences
from constrained.decode.kv.snapshots import Cache
from constrained.decode.request import (
    DecodeInput,
    DecodeOptions,
    Finish,
    Generation,
    Request,
)
from constrained.decode.schedule.batch_plan import BLOCK, PROMPT_STEP
from constrained.decode.schedule.runner import Runner
from constrained.decode.schedule.scheduler import Schedule, Seat
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import BusyError, ContextError, ModelError
from constrained.prompt.cache_breakpoints import CacheBreakpoints
from constrained.prompt.cache_scope import COMMON, CacheScope, name_scope
from grammars.parse.parser import Parser
from grammars.wire.format import count_common
from grammars.wire.formats import HERMES
from tests.generation import generate

OTHER = name_scope("a")  # in files, a scope has the form of its names
BYTES = byte_vocabulary(())
GREEDY = Sampling(temperature=0)


class Watched(ScriptedEngine):
    """Random logits of the tokens; keeps the chunks, and may have room for so many tokens only."""

    def __init__(self, room: int | None = None, **options: Any):
        super().__init__(BYTES, random_logits(BYTES), **options)
        self.chunks: list[list[Chunk]] = []
        self._room = room

    def decode(self, chunks: Sequence[Chunk]) -> np.ndarray:
        size = sum(len(tokens) for tokens in self._tokens) + sum(len(c.tokens) for c in chunks)
        if self._room is not None and size > self._room:
            raise ContextError("the context that the sequences share is full")
        self.chunks.append([*chunks])
        return super().decode(chunks)

    @property
    def computed(self) -> int:
        return sum(len(chunk.tokens) for step in self.chunks for chunk in step)


def request(
    prompt: Sequence[int],
    max_tokens: int = 8,
    is_wanted: Callable[[], bool] = lambda: True,
    boundaries: tuple[int, ...] = (),
    owner: str | None = None,
    scope: CacheScope = COMMON,
) -> Request:
    breakpoints = CacheBreakpoints(places=boundaries)
    turn = DecodeInput(
        tuple(prompt), lambda: Parser(HERMES, ()), breakpoints=breakpoints, scope=scope
    )
    options = DecodeOptions(max_tokens=max_tokens, sampling=GREEDY)
    return Request(turn, options, is_wanted=is_wanted, owner=owner)


@cache
def alone(prompt: tuple[int, ...], max_tokens: int) -> tuple[int, ...]:
    return generate(Watched(), [request(prompt, max_tokens)])[0].tokens


def add(schedule: Schedule, *requests: Request) -> list[Seat]:
    seats = [Seat(given) for given in requests]
    for seat in seats:
        schedule.add(seat)
    return seats


def finish(schedule: Schedule, *requests: Request) -> list[Generation]:
    seats = add(schedule, *requests)
    while not schedule.is_idle:
        schedule.step()
    return [seat.result.result() for seat in seats]


def letters(text: str, count: int = 1) -> tuple[int, ...]:
    return tuple(BYTES.encode(text * count))


class Schedules(RuleBasedStateMachine):
    """Whatever comes, in whatever order: each request is answered as if it were alone."""

    seats = Bundle("seats")

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[list[Chunk]] = []
        self.start()
        self.asked: list[tuple[Seat, tuple[int, ...], int, list[bool]]] = []

    keeps_past, deterministic = True, False
    sequences, memory = 3, 0

    def start(self) -> None:
        self.engine = Watched(max_sequences=self.sequences, can_roll_back=self.keeps_past)
        self.engine.chunks = self.chunks
        self.schedule = Schedule(
            self.engine, step=40, deterministic=self.deterministic, cache=self.cache
        )

    @property
    def cache(self) -> Cache:
        return Cache(self.memory)

    @rule(
        target=seats,
        head=st.sampled_from([b"system A. " * 14, b"system B. " * 14, b""]),
        tail=st.binary(min_size=1, max_size=30),
        max_tokens=st.integers(1, 12),
        scope=st.sampled_from([COMMON, COMMON, OTHER, None]),
        owner=st.sampled_from([None, "one", "other"]),
    )
    def ask(
        self, head: bytes, tail: bytes, max_tokens: int, scope: CacheScope, owner: str | None
    ) -> int:
        prompt = tuple(head + tail)
        wanted = [True]
        boundaries = (len(head),) if len(head) > 100 else ()
        asked = request(prompt, max_tokens, lambda: wanted[0], boundaries, owner, scope)
        (seat,) = add(self.schedule, asked)
        self.asked.append((seat, prompt, max_tokens, wanted))
        return len(self.asked) - 1

    @rule(target=seats, number=seats, tail=st.binary(min_size=1, max_size=10))
    def go_on(self, number: int, tail: bytes) -> int:
        """The next turn of a conversation, if the last one is over."""
        seat, prompt, max_tokens, _ = self.asked[number]
        if not seat.result.done() or seat.result.exception():
            return number
        tail = bytes(seat.result.result().tokens) + tail
        request = seat.request
        return self.ask(bytes(prompt), tail, max_tokens, request.turn.scope, request.owner)

    @rule(number=seats)
    def cancel(self, number: int) -> None:
        self.asked[number][3][0] = False

    @rule(count=st.integers(1, 5))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.schedule.step()

    @invariant()
    def what_it_remembers_is_so(self) -> None:
        known = self.schedule._sequences
        assert [list(known.tokens(n)) for n in range(self.sequences)] == self.engine._tokens

    @invariant()
    def it_keeps_within_its_budget(self) -> None:
        assert self.schedule.metrics.memory.bytes <= self.memory
        assert self.schedule.metrics.failures == 0

    def teardown(self) -> None:
        while not self.schedule.is_idle:
            self.schedule.step()
        self.check_replies()
        sizes = [sum(len(c.tokens) for c in step) for step in self.chunks]
        assert max(sizes, default=0) <= (BLOCK if self.deterministic else 40)

    def check_replies(self) -> None:
        for seat, prompt, max_tokens, wanted in self.asked:
            made = seat.result.result()
            whole = alone(prompt, max_tokens)
            if wanted[0] or made.finish is not Finish.CANCELLED:
                assert made.tokens == whole
            else:
                assert made.tokens == whole[: len(made.tokens)]
            assert made.usage.cached_tokens <= self.count_known(seat)

    def count_known(self, seat: Seat) -> int:
        """The tokens that the prompt has in common with what others of its scope had."""
        turn, known = seat.request.turn, 0
        for other, prompt, _, _ in self.asked:
            is_of_scope = turn.scope is not None and other.request.turn.scope == turn.scope
            if other is not seat and is_of_scope:
                tokens = [*prompt, *other.result.result().tokens]
                known = max(known, count_common(tokens, [*turn.prompt]))
        return known


class WithoutPast(Schedules):
    keeps_past = False


class Deterministic(Schedules):
    deterministic = True


class Cached(Schedules):
    sequences, memory = 1, 4000


class CachedWithoutPast(Cached):
    keeps_past = False


class CachedDeterministic(Cached):
    deterministic = True


class CachedDeterministicWithoutPast(CachedDeterministic):
    keeps_past = False


class Stored(Cached):
    """Whatever was kept in files is used after a restart."""

    memory = 1000

    def __init__(self) -> None:
        self.folder = TemporaryDirectory()
        super().__init__()

    @property
    def cache(self) -> Cache:
        return Cache(self.memory, Path(self.folder.name), disk=20_000)

    @rule()
    def restart(self) -> None:
        while not self.schedule.is_idle:
            self.schedule.step()
        self.schedule.save()
        self.start()

    def teardown(self) -> None:
        super().teardown()
        self.schedule.save()  # nobody writes to the folder any more
        self.folder.cleanup()


class StoredWithoutPast(Stored):
    keeps_past = False


TestSchedules = Schedules.TestCase
TestCached = Cached.TestCase
TestCachedWithoutPast = CachedWithoutPast.TestCase
TestCachedDeterministic = CachedDeterministic.TestCase
TestCachedDeterministicWithoutPast = CachedDeterministicWithoutPast.TestCase
TestStored = Stored.TestCase
TestStoredWithoutPast = StoredWithoutPast.TestCase
TestWithoutPast = WithoutPast.TestCase
TestDeterministic = Deterministic.TestCase
for machine in (
    TestSchedules,
    TestCached,
    TestCachedWithoutPast,
    TestCachedDeterministic,
    TestCachedDeterministicWithoutPast,
    TestStored,
    TestStoredWithoutPast,
    TestWithoutPast,
    TestDeterministic,
):  # many machines of few examples find as much as few of many
    machine.settings = settings(max_examples=settings.default.max_examples * 2 // 5)


def test_a_prefix_that_nobody_has_computed_yet_is_computed_once() -> None:
    engine = Watched(max_sequences=8)
    prefix = letters("the tools ", 200)
    prompts = [(*prefix, *letters(f"question {n}")) for n in range(8)]
    made = finish(Schedule(engine), *(request(prompt, 1) for prompt in prompts))
    assert [m.tokens for m in made] == [alone(prompt, 1) for prompt in prompts]
    own = sum(len(prompt) - len(prefix) for prompt in prompts)
    assert engine.computed <= len(prefix) + own
    assert [m.usage.cached_tokens >= len(prefix) for m in made] == [False, *[True] * 7]


def test_who_is_of_another_scope_computes_and_waits_for_nothing_of_it() -> None:
    engine = Watched(max_sequences=3)
    prompt = letters("the tools ", 40)
    schedule = Schedule(engine, cache=Cache(1 << 20))
    for scopes, cached in ((("a", "b"), 0), (("a", "b"), 1), ((None, "c"), 0), ((None, "a"), None)):
        made = finish(schedule, *(request(prompt, 1, scope=scope) for scope in scopes))
        known = [generation.usage.cached_tokens for generation in made]
        if cached is None:
            assert known == [0, len(prompt) - 1]
        else:
            assert known == [cached * (len(prompt) - 1)] * 2
    assert len(engine.chunks[0]) == 2  # none waits for the other


def test_a_conversation_goes_on_where_it_was() -> None:
    engine = Watched()
    prompt = letters("hello ", 50)
    schedule = Schedule(engine)
    for _ in range(5):
        before = engine.computed
        (made,) = finish(schedule, request(prompt))
        new = engine.computed - before
        assert made.tokens == alone(prompt, 8)
        prompt = (*prompt, *made.tokens, *letters("and then?"))
    assert new < 30


def test_alternating_prompts_keep_their_sequences() -> None:
    engine = Watched(max_sequences=2)
    schedule = Schedule(engine)
    prompts = [letters("system one ", 50), letters("another system ", 50)]
    for prompt in prompts:
        finish(schedule, request((*prompt, 1)))
    for number in range(6):
        (made,) = finish(schedule, request((*prompts[number % 2], number)))
        assert made.usage.cached_tokens >= len(prompts[number % 2])


def test_prompts_are_read_one_after_the_other() -> None:
    """Of prompts that come at once, the first one waits for its own tokens, not for all."""
    engine = Watched(max_sequences=4)
    schedule = Schedule(engine, step=32)
    prompts = [letters(name, 40) for name in ("a long prompt ", "one ", "two ", "three ")]
    seats = add(schedule, *(request(prompt, 1) for prompt in prompts))
    ends = dict[int, int]()
    steps = 0
    while len(ends) < len(seats):
        schedule.step()
        steps += 1
        for number, seat in enumerate(seats):
            if seat.result.done():
                ends.setdefault(number, steps)
    assert list(ends)[-1] == 0  # the longest is read last, but in every n-th step it comes first
    assert min(ends.values()) < 0.4 * max(ends.values())
    read = [chunk for step in engine.chunks[: ends[1]] for chunk in step if chunk.sequence == 0]
    assert max(len(chunk.tokens) for chunk in read) > 20


def test_a_long_prompt_does_not_stop_the_others() -> None:
    engine = Watched(max_sequences=2)
    schedule = Schedule(engine, step=32)
    add(schedule, request(letters("short"), 40))
    schedule.step()
    (long,) = add(schedule, request(letters("long ", 100), 1))
    while not long.result.done():
        schedule.step()
    reading = [step for step in engine.chunks if any(c.sequence == 1 for c in step)]
    assert len(reading) > 10
    assert all(len(step) == 2 for step in reading[: len(alone(letters("short"), 40)) - 1])
    assert all(sum(len(c.tokens) for c in step) <= 32 for step in reading)


@pytest.mark.parametrize("offloads", [False, True])
def test_prompts_are_read_in_pieces_beside_a_stream_on_the_cpu(offloads: bool) -> None:
    engine = Watched(max_sequences=4)
    engine.offloads = offloads
    schedule = Schedule(engine)
    add(schedule, request(letters("short"), 60))
    schedule.step()
    prompts = [letters(name, 200) for name in "abc"]
    readers = add(schedule, *(request(prompt, 3) for prompt in prompts))
    while not all(reader.result.done() for reader in readers):
        schedule.step()
    sizes = [
        sum(len(chunk.tokens) for chunk in step if chunk.sequence > 0 and chunk.position < 200)
        for step in engine.chunks[1:]
    ]
    assert max(sizes) == (511 if offloads else PROMPT_STEP)
    for prompt, reader in zip(prompts, readers, strict=True):
        assert reader.result.result().tokens == alone(prompt, 3)


def test_prompts_are_read_at_once_where_nobody_waits() -> None:
    engine = Watched(max_sequences=2)
    schedule = Schedule(engine)
    add(schedule, request(letters("a", 200), 1), request(letters("b", 200), 1))
    schedule.step()
    assert [sum(len(chunk.tokens) for chunk in step) for step in engine.chunks] == [400]


def test_nobody_waits_for_a_request_that_is_cancelled_while_its_prompt_is_read() -> None:
    engine = Watched(max_sequences=1)
    schedule = Schedule(engine, step=16)
    wanted = [True]
    first, second = add(
        schedule,
        request(letters("long ", 100), 1, lambda: wanted[0]),
        request(letters("short"), 1),
    )
    schedule.step()
    wanted[0] = False
    schedule.step()
    assert first.result.result().finish is Finish.CANCELLED
    while not schedule.is_idle:
        schedule.step()
    assert second.result.result().tokens == alone(letters("short"), 1)
    assert engine.computed < 100


def test_where_room_is_short_what_nobody_uses_goes_first() -> None:
    engine = Watched(room=330, max_sequences=4)
    schedule = Schedule(engine)
    prompts = [letters(name, 25) for name in ("old ", "new ", "third ")]
    for prompt in prompts:
        (made,) = finish(schedule, request(prompt))
        assert made.tokens == alone(prompt, 8)
    seats = add(schedule, *(request(letters(name, 30), 40) for name in ("one ", "two ", "six ")))
    while not schedule.is_idle:
        schedule.step()
    failed = [seat for seat in seats if seat.result.exception()]
    assert [seat is seats[-1] for seat in failed] == [True]
    with pytest.raises(ContextError, match="full"):
        failed[0].result.result()
    assert seats[0].result.result().tokens == alone(letters("one ", 30), 40)


def test_the_failure_of_one_is_not_that_of_others() -> None:
    def fail(events: Any) -> None:
        raise ModelError("no")

    turn = DecodeInput(letters("bad"), lambda: Parser(HERMES, ()))
    bad = Request(turn, DecodeOptions(max_tokens=8, sampling=GREEDY), sink=fail)
    schedule = Schedule(Watched(max_sequences=2))
    good, broken = add(schedule, request(letters("good")), bad)
    while not schedule.is_idle:
        schedule.step()
    assert good.result.result().tokens == alone(letters("good"), 8)
    assert isinstance(broken.result.exception(), ModelError)


def test_a_queue_that_is_full_says_so() -> None:
    runner = Runner(Schedule(Watched(max_sequences=1)), "test", max_waiting=2)
    wanted = [True]
    held = list[Future[Generation]]()

    def submit() -> None:
        held.append(runner.submit(request(letters("a"), 4000, lambda: wanted[0])))

    def submit_many() -> None:
        for _ in range(5):
            submit()

    with pytest.raises(BusyError, match=r"2 requests are waiting already\. Try again later"):
        submit_many()
    wanted[0] = False
    runner.close()
    runner.close()
    assert all(seat.done() for seat in held)
    with pytest.raises(ModelError, match="closed"):
        runner.submit(request(letters("a")))


def test_what_is_lost_is_worth_little() -> None:
    sequences = Sequences(Watched(max_sequences=2))
    long = letters("x", 300)
    match = sequences.claim(long, [0, 1])
    sequences.decode([Chunk(match.sequence, long, 0)])
    other = sequences.claim((*long[:100], 1), [0, 1])  # a tail of 200 is worth a copy
    assert (other.sequence != match.sequence, other.length) == (True, 100)
    near = sequences.claim((*long[: 300 - SPARED], 1, 2), [0, 1])
    assert (near.sequence, near.length) == (match.sequence, 300 - SPARED)


@pytest.mark.parametrize(("one", "other"), [("", ""), ("a", ""), ("abc", "abd"), ("ab", "abab")])
def test_count_common(one: str, other: str) -> None:
    whole = next(n for n in range(len(one), -1, -1) if other.startswith(one[:n]))
    assert count_common(BYTES.encode(one), BYTES.encode(other)) == whole


def admitted(schedule: Schedule, requests: Sequence[Request]) -> list[int]:
    """The numbers of the requests in the order in which they are done."""
    seats = add(schedule, *requests)
    done: list[int] = []
    while not schedule.is_idle:
        schedule.step()
        done += [n for n, seat in enumerate(seats) if seat.result.done() and n not in done]
    return done


def test_nobody_waits_while_others_come_back_again_and_again() -> None:
    schedule = Schedule(Watched(max_sequences=1))
    pauses: dict[str, int] = {"at once": 0, **{f"after {n}": n for n in range(3, 11)}}
    served = dict.fromkeys(pauses, 0)
    due = dict.fromkeys(pauses, 0)
    waiting: dict[str, Seat] = {}
    for step in range(400):
        for owner, seat in list(waiting.items()):
            if seat.result.done():
                served[owner] += 1
                due[owner] = step + pauses[owner]
                del waiting[owner]
        for owner in pauses:
            if owner not in waiting and step >= due[owner]:
                again = request(letters(owner, served[owner] + 3), 2, owner=owner)
                (waiting[owner],) = add(schedule, again)
        schedule.step()
    assert min(served.values()) > max(served.values()) / 2 > 5, served


def test_owners_are_admitted_by_turns_however_much_each_asks_for() -> None:
    requests = [request(letters("a", n + 3), 2, owner="many") for n in range(6)]
    requests.append(request(letters("b", 3), 2, owner="one"))
    requests.append(request(letters("c", 3), 2, owner="two"))
    assert admitted(Schedule(Watched(max_sequences=1)), requests) == [0, 6, 7, 1, 2, 3, 4, 5]


def test_who_has_fewer_under_way_goes_first() -> None:
    schedule = Schedule(Watched(max_sequences=3))
    many = add(schedule, *[request(letters("a", n + 3), 8, owner="many") for n in range(6)])
    schedule.step()
    (one,) = add(schedule, request(letters("b", 3), 1, owner="one"))
    while not one.result.done():
        schedule.step()
    assert not any(seat.result.done() for seat in many[3:])


def test_long_replies_of_one_owner_do_not_delay_another() -> None:
    schedule = Schedule(Watched(max_sequences=3))
    finish(schedule, request(letters("b", 3), 1, owner="one"))
    many = add(schedule, *[request(letters("a", n + 3), 60, owner="many") for n in range(6)])
    for text in "cde":
        schedule.step()
        (one,) = add(schedule, request(letters(text, 3), 1, owner="one"))
        for _ in range(3):
            schedule.step()
        assert one.result.done()
        assert not any(seat.result.done() for seat in many)
    while not schedule.is_idle:
        schedule.step()
    for n, seat in enumerate(many):
        assert seat.result.result().tokens == alone(letters("a", n + 3), 60)


def test_requests_of_nobody_are_admitted_in_their_order() -> None:
    requests = [request(letters("a", n + 3), 2) for n in range(4)]
    assert admitted(Schedule(Watched(max_sequences=1)), requests) == [0, 1, 2, 3]
