"""Files and batches that survive the server, in a folder of their own."""

import asyncio
import json
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from starlette.datastructures import State

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import RequestError
from constrained.prompt.template.chat_template import ChatTemplate
from server.app import make_routes
from server.dialects.common.serving import name_owner
from server.hosting.batches.batch import BatchRequest, BatchStatus, RequestBatch
from server.hosting.batches.batch_folder import BatchFolder
from server.hosting.batches.batch_runner import BatchRunner
from server.hosting.batches.file_store import StoredFile
from server.models.served_models import ServedModels
from server.settings import Settings
from server.turns.service import Service
from tests.scripted_model import BYTES, scripted
from tests.server.dialects.chat.chat_client import HELLO
from tests.server.hosting.batches.batch_client import (
    CHAT,
    HeldModel,
    begin,
    connect,
    finish,
    make_bodies,
    read_results,
    upload,
    write_lines,
)
from tests.server.hosting.batches.local_batches import submit, wait_until
from tests.server.running_server import running
from tests.templates import HERMES


@asynccontextmanager
async def served(model: Any, settings: Settings) -> AsyncIterator[BatchRunner]:
    """The batches of a server that has come back, until it stops."""
    service = Service(model, settings)
    state = State({"models": ServedModels.of(service), "settings": settings})
    runner = BatchRunner(make_routes(state), state.models, settings)
    try:
        await runner.resume()
        yield runner
    finally:
        await runner.stop()
        await asyncio.to_thread(model.close)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(batch_dir=tmp_path / "batches", drain_seconds=0.1)


def read_ids(file: StoredFile | None) -> list[str]:
    """The ids of the lines that have a result in a file, in order; the same one may come twice."""
    assert file is not None
    return [json.loads(line)["custom_id"] for line in file.content.splitlines()]


def answer_two_lines() -> Model:
    """A model that answers the first two of `make_bodies`, and comes to no end with the others."""
    write = scripted_logits(BYTES, "Hello" * 1000)
    end = scripted_logits(BYTES, "")

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = BYTES.text(tokens)
        if b"word0 " in text or b"word1 " in text:
            return end(sequence, tokens)
        time.sleep(0.002)
        return write(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=9_000, max_sequences=2)
    return Model(engine, ChatTemplate(HERMES))


async def leave_half_done(settings: Settings, lines: int = 6) -> str:
    """The id of a batch that a server has left with two lines answered."""
    model = answer_two_lines()
    async with served(model, settings) as runner:
        batch = submit(runner, write_lines(*make_bodies(lines)))
        await wait_until(lambda: batch.completed == 2 and model.metrics().running == 1)
    assert (batch.status, batch.completed) == (BatchStatus.IN_PROGRESS, 2)
    return batch.id


def test_a_batch_goes_on_and_answers_no_line_twice(settings: Settings) -> None:
    async def run() -> None:
        id = await leave_half_done(settings)
        model = scripted("Hello")
        async with served(model, settings) as runner:
            batch = runner.get("", id)
            await wait_until(lambda: batch.is_finished)
            assert model.metrics().running == 0
            assert (batch.status, batch.total, batch.completed, batch.failed) == (
                "completed",
                6,
                6,
                0,
            )
            ids = read_ids(batch.output)
            assert sorted(ids) == [f"r{number}" for number in range(6)]
        async with served(scripted("Hello"), settings) as runner:  # all of it is still there
            again = runner.get("", id)
            assert again.describe() == batch.describe()
            assert read_ids(again.output) == ids

    asyncio.run(run())


def test_a_line_that_was_half_written_is_carried_out_again(
    settings: Settings, tmp_path: Path
) -> None:
    async def run() -> None:
        id = await leave_half_done(settings)
        record = json.loads((tmp_path / "batches" / f"{id}.json").read_text())
        data = tmp_path / "batches" / f"{record['output']}.data"
        data.write_bytes(data.read_bytes()[:-9])  # the process was killed
        async with served(scripted("Hello"), settings) as runner:
            batch = runner.get("", id)
            await wait_until(lambda: batch.is_finished)
            assert sorted(read_ids(batch.output)) == [f"r{number}" for number in range(6)]

    asyncio.run(run())


