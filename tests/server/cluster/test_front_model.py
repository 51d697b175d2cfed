"""A front and its replicas: the same replies as one model gives, also where replicas die."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained import Model, Sampling
from constrained.decode.filters.events import StreamEvent
from constrained.engine.header import Header
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.errors import DeadlineError, ModelError, RequestError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from server.cluster import engine_replica, front_model
from server.cluster.front_model import MAX_REPLICAS, FrontModel
from server.cluster.header_engine import HeaderEngine
from tests.scripted_model import BYTES
from tests.server.cluster.killable_fleet import KillableFleet
from tests.templates import HERMES

MESSAGES = [{"role": "user", "content": "What's the weather in Oslo?"}]
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "days": {"type": "integer"},
            },
            "required": ["city", "days"],
        },
    },
}
OPTIONS: dict[str, Any] = {"max_tokens": 90, "sampling": Sampling(temperature=0)}


def make_replica() -> Model:
    engine = ScriptedEngine(BYTES, random_logits(BYTES, 3), context_length=4_000)
    return Model(engine, ChatTemplate(HERMES))


def make_front(fleet: KillableFleet) -> FrontModel:
    header = Header(BYTES, "", "", {})
    engine = HeaderEngine(header, Path("none.gguf"), context_length=4_000, max_sequences=2)
    return FrontModel(engine, ChatTemplate(HERMES), fleet=fleet)


@pytest.fixture(scope="module")
def local() -> Iterator[Model]:
    with make_replica() as model:
        yield model


@pytest.fixture(scope="module")
def replicas() -> Iterator[KillableFleet]:
    fleet = KillableFleet(make_replica, 3)
    yield fleet
    fleet.close()


def bring_back(fleet: KillableFleet) -> None:
    """All replicas are there, and nothing is planned for them."""
    fleet.kill_after, fleet.kills = None, 1
    fleet.hangs = fleet.waits = False
    fleet.orders.clear()
    for name, replica in fleet.replicas.items():
        fleet.router.report(name, replica.report())


async def stream(
    model: Model, turn: CompiledTurn, **options: Any
) -> tuple[list[StreamEvent], Reply]:
    under_way = model.astream_turn(turn, **{**OPTIONS, **options})
    events = [event async for event in under_way]
    return events, await under_way.result()


def ask_front(fleet: KillableFleet) -> Reply:
    """The reply to a request with a tool, through a front of its own."""

    async def ask() -> Reply:
        front = make_front(fleet)
        return (await stream(front, front.compile(Job(MESSAGES, [TOOL]))))[1]

    return asyncio.run(ask())


@settings(max_examples=8)
@given(
    kill_after=st.none() | st.integers(0, 60),
    choice=st.sampled_from(["auto", "required", "none"]),
    logprobs=st.sampled_from([None, 2]),
)
def test_a_stream_has_neither_gap_nor_double_where_a_replica_dies(
    local: Model,
    replicas: KillableFleet,
    kill_after: int | None,
    choice: str,
    logprobs: int | None,
) -> None:
    bring_back(replicas)
    job = Job(MESSAGES, [TOOL], tool_choice=choice)

    async def ask() -> tuple[list[StreamEvent], Reply]:
        front = make_front(replicas)
        replicas.kill_after = kill_after
        return await stream(front, front.compile(job), logprobs=logprobs)

    async def ask_here() -> tuple[list[StreamEvent], Reply]:
        return await stream(local, local.compile(job), logprobs=logprobs)

    events, reply = asyncio.run(ask())
    expected_events, expected = asyncio.run(ask_here())
    assert events == expected_events
    assert replace(reply, resumed=(), usage=expected.usage) == expected
    assert reply.usage.completion_tokens == expected.usage.completion_tokens
    asked = [name for name, _ in replicas.orders]
    was_killed = len(asked) == 2
    assert was_killed == (replicas.kill_after is None and kill_after is not None)
    assert len(set(asked)) == len(asked)
    assert bool(reply.resumed) == (was_killed and bool(replicas.orders[1][1].options.written))


def test_a_replica_that_says_nothing_is_left(
    replicas: KillableFleet, local: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_back(replicas)
    monkeypatch.setattr(front_model, "SILENT_SECONDS", 1.5)
    monkeypatch.setattr(engine_replica, "ALIVE_SECONDS", 0.1)
    replicas.kill_after, replicas.hangs = 7, True

    reply = ask_front(replicas)
    turn = local.compile(Job(MESSAGES, [TOOL]))
    assert reply.text == local.complete([turn], **OPTIONS)[0].text
    assert replicas.orders[0][0] in replicas.orders[1][1].avoid


def test_a_turn_goes_on_as_long_as_it_gets_further(local: Model, replicas: KillableFleet) -> None:
    bring_back(replicas)
    replicas.kill_after, replicas.kills = 5, 2 * MAX_REPLICAS

    reply = ask_front(replicas)
    turn = local.compile(Job(MESSAGES, [TOOL]))
    assert reply.text == local.complete([turn], **OPTIONS)[0].text
    assert len(reply.resumed) == 2 * MAX_REPLICAS


def test_a_turn_that_ends_its_replicas_ends_few(replicas: KillableFleet) -> None:
    bring_back(replicas)
    replicas.kill_after, replicas.kills = 1, 100

    with pytest.raises(ModelError, match="no replica could finish the turn"):
        ask_front(replicas)
    assert len(replicas.orders) == MAX_REPLICAS


def test_another_replica_has_the_time_that_is_left(replicas: KillableFleet) -> None:
    bring_back(replicas)
    replicas.kill_after = 9

    async def ask() -> None:
        front = make_front(replicas)
        await stream(front, front.compile(Job(MESSAGES, [TOOL])), timeout=60)

    asyncio.run(ask())
    first, second = (order.seconds for _, order in replicas.orders)
    assert first is not None
    assert second is not None
    assert 0 < second < first <= 60


@pytest.mark.parametrize("waits", [False, True])
def test_where_no_replica_is_left_the_request_fails(
    replicas: KillableFleet, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr(front_model, "REACH_SECONDS", 0.1)
    monkeypatch.setattr(front_model, "LOOK_AGAIN_SECONDS", 0.01)
    bring_back(replicas)
    replicas.waits = waits
    for name in replicas.replicas:
        replicas.router.remove(name)

    async def ask(timeout: float | None = None) -> None:
        front = make_front(replicas)
        await stream(front, front.compile(Job(MESSAGES)), timeout=timeout)

    with pytest.raises(ModelError, match="no replica could finish the turn"):
        asyncio.run(ask())
    monkeypatch.setattr(front_model, "REACH_SECONDS", 3600)
    with pytest.raises(DeadlineError, match="no replica was available"):
        asyncio.run(ask(timeout=0.1))


def test_a_turn_waits_for_a_replica_to_come_back(
    local: Model, replicas: KillableFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them die in the middle of the turn; another one is there long after four looks."""
    monkeypatch.setattr(front_model, "LOOK_AGAIN_SECONDS", 0.01)
    bring_back(replicas)
    name, *others = replicas.replicas
    for other in others:
        replicas.router.remove(other)
    replicas.kill_after = 5
    turn = local.compile(Job(MESSAGES, [TOOL]))

    async def come_back() -> None:
        while not replicas.router.names:
            await asyncio.sleep(0.3)
            replicas.router.report(others[0], replicas.replicas[others[0]].report())

    async def ask() -> Reply:
        front = make_front(replicas)
        under_way = asyncio.create_task(stream(front, front.compile(Job(MESSAGES, [TOOL]))))
        while name in replicas.router.names:
            await asyncio.sleep(0.001)
        await come_back()
        return (await under_way)[1]

    reply = asyncio.run(ask())
    assert reply.text == local.complete([turn], **OPTIONS)[0].text
    assert len(reply.resumed) == 1
    assert [asked for asked, _ in replicas.orders] == [name, others[0]]


