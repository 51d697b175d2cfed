"""Responses over HTTP that are kept: shown, listed, deleted, forgotten."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from constrained.errors import RequestError
from server.dialects.responses import request, routes, store
from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.responses.response_client import RESPONSES, ask, refuse
from tests.server.running_server import running


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    with running(scripted("Hello there, friend.")) as client:
        yield client


def test_responses_are_kept_shown_and_deleted(plain: httpx.Client) -> None:
    body = ask(plain)
    path = f"{RESPONSES}/{body['id']}"
    assert plain.get(path).json() == body
    assert plain.get(path.removeprefix("/v1")).json() == body
    response = plain.post(f"{path}/cancel")
    assert response.status_code == 400
    assert "completed" in response.json()["error"]["message"]
    assert plain.get(f"{path}?stream=true").status_code == 400
    assert plain.delete(path).json() == {"id": body["id"], "object": "response", "deleted": True}
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        response = plain.request(method, path + end)
        assert response.status_code == 404, (method, end)
        assert response.json()["error"]["type"] == "not_found_error"


def test_input_items_come_in_pages(plain: httpx.Client) -> None:
    given = [{"role": "user", "content": str(number)} for number in range(5)]
    path = f"{RESPONSES}/{ask(plain, given)['id']}/input_items"
    page = plain.get(path, params={"limit": 2, "order": "asc"}).json()
    assert [item["content"][0]["text"] for item in page["data"]] == ["0", "1"]
    assert page["has_more"] is True
    assert page["last_id"] == page["data"][-1]["id"]
    rest = plain.get(path, params={"order": "asc", "after": page["last_id"]}).json()
    assert [item["content"][0]["text"] for item in rest["data"]] == ["2", "3", "4"]
    assert rest["has_more"] is False
    newest = plain.get(path).json()["data"][0]
    assert newest["content"] == [{"type": "input_text", "text": "4"}]
    end = plain.get(path, params={"after": rest["last_id"], "order": "asc"}).json()
    assert end["data"] == []
    assert plain.get(path, params={"after": "msg_x"}).status_code == 400
    assert plain.get(path, params={"limit": 0}).status_code == 400


def test_items_are_named_by_their_ids(plain: httpx.Client) -> None:
    first = ask(plain)
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    asked = [{"role": "user", "content": "Hello"}, reference, {"role": "user", "content": "And?"}]
    named = ask(plain, asked)
    chained = ask(plain, "And?", previous_response_id=first["id"])
    assert named["usage"]["input_tokens"] == chained["usage"]["input_tokens"]
    error = refuse(plain, [{"type": "item_reference", "id": "msg_x"}], 404)
    assert error["param"] == "/input/0/id"
    error = refuse(plain, [reference, {"role": "user", "content": "And?"}, reference])
    assert error["param"] == "/input/2/id"


def test_conversations_are_read_beside_the_event_loop(
    plain: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str]()

    def watch(module: Any, name: str) -> None:
        work = getattr(module, name)

        def note(*given: Any) -> Any:
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            seen.append(name)
            return work(*given)

        monkeypatch.setattr(module, name, note)

    places = {
        "_find_earlier": routes,
        "read_input": routes,
        "write_messages": request,
        "pack_checked": routes,
    }
    for name, module in places.items():
        watch(module, name)
    id = ask(plain)["id"]
    assert seen == list(places)
    watch(store._PackedResponse, "unpack")
    for method, end in (("GET", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        seen.clear()
        response = plain.request(method, f"{RESPONSES}/{id}{end}")
        assert response.status_code == (400 if end == "/cancel" else 200)
        assert seen == ["unpack"], end


def test_only_so_many_responses_are_kept() -> None:
    with running(scripted("Hi"), Settings(max_stored=2)) as client:
        first, second = ask(client)["id"], ask(client)["id"]
        assert client.get(f"{RESPONSES}/{first}").status_code == 200  # the second is older now
        ask(client)
        assert client.get(f"{RESPONSES}/{first}").status_code == 200
        assert client.get(f"{RESPONSES}/{second}").status_code == 404


def test_who_has_another_key_finds_nothing() -> None:
    settings = Settings(api_keys=("one", "two"))
    with running(scripted("Hi"), settings) as client:
        client.headers["Authorization"] = "Bearer one"
        mine = ask(client, [{"role": "user", "content": "Hello", "id": "msg_mine"}])
        path, item = f"{RESPONSES}/{mine['id']}", mine["output"][0]["id"]
        client.headers["Authorization"] = "Bearer two"
        for method, end in (
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/input_items"),
            ("POST", "/cancel"),
        ):
            assert client.request(method, path + end).status_code == 404, (method, end)
        error = refuse(client, previous_response_id=mine["id"])
        assert error["code"] == "previous_response_not_found"
        for id in ("msg_mine", item):
            refuse(client, [{"type": "item_reference", "id": id}], 404)
        client.headers = httpx.Headers({"x-api-key": "one"})  # the same key in another header
        assert client.get(path).json() == mine
        ask(client, [{"id": "msg_mine"}], previous_response_id=mine["id"])


def test_where_no_key_is_needed_none_tells_clients_apart(plain: httpx.Client) -> None:
    path = f"{RESPONSES}/{ask(plain)['id']}"
    assert plain.get(path, headers={"Authorization": "Bearer any"}).status_code == 200


def test_what_is_too_large_is_not_kept() -> None:
    with running(scripted("Hi"), Settings(max_stored_bytes=10_000)) as client:
        small = ask(client)
        large = ask(client, "x " * 5000)
        assert large["status"] == "completed"
        assert client.get(f"{RESPONSES}/{large['id']}").status_code == 404
        assert client.get(f"{RESPONSES}/{small['id']}").status_code == 200
        ids = [ask(client)["id"] for _ in range(10)]
        found = [client.get(f"{RESPONSES}/{id}").status_code for id in ids]
        kept = found.count(200)
        assert 1 < kept < 10
        assert found == [404] * (10 - kept) + [200] * kept  # the newest


def test_limits_are_one_or_more() -> None:
    with pytest.raises(RequestError, match="max_stored_bytes is 0, must be 1 or more"):
        Settings(max_stored_bytes=0)
    assert Settings(max_stored_bytes=1).max_stored_bytes == 1