def test_batches_that_wait_go_on_too(settings: Settings) -> None:
    async def run() -> None:
        held = HeldModel(2)
        async with served(held.model, settings) as runner:
            first = submit(runner, write_lines(*make_bodies(1)))
            second = submit(runner, write_lines(*make_bodies(2)))
            await wait_until(lambda: held.model.metrics().running == 1)
        assert (first.status, second.status) == ("in_progress", "validating")
        async with served(scripted("Hello"), settings) as runner:
            batches = runner.list_batches("")
            assert {batch.id for batch in batches} == {first.id, second.id}
            await wait_until(lambda: all(batch.is_finished for batch in batches))
            assert {batch.status for batch in batches} == {"completed"}

    asyncio.run(run())


def change_record(settings: Settings, id: str, **fields: Any) -> None:
    assert settings.batch_dir is not None
    path = settings.batch_dir / f"{id}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_a_batch_whose_window_is_over_meanwhile(settings: Settings) -> None:
    async def run() -> None:
        id = await leave_half_done(settings)
        change_record(settings, id, created_at=1_000)
        async with served(scripted("Hello"), settings) as runner:
            batch = runner.get("", id)
            await wait_until(lambda: batch.is_finished)
            assert (batch.status, batch.completed, batch.failed) == ("expired", 2, 4)
            answered = read_ids(batch.output) + read_ids(batch.errors)
            assert sorted(answered) == [f"r{number}" for number in range(6)]

    asyncio.run(run())


def test_a_batch_that_was_being_cancelled(settings: Settings) -> None:
    async def run() -> None:
        id = await leave_half_done(settings)
        change_record(settings, id, status="cancelling")
        async with served(scripted("Hello"), settings) as runner:
            batch = runner.get("", id)
            await wait_until(lambda: batch.is_finished)
            assert (batch.status, batch.completed, batch.failed) == ("cancelled", 2, 4)

    asyncio.run(run())


def test_keys_are_not_written_and_have_to_be_there_again(settings: Settings) -> None:
    keyed = replace(settings, api_keys=("secret-key", "other"))
    owner = name_owner(b"secret-key")

    async def run() -> None:
        held = HeldModel(2)
        async with served(held.model, keyed) as runner:
            file = StoredFile(owner, "in", "batch", content=bytearray(write_lines(*make_bodies(2))))
            runner.files.add(file)
            request = BatchRequest(input_file_id=file.id, endpoint=CHAT, completion_window="1h")
            id = runner.create(owner, b"secret-key", request).id
            await wait_until(lambda: held.model.metrics().running == 1)
        assert keyed.batch_dir is not None
        for path in keyed.batch_dir.iterdir():
            assert b"secret-key" not in path.read_bytes()
        gone = replace(settings, api_keys=("other",))
        async with served(scripted("Hello"), gone) as runner:
            assert runner.get(owner, id).status == "failed"
            assert [fault.code for fault in runner.get(owner, id).faults] == ["invalid_api_key"]
        change_record(settings, id, status="in_progress", faults=[])
        async with served(scripted("Hello"), keyed) as runner:
            batch: RequestBatch = runner.get(owner, id)
            await wait_until(lambda: batch.is_finished)
            assert (batch.status, batch.key) == ("completed", b"secret-key")

    asyncio.run(run())


DAMAGED = [
    ("file-000000000000000000000001.json", b"{"),
    ("file-000000000000000000000002.json", b"[]"),
    ("batch_000000000000000000000003.json", b'{"id": "batch_000000000000000000000003"}'),
    ("batch_000000000000000000000004.json", b"\xff"),
    ("file-000000000000000000000008.json", b"[" * 100_000),
    ("file-000000000000000000000009.json", b'{"created_at": 9e999}'),
]


