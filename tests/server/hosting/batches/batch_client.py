"""Batches over HTTP, and a model whose turns end when they are let."""

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import openai
from openai.types import Batch, FileObject

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from tests.scripted_model import BYTES
from tests.server.dialects.chat.chat_client import CHAT
from tests.server.running_server import Json, wait_until
from tests.templates import HERMES


def connect(client: httpx.Client, key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{client.base_url}/v1", api_key=key, max_retries=0)


def write_lines(*bodies: Json, url: str = CHAT) -> bytes:
    lines: list[str] = []
    for number, body in enumerate(bodies):
        line = {"custom_id": f"r{number}", "method": "POST", "url": url, "body": body}
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def upload(api: openai.OpenAI, content: bytes) -> FileObject:
    return api.files.create(file=("in.jsonl", content), purpose="batch")


def begin(api: openai.OpenAI, content: bytes, endpoint: Any = CHAT, **more: Any) -> Batch:
    return api.batches.create(
        input_file_id=upload(api, content).id, endpoint=endpoint, completion_window="24h", **more
    )


def finish(api: openai.OpenAI, batch: Batch) -> Batch:
    """The batch when it has ended."""
    ended = ("completed", "failed", "expired", "cancelled")
    wait_until(lambda: api.batches.retrieve(batch.id).status in ended)
    return api.batches.retrieve(batch.id)


def read_results(api: openai.OpenAI, id: str | None) -> dict[str, Json]:
    """The lines of an output, by their custom ids."""
    assert id is not None
    lines = [json.loads(line) for line in api.files.content(id).text.splitlines()]
    results = {line["custom_id"]: line for line in lines}
    assert len(results) == len(lines)
    return results


class HeldModel:
    """A model whose turns do not end before they are let go."""

    def __init__(self, sequences: int):
        self.may_end = threading.Event()
        self.asked = list[str]()
        write = scripted_logits(BYTES, "Hello" * 1000)
        end = scripted_logits(BYTES, "")

        def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
            self.asked.append(BYTES.text(tokens).decode("utf-8", "replace"))
            if self.may_end.is_set():
                return end(sequence, tokens)
            time.sleep(0.002)
            return write(sequence, tokens)

        engine = ScriptedEngine(BYTES, logits, context_length=9_000, max_sequences=sequences)
        self.model = Model(engine, ChatTemplate(HERMES))


def make_bodies(count: int) -> list[Json]:
    return [
        {"messages": [{"role": "user", "content": f"word{number} "}]} for number in range(count)
    ]
