"""Functions that run in processes of their own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from constrained.agent.actions import execute_call
from constrained.agent.run import run
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.limits.isolated_call import (
    IsolatedError,
    IsolatedImportError,
    Isolation,
)
from constrained.prompt.tools.execution import Outcome, acall_function, call_function
from constrained.prompt.tools.functions import FunctionTool
from grammars.limits.byte_cache import MIB
from grammars.turn import ToolCall
from tests.constrained.limits.isolated_functions import act, act_later, count, wait
from tests.scripted_model import scripted
from tests.templates import hermes_call

GREEDY = Sampling(temperature=0)
BOUNDS = Isolation(seconds=20, memory=128 * MIB)


def isolate(function: Any, **bounds: Any) -> FunctionTool:
    """The function as an isolated tool."""
    isolation = replace(BOUNDS, **bounds)
    return FunctionTool.from_function(function, isolate=isolation)


MODULE = """
from constrained.limits.isolated_call import refuse_at_import

def start():
    refuse_at_import()

def act():
    return 1

start()
"""
UNGUARDED = """
from constrained.limits.isolated_call import IsolatedCall, IsolatedImportError, Isolation
from module import act, start

if True:
    start()
    try:
        print(IsolatedCall(act, Isolation()).result())
    except IsolatedImportError as e:
        print(e)
"""
GUARDED = UNGUARDED.replace("if True", "if __name__ == '__main__'")


@pytest.mark.parametrize(
    ("program", "printed", "reported"),
    [
        (UNGUARDED, "ended with code 1 before the function began", "Put what the program does"),
        (GUARDED, "1\n", ""),
    ],
)
def test_a_program_without_a_guard_is_not_run_again(
    tmp_path: Path, program: str, printed: str, reported: str
) -> None:
    """The modules that it imports work in the other process, too."""
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, tmp_path / "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed in done.stdout
    assert reported in done.stderr


def test_a_program_that_cannot_be_imported_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no error that the model could mend."""
    module = ModuleType("only_here")
    exec("def ping(): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(IsolatedImportError, match="could not import this program") as caught:
        execute_call(ToolCall("ping", {}), [isolate(module.ping)])
    assert "__main__" in (caught.value.hint or "")


def test_it_is_another_process() -> None:
    acting = isolate(act)
    assert call_function(ToolCall("act", {"how": "pid"}), [acting]) != os.getpid()
    assert call_function(ToolCall("act_later", {"how": "é"}), [isolate(act_later)]) == "é"
    assert call_function(ToolCall("count", {"how": "ab"}), [isolate(count)]) == ["a", "b"]
    assert asyncio.run(acall_function(ToolCall("act", {"how": "object"}), [acting])) == {"x": 1}


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "ValueError: wrong"),
        ("memory", "MemoryError: it needs more than 128 MiB"),
        ("crash", f"RuntimeError: the process of the tool was ended by {signal.SIGSEGV.name}"),
        ("exit", "RuntimeError: the process of the tool ended with code 3"),
    ],
)
def test_what_goes_wrong_there_is_told(how: str, told: str) -> None:
    with pytest.raises(IsolatedError) as error:
        call_function(ToolCall("act", {"how": how}), [isolate(act)])
    assert str(error.value) == told


def is_alive(pid: int) -> bool:
    """Zombies are dead; who was killed takes a moment to die on a busy machine."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return False
        except (FileNotFoundError, ProcessLookupError):
            return False
        time.sleep(0.01)
    return True


def test_what_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    begun = time.monotonic()
    script = hermes_call("wait", json.dumps({"path": str(noted)}))
    ran = run(scripted(script, "Sorry."), "Go.", [isolate(wait, seconds=1.5)], sampling=GREEDY)
    assert time.monotonic() - begun < 30
    (made,) = ran.calls
    assert made.outcome is Outcome.FAILED
    assert json.loads(made.content) == {"error": "TimeoutError: it was stopped after 1.5 seconds"}
    assert ran.content == "Sorry."
    if noted.exists():  # on a busy machine, its time may be over before
        assert not is_alive(int(noted.read_text()))


def test_a_run_isolates_all_tools() -> None:
    script = hermes_call("act", '{"how": "pid"}')
    ran = run(scripted(script, "ok"), "Go.", [act], sampling=GREEDY, isolate=True)
    (made,) = ran.calls
    assert made.outcome is Outcome.DONE
    assert made.result != os.getpid()


def test_a_task_that_is_cancelled_kills_it(tmp_path: Path) -> None:
    noted = tmp_path / "pid"

    async def go() -> None:
        patient = isolate(wait, seconds=50)
        call = ToolCall("wait", {"path": str(noted)})
        task = asyncio.create_task(acall_function(call, [patient]))
        while not noted.exists() or not noted.read_text():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begun = time.monotonic()
    asyncio.run(go())
    assert time.monotonic() - begun < 40
    assert not is_alive(int(noted.read_text()))


def test_what_cannot_be_isolated() -> None:
    def local(how: str) -> str:
        return how

    with pytest.raises(RequestError, match="the tool 'local' cannot run in a process") as error:
        run(scripted("x"), "Go.", [local], isolate=True)
    assert error.value.where == "/isolate"
    for bounds in ({"seconds": 0}, {"seconds": float("inf")}, {"memory": 0}):
        with pytest.raises(RequestError):
            Isolation(**bounds)  # type: ignore[arg-type]