def test_what_is_damaged_is_left_out_with_a_line_in_the_log(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        id = await leave_half_done(settings, lines=4)
        folder = settings.batch_dir
        assert folder is not None
        for name, data in DAMAGED:
            (folder / name).write_bytes(data)
        whole = next(folder.glob("file-*.data"))
        os.symlink("/etc/passwd", folder / "file-000000000000000000000005.json")
        os.mkfifo(folder / "batch_000000000000000000000006.json")
        record = json.loads(whole.with_suffix(".json").read_text())
        (folder / "file-000000000000000000000007.json").write_text(json.dumps(record))  # its id
        with caplog.at_level(logging.WARNING, "constrained.server"):
            async with served(scripted("Hello"), settings) as runner:
                batch = runner.get("", id)
                assert len(runner.list_batches("")) == 1
                await wait_until(lambda: batch.is_finished)
        assert caplog.text.count("(skipped)") == len(DAMAGED) + 3
        assert "root:" not in caplog.text

    asyncio.run(run())


def test_saved_texts_that_no_reply_can_contain_are_read_with_question_marks(
    settings: Settings,
) -> None:
    folder = settings.batch_dir
    assert folder is not None
    saved = BatchFolder(folder, 1000)
    file = StoredFile("", "a\ud800", "batch", content=bytearray(b"x"))
    request = BatchRequest(input_file_id=file.id, endpoint=CHAT, completion_window="1h")
    batch = RequestBatch("", b"", request, window=3600, status=BatchStatus.COMPLETED)
    saved.write_file(file)
    saved.write_batch(batch)
    saved.close()
    metadata = {"k\udfff": "\ud800\U0001f600"}
    change_record(settings, batch.id, request={**request.model_dump(), "metadata": metadata})
    again = BatchFolder(folder, 1000)
    content = again.read()
    again.close()
    assert [one.describe()["filename"] for one in content.files] == ["a?"]
    assert [one.describe()["metadata"] for one in content.batches] == [{"k?": "?\U0001f600"}]


def test_results_that_are_damaged_are_not_answered_again(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        id = await leave_half_done(settings)
        assert settings.batch_dir is not None
        record = json.loads((settings.batch_dir / f"{id}.json").read_text())
        data = settings.batch_dir / f"{record['output']}.data"
        data.write_bytes(b"x" + data.read_bytes())
        async with served(scripted("Hello"), settings) as runner:
            assert runner.list_batches("") == []
        assert f"its file {record['output']} is not there" in caplog.text

    asyncio.run(run())


def test_the_folder_is_private_and_one_servers(settings: Settings) -> None:
    async def run() -> None:
        async with served(scripted("Hello"), settings) as runner:
            runner.files.add(StoredFile("", "in", "batch", content=bytearray(b"x")))
            folder = settings.batch_dir
            assert folder is not None
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            for path in folder.iterdir():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with pytest.raises(RequestError, match="another server"):
                BatchFolder(folder, 1000)
        BatchFolder(folder, 1000).close()

    asyncio.run(run())


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match="cannot be used for batches"):
        BatchFolder(tmp_path / "file", 1000)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "mine.txt").write_text("x")
    with pytest.raises(RequestError, match="files that do not belong to batches"):
        BatchFolder(shared, 1000)


def test_over_http(settings: Settings) -> None:
    with running(scripted("Hello"), settings) as client, connect(client) as api:
        batch = begin(api, write_lines({"messages": HELLO}), metadata={"a": "b"})
        done = finish(api, batch)
        kept = upload(api, b"kept")
        gone = upload(api, b"gone")
        api.files.delete(gone.id)
    with running(scripted("Hello"), settings) as client, connect(client) as api:
        assert api.batches.retrieve(batch.id) == done
        assert list(read_results(api, done.output_file_id)) == ["r0"]
        assert api.files.content(kept.id).read() == b"kept"
        assert api.files.retrieve(kept.id).filename == "in.jsonl"
        with pytest.raises(openai.NotFoundError):
            api.files.retrieve(gone.id)
