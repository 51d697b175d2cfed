"""Calls that the client has approved, each of which is carried out once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from constrained.errors import ContextError, Error, RequestError, TokenLimitError
from constrained.tools.functions import FunctionTool
from grammars.turn import ToolCall
from server.dialects.responses.approved_calls import (
    CALLS,
    MAX_CONCURRENT_CALLS,
    ApprovedCall,
    ExecutedCalls,
    noting_executed,
)
from server.mcp.hosted_tools import BorrowedServer, ListedServer
from server.store.shared_work import SharedWork
from server.store.sqlite_store import SqliteStore

Json = dict[str, Any]


class Shop:
    """A server with one tool, which buys something once the shop is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.begun: list[int] = []
        self.borrowed = 0

    async def buy(self, number: int) -> str:
        self.begun.append(number)
        await self.open.wait()
        return f"bought {number}"

    def approve(self, *numbers: int) -> list[ApprovedCall]:
        tool = FunctionTool.from_function(self.buy, description="Buys.")
        approved: list[ApprovedCall] = []
        for number in numbers:
            item: Json = {
                "id": f"mcpr_{number}",
                "server_label": "shop",
                "name": "buy",
                "arguments": f'{{"number": {number}}}',
            }
            approved.append(ApprovedCall(item, ToolCall("buy", {"number": number}), tool))
        return approved

    async def borrow(self, label: str) -> BorrowedServer:
        self.borrowed += 1

        def give_back() -> None:
            self.borrowed -= 1

        return BorrowedServer(ListedServer(label), give_back)

    async def carry_out(
        self,
        calls: ExecutedCalls,
        approved: Sequence[ApprovedCall],
        owner: str = "ann",
        seconds: float = 10,
    ) -> list[Json]:
        return await calls.carry_out(approved, owner, seconds=seconds, borrow=self.borrow)


def test_who_asks_again_waits_for_the_call_that_is_under_way() -> None:
    async def check() -> None:
        shop, calls = Shop(), ExecutedCalls(10, 10_000)
        first = asyncio.create_task(shop.carry_out(calls, shop.approve(1)))
        while not shop.begun:
            await asyncio.sleep(0)
        first.cancel()  # the client has disconnected
        with pytest.raises(asyncio.CancelledError):
            await first
        assert shop.borrowed == 1  # its server is not closed meanwhile
        again = asyncio.create_task(shop.carry_out(calls, shop.approve(1)))
        await asyncio.sleep(0)
        shop.open.set()
        (item,) = await again
        assert (item["output"], item["approval_request_id"]) == ("bought 1", "mcpr_1")
        assert await shop.carry_out(calls, shop.approve(1)) == [item]
        assert (shop.begun, shop.borrowed) == ([1], 0)
        await shop.carry_out(calls, shop.approve(1), owner="bob")
        assert shop.begun == [1, 1]

    asyncio.run(check())


def test_the_time_of_calls_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        shop, calls = Shop(), ExecutedCalls(100, 100_000)
        many = shop.approve(*range(MAX_CONCURRENT_CALLS + 1))
        loop = asyncio.get_running_loop()
        asked = asyncio.create_task(shop.carry_out(calls, many, seconds=100))
        while len(shop.begun) < MAX_CONCURRENT_CALLS:
            await asyncio.sleep(0.001)
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + 100)
        items = await asked
        assert {item["status"] for item in items} == {"failed"}
        assert shop.begun == list(range(MAX_CONCURRENT_CALLS))
        texts = [item["error"]["content"][0]["text"] for item in items]
        assert "the outcome is not known" in texts[0]
        assert "not executed" in texts[-1]
        # What was not carried out can be, the others are what they are.
        shop.open.set()
        again = await shop.carry_out(calls, many)
        assert again[:-1] == items[:-1]
        assert again[-1]["output"] == f"bought {MAX_CONCURRENT_CALLS}"

    asyncio.run(check())


@pytest.mark.parametrize(("most", "max_bytes"), [(2, 1_000_000), (10, 1_500)])
def test_the_oldest_are_forgotten(most: int, max_bytes: int) -> None:
    async def check() -> None:
        shop, calls = Shop(), ExecutedCalls(most, max_bytes)
        shop.open.set()
        for number in (1, 2, 3, 3, 2):
            await shop.carry_out(calls, shop.approve(number))
        assert shop.begun == [1, 2, 3]
        await shop.carry_out(calls, shop.approve(1))
        assert shop.begun == [1, 2, 3, 1]

    asyncio.run(check())


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_call_whose_server_is_not_connected_in_time_can_be_made_later(
    tmp_path: Path, is_shared: bool
) -> None:
    async def connect(label: str) -> BorrowedServer:
        await asyncio.sleep(3600)
        raise AssertionError

    async def check() -> None:
        shop = Shop()
        shop.open.set()
        store = SqliteStore(tmp_path / "shared.db")
        calls = ExecutedCalls(10, 10_000, SharedWork(store, CALLS) if is_shared else None)
        (item,) = await calls.carry_out(shop.approve(1), "ann", seconds=0.2, borrow=connect)
        assert item["status"] == "failed"
        assert "not executed: its server was not connected" in str(item["error"])
        (item,) = await shop.carry_out(calls, shop.approve(1))
        assert (item["output"], shop.begun) == ("bought 1", [1])

    asyncio.run(check())


def test_servers_with_a_store_in_common_carry_a_call_out_once(tmp_path: Path) -> None:
    def open_calls() -> ExecutedCalls:
        shared = SharedWork(SqliteStore(tmp_path / "shared.db"), CALLS)
        return ExecutedCalls(10, 10_000, shared)

    async def check() -> None:
        shop = Shop()
        shop.open.set()
        asked = (shop.carry_out(open_calls(), shop.approve(1)) for _ in range(3))
        first, *others = await asyncio.gather(*asked)
        assert (first[0]["output"], others) == ("bought 1", [first, first])
        assert await shop.carry_out(open_calls(), shop.approve(1)) == first
        await shop.carry_out(open_calls(), shop.approve(1), owner="bob")
        assert shop.begun == [1, 1]

    asyncio.run(check())


FULL = "the context is full"
NOTES: list[tuple[int, Error, str]] = [
    (0, ContextError(FULL), FULL),
    (
        1,
        ContextError(FULL),
        f"{FULL}. 1 approved call was executed; it is not executed again if the same approval is "
        "sent again",
    ),
    (
        2,
        TokenLimitError("max_tokens is 1", hint="Raise it"),
        "max_tokens is 1. Raise it. 2 approved calls were executed; they are not executed again if "
        "the same approvals are sent again",
    ),
    (2, RequestError("no tools"), "no tools"),
]


@pytest.mark.parametrize(("count", "error", "text"), NOTES)
def test_an_error_that_hides_calls_names_them(count: int, error: Error, text: str) -> None:
    with pytest.raises(Error) as raised, noting_executed(count):
        raise error
    assert str(raised.value) == text
