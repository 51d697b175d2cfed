"""Batches without HTTP in between."""

import asyncio
from typing import Any

from server.hosting.batches.batch import BatchRequest, RequestBatch
from server.hosting.batches.batch_runner import BatchRunner
from server.hosting.batches.file_store import StoredFile
from tests.server.dialects.chat.chat_client import CHAT

PATIENCE = 60  # seconds


def submit(runner: BatchRunner, content: bytes, owner: str = "") -> RequestBatch:
    file = StoredFile(owner, "in", "batch", content=bytearray(content))
    runner.files.add(file)
    request = BatchRequest(input_file_id=file.id, endpoint=CHAT, completion_window="1h")
    return runner.create(owner, b"", request)


async def wait_until(is_so: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.01)
