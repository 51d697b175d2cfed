"""Who reads what strangers send. Each target takes an input, and ends in a value or in an `Error`;
anything else is a finding."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from starlette.datastructures import State

from benchmarks.fuzzing import bases
from benchmarks.fuzzing.inputs import damaged_bytes, damaged_json, damaged_text
from constrained.agent.model import Model
from constrained.decode.kv.snapshot_files import MAGIC, PREFIX, SnapshotFiles
from constrained.decode.kv.snapshots import Outline, Snapshot
from constrained.engine.gguf.contents import read_sound_contents
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.prompt.answers import read_target
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import Error
from grammars.wire.format_text import dump_format, load_format
from grammars.wire.formats import FORMATS
from server.app import make_routes
from server.hosting.batches.batch_input import BatchLine, read_lines
from server.hosting.batches.line_runner import make_scope
from server.models.served_models import ServedModels
from server.settings import Settings
from server.turns.service import Service

CONTEXT = 3_000
TURN_TOKENS = 64
SEED = 1
MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
LIKED = b'"}], 0:{['
"""What the model likes to write, beside the end of its turn: so values are closed soon."""


@dataclass(frozen=True)
class FuzzTarget:
    """Who reads an input.

    Args:
        inputs: what it is given.
        read: reads one; raises `Error` where it is refused.
        bases: inputs before they are damaged, all of which are accepted.
    """

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    bases: Sequence[Any] = ()


class CrashError(AssertionError):
    """An input was neither read nor refused."""


@cache
def make_model() -> Model:
    """Returns a model over bytes that ends its turn as soon as it may."""
    vocabulary = byte_vocabulary(MARKERS)
    row = np.zeros(len(vocabulary.tokens), np.float32)
    for rank, byte in enumerate(LIKED):
        row[byte] = 9.0 - rank / 2
    row[vocabulary.end[0]] = 20.0

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        return row

    engine = ScriptedEngine(vocabulary, logits, context_length=CONTEXT)
    source = (bases.TEMPLATES / "hermes.jinja").read_text("utf-8")
    return Model(engine, ChatTemplate(source))


@cache
def _make_server() -> tuple[Any, asyncio.Runner]:
    settings = Settings(timeout=60)
    service = Service(make_model(), settings)
    state = State({"models": ServedModels.of(service), "settings": settings})
    return make_routes(state), asyncio.Runner()


def _ask(request: tuple[str, Any]) -> None:
    """Sends a request to the routes."""
    path, body = request
    routes, runner = _make_server()
    data = json.dumps(body).encode()
    answers: list[dict[str, Any]] = []
    is_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal is_sent
        if is_sent:
            await asyncio.Event().wait()
        is_sent = True
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        answers.append(message)

    runner.run(routes(make_scope(BatchLine(1, "", path, data), b""), receive, send))
    status = answers[0]["status"]
    said = b"".join(answer.get("body", b"") for answer in answers[1:])
    if status >= 500:
        raise CrashError(f"status {status}: {said[:500]!r}")
    if status >= 400:
        raise Error(f"status {status}: {said[:500]!r}")


def _read_gguf(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data)
        file.flush()
        read_sound_contents(Path(file.name))


def _write_snapshot() -> tuple[str, bytes]:
    """Returns the name and the content of a snapshot file."""
    outline = Outline([*range(40)], in_blocks=8, checkpoints=(16, 32), is_pinned=True)
    with tempfile.TemporaryDirectory() as folder:
        SnapshotFiles(Path(folder), "model", 1 << 20).write(
            Snapshot(outline, state=bytes(64), checkpoints=(b"1" * 8, b"2" * 8))
        )
        path = next(Path(folder).glob("*.snapshot"))
        return path.name, path.read_bytes()


SNAPSHOT_NAME, SNAPSHOT = _write_snapshot()


def _seal(data: bytes) -> bytes:
    """Returns the same content under a checksum that fits."""
    size = int.from_bytes(data[40:44], "little") if len(data) >= PREFIX.size else 0
    body = data[PREFIX.size :]
    return PREFIX.pack(MAGIC, hashlib.blake2b(body, digest_size=32).digest(), size) + body


def _read_snapshots(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / SNAPSHOT_NAME
        path.write_bytes(data)
        files = SnapshotFiles(Path(folder), "model", 1 << 20)
        for outline in files.outlines():
            with suppress(OSError, ValueError):  # as it is documented: the snapshot is a miss
                files.read(outline.key)


def _generate(text: str, **target: Any) -> None:
    """Compiles what an answer has to be, and generates one."""
    model = make_model()
    turn = model.compile_text(text, read_target(**target).answer)
    # A finding has to come again: the tokens are drawn by a fixed seed.
    model.complete([turn], max_tokens=TURN_TOKENS, sampling=Sampling(seed=SEED))


def _render(source: str) -> str:
    tools = [bases.TOOL]
    return ChatTemplate(source, bos_token="<s>").render(bases.MESSAGES, tools)


def _select_format(source: str) -> None:
    """Finds the wire format that a template teaches, as at the start of a model."""
    select_format(ChatTemplate(source), special_tokens=MARKERS)


def _damage_texts(
    good: Sequence[str], pieces: Sequence[str], read: Callable[[str], object]
) -> FuzzTarget:
    return FuzzTarget(damaged_text(good, pieces), read, good)


def _damage_values(good: Sequence[Any], read: Callable[[Any], object]) -> FuzzTarget:
    return FuzzTarget(damaged_json(good), read, good)


def _damage_requests() -> FuzzTarget:
    ways: list[st.SearchStrategy[tuple[str, Any]]] = []
    good: list[tuple[str, Any]] = []
    for path, bodies in bases.REQUESTS.items():
        ways.append(st.tuples(st.just(path), damaged_json(bodies)))
        good += [(path, body) for body in bodies]
    return FuzzTarget(st.one_of(ways), _ask, good)


def _damage_batches() -> FuzzTarget:
    lines: list[bytes] = []
    for number, (path, bodies) in enumerate(bases.REQUESTS.items()):
        line = {"custom_id": str(number), "method": "POST", "url": path, "body": bodies[0]}
        lines.append(json.dumps(line).encode())
    good = b"\n".join(lines)
    return FuzzTarget(damaged_bytes([good]), lambda data: read_lines(data.split(b"\n")), [good])


GGUF = bases.write_gguf()
TEMPLATES = bases.read_templates()
FORMAT_TEXTS = [json.loads(dump_format(format)) for format in FORMATS]
TARGETS = {
    "requests": _damage_requests(),
    "schemas": _damage_values(bases.SCHEMAS, lambda schema: _generate("x", schema=schema)),
    "lark": _damage_texts(
        bases.LARK, bases.GRAMMAR_PIECES, lambda text: _generate("x", grammar=text)
    ),
    "gbnf": _damage_texts(
        bases.GBNF, bases.GRAMMAR_PIECES, lambda text: _generate("x", grammar=text)
    ),
    "regex": _damage_texts(
        bases.REGEX, bases.GRAMMAR_PIECES, lambda text: _generate("x", regex=text)
    ),
    "templates": _damage_texts(TEMPLATES, bases.JINJA_PIECES, _render),
    "detection": _damage_texts(TEMPLATES, bases.JINJA_PIECES, _select_format),
    "gguf": FuzzTarget(damaged_bytes([GGUF]), _read_gguf, [GGUF]),
    "snapshots": FuzzTarget(
        damaged_bytes([SNAPSHOT]) | damaged_bytes([SNAPSHOT]).map(_seal), _read_snapshots
    ),
    "formats": _damage_values(FORMAT_TEXTS, lambda value: load_format(json.dumps(value))),
    "batches": _damage_batches(),
}
"""By their names."""


def try_input(target: FuzzTarget, value: Any) -> bool:
    """Reads an input; True if it was accepted, False if it was refused as it should be.

    Raises:
        BaseException: a finding.
    """
    try:
        target.read(value)
    except Error:
        return False
    return True
