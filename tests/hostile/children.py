"""A process that sends attacks to a model, each in a child of its own.

It reads the numbers of attacks, one a line, and answers each with a line of JSON. A child can be
killed, whatever it is busy with, and its memory is its own. To fork them from one process that has
imported everything takes a hundredth of the time of starting them anew.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass

from benchmarks.attacks.attack import Attack
from benchmarks.attacks.schemas import ATTACKS
from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from server.dialects.chat.request import ChatRequest
from server.errors import as_http_error
from server.settings import Settings
from server.turns.service import Service
from tests.scripted_model import BYTES
from tests.templates import HERMES

CONTEXT = 20_000  # tokens, each of a byte
ROOM = 3 << 30  # bytes of addresses beyond those at the start; stacks of threads are among them
SECONDS = 60  # a detector of hangs: all attacks together take less


@dataclass(frozen=True)
class Outcome:
    """What came of an attack.

    Args:
        status: of HTTP; 0: the child was killed or has died.
        message: of the error.
        seconds: how long it took.
        megabytes: how much memory it took, beyond that of the start.
    """

    status: int
    message: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0


def _attack(attack: Attack) -> Outcome:
    engine = ScriptedEngine(BYTES, scripted_logits(BYTES, "Hi."), context_length=CONTEXT)
    service = Service(Model(engine, ChatTemplate(HERMES)), Settings())
    _ = service.model.compiler.tokenizer
    body = json.dumps(attack.make())
    memory = _measure_memory()
    began = time.monotonic()
    status, message = _send(service, body)
    seconds = time.monotonic() - began
    return Outcome(status, message, seconds, _measure_memory() - memory)


def _send(service: Service, body: str) -> tuple[int, str]:
    try:
        request = ChatRequest.model_validate_json(body).read(service)
        turn = service.model.compile(request.job)
        service.model.complete([turn], max_tokens=request.generation.max_tokens or 64)
    except RecursionError:
        raise
    except ValueError as error:
        if type(error).__name__ == "ValidationError":  # pydantic's, which FastAPI makes a 400 of
            return 400, str(error)[:200]
        fault = as_http_error(error)
        return fault.status, fault.message[:300]
    return 200, ""


def _measure_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _run_child(attack: Attack, out: int) -> None:
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
    try:
        outcome = _attack(attack)
    except BaseException as error:
        outcome = Outcome(500, f"{type(error).__name__}: {str(error)[:200]}")
    os.write(out, json.dumps(asdict(outcome)).encode())
    os._exit(0)


def _watch_child(attack: Attack) -> Outcome:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_child(attack, writing)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], SECONDS)
    data = os.read(reading, 65_536) if ready else b""
    os.close(reading)
    if not data:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not data:
        return Outcome(0, f"hangs, or died: {status}")
    return Outcome(**json.loads(data))


def main() -> None:
    """Serves until the input ends."""
    for line in sys.stdin:
        print(json.dumps(asdict(_watch_child(ATTACKS[int(line)]))), flush=True)


if __name__ == "__main__":
    main()
