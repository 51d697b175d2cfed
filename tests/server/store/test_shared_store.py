"""Stores: what one process writes, the others read; what is in them is bounded."""

import json
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.errors import RequestError
from server.dialects.responses.shared_responses import SharedResponses
from server.dialects.responses.store import StoredResponse, pack
from server.errors import HttpError, StoreError
from server.models.shared_store import BestEffortStore, SharedStore, StoreEntry
from server.models.shared_values import StoredDates, StoredIds
from server.store.sqlite_store import SqliteStore
from server.store.store_address import open_store
from tests.server.store.stores import open_two, run_redis

Pair = tuple[SharedStore, SharedStore]


@pytest.fixture(scope="module")
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    if request.param == "sqlite":
        yield f"sqlite:{folder / 'shared.db'}"
        return
    with run_redis(folder) as redis:
        yield redis


@pytest.fixture
def pair(address: str) -> Iterator[Pair]:
    stores = open_two(address)
    yield stores
    for store in stores:
        store.close()


each_store = pytest.mark.parametrize("address", ["sqlite", "redis"], indirect=True)


@each_store
def test_what_one_process_writes_another_one_reads(pair: Pair) -> None:
    one, other = pair
    one.write(StoreEntry("a", "key", b"1", field="x"), StoreEntry("a", "key", b"2", field="y"))
    other.write(StoreEntry("a", "key", b"\0\xff", field="x"))
    assert list(one.read("a", "key").items()) == [("y", b"2"), ("x", b"\0\xff")]
    assert one.read("b", "key") == {}
    assert (one.exists("a", "key"), one.exists("b", "key")) == (True, False)
    assert one.delete("a", "key")
    assert not other.delete("a", "key")
    assert other.read("a", "key") == {}


def make_response(id: str, owner: str, *, context: int = 1) -> StoredResponse:
    items = tuple({"id": f"item-{number}", "text": "é\ud800"} for number in range(context))
    response = {"id": id, "status": "completed", "output": [{"id": f"out-{id}", "text": id}]}
    return StoredResponse(response, items, owner, len(pack([response, items])))


@each_store
def test_any_front_goes_on_with_a_response(pair: Pair) -> None:
    one, other = (SharedResponses(store, max_bytes=10_000) for store in pair)
    stored = make_response("resp_1", "alice")
    one.put(stored)
    assert other.get("alice", "resp_1") == stored
    assert other.get("bob", "resp_1") is None
    assert other.find_items("alice", ["item-0", "out-resp_1", "none"]) == {
        "item-0": stored.context[0],
        "out-resp_1": stored.response["output"][0],
    }
    assert other.find_items("bob", ["item-0"]) == {}
    assert other.delete("alice", "resp_1")
    assert one.get("alice", "resp_1") is None
    assert one.find_items("alice", ["item-0"]) == {}


@each_store
def test_items_of_a_long_conversation_are_read_once(pair: Pair) -> None:
    """Not once for each response that they are in; and the newest copy counts, as in memory."""
    texts = "x" * 100
    context: list[dict[str, str]] = []
    responses = SharedResponses(pair[0], max_bytes=100_000)
    for number in range(8):
        context.append({"id": f"long-{number}", "text": texts})
        responses.put(StoredResponse({"id": f"r{number}", "output": []}, (*context,), "carol", 999))
    responses.put(make_changed("r-new", "carol", text="new"))
    responses.put(make_changed("r-gone", "carol", text="gone"))
    responses.delete("carol", "r-gone")
    ids = [item["id"] for item in context]
    assert responses.find_items("carol", ids)["long-0"]["text"] == "new"
    whole = sum(len(json.dumps(item)) for item in context)
    bounded = SharedResponses(pair[1], max_bytes=4 * whole)
    assert len(bounded.find_items("carol", [*ids, *ids])) == 8
    bounded = SharedResponses(pair[1], max_bytes=whole)
    with pytest.raises(HttpError, match="together, the limit is"):
        bounded.find_items("carol", ids)
    assert len(bounded.find_items("carol", ids[1:2])) == 1


def make_changed(id: str, owner: str, *, text: str) -> StoredResponse:
    return StoredResponse({"id": id, "output": []}, ({"id": "long-0", "text": text},), owner, 99)


@each_store
def test_a_response_that_is_too_large_is_not_kept(pair: Pair) -> None:
    responses = SharedResponses(pair[0], max_bytes=200)
    responses.put(make_response("resp_2", "alice", context=50))
    assert responses.get("alice", "resp_2") is None


@each_store
def test_ids_and_dates_are_known_to_all(pair: Pair) -> None:
    moment = datetime(2026, 11, 25, 3, 52)
    StoredIds(pair[0]).keep("abc", "call:7")
    StoredDates(pair[0]).keep(b"\1", moment)
    assert StoredIds(pair[1]).find("abc") == "call:7"
    assert StoredIds(pair[1]).find("abd") is None
    assert StoredDates(pair[1]).find(b"\1") == moment
    assert StoredDates(pair[1]).find(b"\2") is None


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(0, 3_000), max_size=30))
def test_a_file_is_bounded(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    path = tmp_path_factory.mktemp("bounded") / "store.db"
    store = SqliteStore(path, max_bytes=10_000, checked=1)
    for number, size in enumerate(sizes):
        store.write(StoreEntry("space", str(number), bytes(size)))
    kept = [number for number in range(len(sizes)) if store.read("space", str(number))]
    assert kept == list(range(len(sizes)))[len(sizes) - len(kept) :]  # the latest ones
    assert sum(sizes[number] for number in kept) <= 10_000
    assert not sizes or kept[-1:] == [len(sizes) - 1]
    store.close()


def test_a_file_is_its_users_own(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_store_that_cannot_be_had_is_an_error_that_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "store.db"
    with pytest.raises(StoreError, match="No such file or directory") as caught:
        open_store(f"sqlite:{missing}")
    assert str(missing) in caught.value.message
    other = tmp_path / "notes.txt"
    other.write_text("no database, " * 100)
    with pytest.raises(StoreError, match="not a database"):
        open_store(f"sqlite:{other}")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1") as caught:
        open_store("redis://:secret@127.0.0.1:1")
    assert "secret" not in str(caught.value)
    with pytest.raises(RequestError, match="not an address of a store"):
        open_store("mysql://localhost")


def test_what_is_wrong_with_a_store_is_logged_and_not_told_to_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.close()
    with pytest.raises(StoreError) as caught:
        store.read("space", "key")
    assert str(path) not in str(caught.value)
    assert str(path) in caplog.text


def test_a_cache_that_cannot_be_reached_is_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.close()
    best_effort = BestEffortStore(store)
    best_effort.write(StoreEntry("space", "key", b"1"))
    assert best_effort.read("space", "key") == {}
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
