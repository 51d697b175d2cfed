"""Files and Batches over HTTP, as `openai`'s own client asks for them."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from server.settings import Settings
from tests.scripted_model import scripted
from tests.server.dialects.chat.chat_client import CHAT, HELLO
from tests.server.hosting.batches.batch_client import (
    HeldModel,
    begin,
    connect,
    finish,
    make_bodies,
    read_results,
    upload,
    write_lines,
)
from tests.server.running_server import Json, running, wait_until
from tests.templates import PING, hermes_call


@pytest.fixture(scope="module")
def server() -> Iterator[httpx.Client]:
    with running(scripted("Hello there, friend.")) as client:
        yield client


@pytest.fixture
def api(server: httpx.Client) -> Iterator[openai.OpenAI]:
    with connect(server) as connected:
        yield connected


def test_files(api: openai.OpenAI) -> None:
    content = write_lines({"messages": HELLO})
    file = upload(api, content)
    assert (file.bytes, file.filename, file.purpose) == (len(content), "in.jsonl", "batch")
    assert api.files.retrieve(file.id) == file
    assert api.files.content(file.id).content == content
    assert api.files.list(purpose="batch", limit=1).data == [file]
    assert api.files.delete(file.id).deleted
    for act in (api.files.retrieve, api.files.content, api.files.delete):
        with pytest.raises(openai.NotFoundError):
            act(file.id)


def test_pages_of_files(api: openai.OpenAI) -> None:
    made = [upload(api, b"%d" % number).id for number in range(3)]
    listed = [file.id for file in api.files.list(limit=2)]  # the client turns the pages
    assert listed[:3] == made[::-1]
    assert [file.id for file in api.files.list(order="asc", after=made[0])] == made[1:]
    with pytest.raises(openai.BadRequestError, match="continue after"):
        api.files.list(after="none")


@pytest.mark.parametrize("metadata", [{"a": "\ud83d"}, {"\ud83d": "a"}])
def test_metadata_that_is_not_text_is_refused(
    server: httpx.Client, api: openai.OpenAI, metadata: dict[str, str]
) -> None:
    """It would break the reply that lists all batches of the key."""
    asked = {"input_file_id": upload(api, write_lines({"messages": HELLO})).id, "endpoint": CHAT}
    body = json.dumps({**asked, "completion_window": "24h", "metadata": metadata})
    reply = server.post("/v1/batches", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == "/metadata"
    assert server.get("/v1/batches").status_code == 200


def test_ids_of_lines_that_are_not_text_do_not_break_a_batch(
    server: httpx.Client, api: openai.OpenAI
) -> None:
    line = {"method": "POST", "url": CHAT, "body": {"messages": HELLO}}
    for ids in (["\ud83d"], ["\ud83d", "\ud83d"]):
        lines = [json.dumps({"custom_id": id, **line}) for id in ids]
        finish(api, begin(api, "\n".join(lines).encode()))
        assert server.get("/v1/batches").status_code == 200


def test_a_batch(api: openai.OpenAI) -> None:
    batch = begin(api, write_lines({"messages": HELLO}, {"messages": HELLO}), metadata={"a": "b"})
    assert batch.status == "validating"
    done = finish(api, batch)
    assert done.status == "completed"
    assert done.metadata == {"a": "b"}
    assert done.request_counts is not None
    assert vars(done.request_counts) == {"total": 2, "completed": 2, "failed": 0}
    assert done.completed_at is not None
    assert done.expires_at == done.created_at + 24 * 3600
    assert done.error_file_id is None
    results = read_results(api, done.output_file_id)
    assert sorted(results) == ["r0", "r1"]
    reply = results["r0"]["response"]
    assert reply["status_code"] == 200
    assert reply["body"]["choices"][0]["message"]["content"] == "Hello there, friend."
    assert results["r0"]["error"] is None
    assert batch.id in [other.id for other in api.batches.list()]


ENDPOINTS = [
    ("/v1/responses", {"input": "Hello"}, "Hello there, friend."),
    ("/v1/messages", {"messages": HELLO, "max_tokens": 50}, "Hello there, friend."),
]


@pytest.mark.parametrize(("endpoint", "body", "said"), ENDPOINTS)
def test_all_endpoints(api: openai.OpenAI, endpoint: str, body: Json, said: str) -> None:
    done = finish(api, begin(api, write_lines({**body, "model": "demo"}, url=endpoint), endpoint))
    reply = read_results(api, done.output_file_id)["r0"]["response"]["body"]
    assert said in json.dumps(reply)


def test_lines_that_are_refused_are_in_the_error_file(api: openai.OpenAI) -> None:
    bodies: list[Json] = [
        {"messages": HELLO},
        {"messages": []},
        {"messages": HELLO, "stream": True},
        {"messages": HELLO, "tools": [{"type": "function", "function": {"name": 7}}]},
    ]
    done = finish(api, begin(api, write_lines(*bodies)))
    assert done.status == "completed"
    assert done.request_counts is not None
    assert vars(done.request_counts) == {"total": 4, "completed": 1, "failed": 3}
    assert list(read_results(api, done.output_file_id)) == ["r0"]
    errors = read_results(api, done.error_file_id)
    assert {name: line["response"]["status_code"] for name, line in errors.items()} == {
        "r1": 400,
        "r2": 400,
        "r3": 400,
    }
    assert errors["r2"]["response"]["body"]["error"]["param"] == "/stream"


def test_errors_of_messages_have_their_own_form(api: openai.OpenAI) -> None:
    done = finish(api, begin(api, write_lines({}, url="/v1/messages"), "/v1/messages"))
    assert read_results(api, done.error_file_id)["r0"]["response"]["body"]["type"] == "error"


def test_bad_lines_fail_the_batch_before_it_begins(api: openai.OpenAI) -> None:
    content = write_lines({"messages": HELLO}) + b"\nnonsense\n" + write_lines({"messages": HELLO})
    done = finish(api, begin(api, content))
    assert done.status == "failed"
    assert done.errors is not None
    assert done.errors.data is not None
    found = [(error.code, error.line) for error in done.errors.data]
    assert found == [("invalid_json_line", 2), ("duplicate_custom_id", 3)]
    assert done.output_file_id is None


def test_calls_are_enforced_as_in_live_requests() -> None:
    model = scripted(hermes_call("ping", '{"host": "a", "count": 3}'))
    with running(model) as client, connect(client) as api:
        body = {"messages": HELLO, "tools": [PING], "tool_choice": "required"}
        done = finish(api, begin(api, write_lines(body)))
        reply = read_results(api, done.output_file_id)["r0"]["response"]["body"]
        assert reply["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"endpoint": "/v1/images/generations"}, "endpoint is"),
        ({"completion_window": "1 day"}, "write hours"),
        ({"input_file_id": "file-none"}, "there is no file"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 0}}, "seconds"),
    ],
)
def test_batches_that_are_refused(api: openai.OpenAI, change: Json, message: str) -> None:
    arguments: Json = {"endpoint": CHAT, "completion_window": "24h", "input_file_id": ""} | change
    if not arguments["input_file_id"]:
        arguments["input_file_id"] = upload(api, b"x").id
    with pytest.raises(openai.APIStatusError, match=message):
        api.batches.create(**arguments)


def test_forms_that_are_refused(server: httpx.Client) -> None:
    file = ("in.jsonl", b"{}")
    answers = [
        server.post("/v1/files", files={"file": file}, data={"purpose": "vision"}),
        server.post("/v1/files", files={"other": file}, data={"purpose": "batch"}),
        server.post("/v1/files", files={"a": ("", b"")}, data={"purpose": "batch", "file": "x"}),
        server.post("/v1/files", files=[("file", file), ("file", file)]),
        server.post("/v1/files", json={"purpose": "batch"}),
        # Codecs of Python that fail, or decode to what no reply can have.
        server.post("/v1/files", content=b"", headers=_name_charset("idna")),
        server.post("/v1/files", content=b"", headers=_name_charset("unicode_escape")),
        server.post("/v1/files", content=b"x", headers={"content-type": "multipart/form-data"}),
        server.post(
            "/v1/files",
            files={"file": file},
            data={"purpose": "batch", "expires_after[seconds]": "-1"},
        ),
    ]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [
        (400, "invalid_value"),
        (400, "missing_file"),
        (400, "missing_file"),
        (400, "invalid_value"),
        (400, "invalid_value"),
        (415, "unsupported_encoding"),
        (415, "unsupported_encoding"),
        (400, "invalid_value"),
        (400, "invalid_value"),
    ]


def _name_charset(charset: str) -> Json:
    return {"content-type": f"multipart/form-data; boundary=a; charset={charset}"}


def test_files_that_expire(api: openai.OpenAI) -> None:
    expiry: Any = {"anchor": "created_at", "seconds": 3600}
    file = api.files.create(file=b"{}", purpose="batch", expires_after=expiry)
    assert file.expires_at == file.created_at + 3600
    content = write_lines({"messages": HELLO})
    done = finish(api, begin(api, content, output_expires_after=expiry))
    assert done.output_file_id is not None
    output = api.files.retrieve(done.output_file_id)
    assert output.expires_at == output.created_at + 3600


def test_files_have_a_limit_of_their_own() -> None:
    settings = Settings(max_body=2_000, max_file=200_000, max_files_bytes=250_000)
    with running(scripted("Hi"), settings) as client, connect(client) as api:
        with pytest.raises(openai.APIStatusError) as raised:
            upload(api, b" " * 200_001)
        assert raised.value.status_code == 413
        with pytest.raises(openai.APIStatusError) as raised:
            upload(api, b" " * 400_000)  # said before it is read
        assert raised.value.status_code == 413
        upload(api, b" " * 200_000)
        with pytest.raises(openai.BadRequestError, match="200,000 are used"):
            upload(api, b" " * 60_000)


def test_results_that_find_no_room() -> None:
    content = write_lines({"messages": HELLO}, {"messages": HELLO})
    settings = Settings(max_files_bytes=len(content) + 1_000)
    with running(scripted("Hello", turn=TURN), settings) as client, connect(client) as api:
        done = finish(api, begin(api, content))
        assert done.status == "failed"
        assert done.errors is not None
        assert done.errors.data is not None
        assert [error.code for error in done.errors.data] == ["storage_full"]
        assert len(read_results(api, done.output_file_id)) == 1


def test_files_and_batches_belong_to_a_key() -> None:
    settings = Settings(api_keys=("one", "two"))
    with (
        running(scripted("Hello"), settings) as client,
        connect(client, "one") as one,
        connect(client, "two") as two,
    ):
        batch = begin(one, write_lines({"messages": HELLO}))
        done = finish(one, batch)
        assert done.output_file_id is not None
        assert two.files.list().data == []
        assert two.batches.list().data == []
        ways = [
            lambda: two.files.content(batch.input_file_id),
            lambda: two.files.content(done.output_file_id or ""),
            lambda: two.files.delete(batch.input_file_id),
            lambda: two.batches.retrieve(batch.id),
            lambda: two.batches.cancel(batch.id),
            lambda: two.batches.create(
                input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h"
            ),
        ]
        for way in ways:
            with pytest.raises(openai.NotFoundError):
                way()
        with connect(client, "three") as stranger, pytest.raises(openai.AuthenticationError):
            stranger.files.list()


def test_responses_of_a_batch_are_its_owners() -> None:
    settings = Settings(api_keys=("one", "two"))
    with (
        running(scripted("Hello"), settings) as client,
        connect(client, "one") as one,
        connect(client, "two") as two,
    ):
        content = write_lines({"input": "Hi", "store": True}, {"input": "Hi"}, url="/v1/responses")
        done = finish(one, begin(one, content, "/v1/responses"))
        results = read_results(one, done.output_file_id)
        kept, other = (results[name]["response"]["body"]["id"] for name in ("r0", "r1"))
        assert one.responses.retrieve(kept).id == kept
        for api, id in ((one, other), (two, kept)):
            with pytest.raises(openai.NotFoundError):
                api.responses.retrieve(id)


TURN = rb"<\|im_start\|>assistant\n"


def test_cancelling() -> None:
    held = HeldModel(4)
    with running(held.model) as client, connect(client) as api:
        batch = begin(api, write_lines(*make_bodies(5)))
        wait_until(lambda: held.model.metrics().running == 2)  # half of the sequences
        assert api.batches.retrieve(batch.id).status == "in_progress"
        assert api.batches.cancel(batch.id).status in ("cancelling", "cancelled")
        done = finish(api, batch)
        assert done.status == "cancelled"
        assert done.cancelled_at is not None
        errors = read_results(api, done.error_file_id)
        assert sorted(errors) == ["r0", "r1", "r2", "r3", "r4"]
        assert {line["error"]["code"] for line in errors.values()} == {"batch_cancelled"}
        wait_until(lambda: held.model.metrics().running == 0)
        with pytest.raises(openai.BadRequestError, match="cancelled already"):
            api.batches.cancel(batch.id)


def test_one_batch_of_a_key_at_a_time() -> None:
    held = HeldModel(4)
    settings = Settings(max_batches=2)
    with running(held.model, settings) as client, connect(client) as api:
        first = begin(api, write_lines(*make_bodies(2)))
        second = begin(api, write_lines(*make_bodies(1)))
        wait_until(lambda: api.batches.retrieve(first.id).status == "in_progress")
        assert api.batches.retrieve(second.id).status == "validating"
        with pytest.raises(openai.BadRequestError, match="not finished yet"):
            begin(api, write_lines(*make_bodies(1)))
        assert finish(api, api.batches.cancel(second.id)).status == "cancelled"
        third = begin(api, write_lines(*make_bodies(1)))  # in place of the one that has ended
        with pytest.raises(openai.NotFoundError):
            api.batches.retrieve(second.id)
        api.files.delete(third.input_file_id)
        held.may_end.set()
        assert finish(api, first).status == "completed"
        assert finish(api, third).status == "failed"  # its file is not there any more


def test_live_requests_go_first() -> None:
    """With one sequence: a live request waits for the line under way, and no other."""
    held = HeldModel(1)
    with running(held.model) as client, connect(client) as api:
        batch = begin(api, write_lines(*make_bodies(3)))
        wait_until(lambda: held.model.metrics().running == 1)
        live: list[Json] = []

        def ask() -> None:
            body = {"messages": [{"role": "user", "content": "urgent"}]}
            live.append(client.post(CHAT, json=body).json())

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: held.model.metrics().waiting == 1)
        held.may_end.set()
        thread.join()
        assert "choices" in live[0]
        assert finish(api, batch).status == "completed"
        place = next(i for i, text in enumerate(held.asked) if "urgent" in text)
        before = " ".join(held.asked[:place])
        assert "word0 " in before
        assert "word1 " not in before