def test_an_error_of_a_replica_is_that_of_the_request(replicas: KillableFleet) -> None:
    bring_back(replicas)

    async def ask() -> None:
        front = make_front(replicas)
        job = Job(MESSAGES, [TOOL], tool_choice="required")
        await stream(front, front.compile(job), max_tokens=2)

    with pytest.raises(RequestError) as error:
        asyncio.run(ask())
    assert error.value.where == "/max_tokens"
    assert len(replicas.orders) == 1


def test_a_turn_that_nobody_waits_for_ends_at_its_replica(replicas: KillableFleet) -> None:
    bring_back(replicas)

    async def ask() -> None:
        front = make_front(replicas)
        under_way = front.astream_turn(
            front.compile(Job(MESSAGES)), sampling=Sampling(temperature=0), max_tokens=3_000
        )
        async for _ in under_way:
            break
        under_way.cancel()
        async with asyncio.timeout(20):
            while any(replica.report().requests for replica in replicas.replicas.values()):
                await asyncio.sleep(0.02)
        assert all(replica.kv_used == 0 for replica in replicas.replicas.values())

    asyncio.run(ask())


def test_a_conversation_goes_where_its_prefix_is(replicas: KillableFleet) -> None:
    bring_back(replicas)

    async def ask() -> None:
        front = make_front(replicas)
        _, reply = await stream(front, front.compile(Job(MESSAGES, [TOOL])))
        messages = [*MESSAGES]
        for _ in range(2):
            messages += [reply.message(), {"role": "user", "content": "And tomorrow?"}]
            _, reply = await stream(front, front.compile(Job(messages, [TOOL])))
            assert replicas.orders[0][0] == replicas.orders[-1][0]
        assert reply.usage.cached_tokens > 0.5 * reply.usage.prompt_tokens

    asyncio.run(ask())


def test_what_two_keys_ask_has_no_prefix_in_common(replicas: KillableFleet) -> None:
    bring_back(replicas)

    async def ask(salt: str) -> None:
        front = make_front(replicas)
        await stream(front, front.compile(Job(MESSAGES, [TOOL], cache_salt=salt)))

    for salt in ("one", "other"):
        asyncio.run(ask(salt))
    one, other = (set(order.chain) for _, order in replicas.orders)
    assert one
    assert one.isdisjoint(other)
