import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.errors import AbandonedError
from constrained.limits import kept_process
from constrained.limits.kept_process import KeptProcesses, NoProcessError, ProcessLimitError
from grammars.limits.steps import stop_when

MODULE = "tests.constrained.limits.asked_module"
PROCESSES = KeptProcesses(MODULE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items),
)


@given(JSON)
def test_any_question_comes_back(value: object):
    assert PROCESSES.ask(value, 5) == value


def test_one_process_is_kept_and_is_another_one():
    first = PROCESSES.ask("print", 5)
    assert first == PROCESSES.ask("print", 5) != os.getpid()


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("memory", "more memory than it may"),
        ("time", "more than 0.2 seconds"),
        ("crash", "its process ended with SIGSEGV"),
        ("much", "more"),
    ],
)
def test_what_takes_too_much_ends_that_process_alone(question: str, reason: str):
    with pytest.raises(ProcessLimitError, match=reason):
        PROCESSES.ask(question, 0.2 if question == "time" else 5)
    assert PROCESSES.ask([question], 5) == [question]


def test_it_ends_in_time_where_the_system_sets_no_limits(monkeypatch: pytest.MonkeyPatch):
    """As on Windows: the process is killed."""
    monkeypatch.setattr(
        kept_process, "_START", "import sys; sys.modules['resource'] = None\n" + kept_process._START
    )  # pyright: ignore[reportPrivateUsage]
    processes = KeptProcesses(MODULE)
    begun = time.monotonic()
    with pytest.raises(ProcessLimitError, match=r"more than 0\.2 seconds"):
        processes.ask("time", 0.2)
    assert time.monotonic() - begun < 20
    processes.close()


def test_an_answer_that_nobody_waits_for_is_given_up():
    def leave() -> None:
        raise AbandonedError("nobody waits for it")

    with pytest.raises(AbandonedError), stop_when(leave):
        PROCESSES.ask("time", 60)
    assert PROCESSES.ask(1, 5) == 1


def test_a_slow_question_does_not_keep_others_waiting():
    processes = KeptProcesses(MODULE)
    refused = list[str]()

    def ask() -> None:
        try:
            processes.ask("time", 2)
        except ProcessLimitError as e:
            refused.append(str(e))

    slow = threading.Thread(target=ask)
    slow.start()
    for value in range(5):
        assert processes.ask(value, 5) == value
    assert not refused
    slow.join()
    assert refused
    processes.close()


def test_a_question_that_leaves_memory_in_use_takes_none_from_the_next_one():
    first = PROCESSES.ask("leave", 5)
    assert PROCESSES.ask("leave", 5) != first


def test_a_long_question_leaves_the_processors_to_others():
    process, niceness = PROCESSES.ask("niceness", 5)
    assert niceness == os.nice(0) + kept_process.YIELDING
    assert PROCESSES.ask("print", 5) != process


def test_processes_that_have_nothing_to_do_end_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_process, "KEPT_SECONDS", 0.5)
    processes = KeptProcesses(MODULE)
    found = set[int]()
    for _ in range(2):  # the second time, both are still there
        with ThreadPoolExecutor(2) as pool:
            found = {*pool.map(lambda _: processes.ask("wait", 5), range(2))}
    assert len(found) == 2
    deadline = time.monotonic() + 30
    while len(list_running(found)) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert processes.ask("print", 5) in found
    processes.close()


def list_running(processes: set[int]) -> list[int]:
    running: list[int] = []
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, 0)
            running.append(process)
    return running


def test_a_process_that_somebody_has_ended_is_replaced():
    ended = PROCESSES.ask("print", 5)
    os.kill(ended, 9)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    assert PROCESSES.ask("again", 5) == "again"


FORK = f"""
import os
from constrained.limits.kept_process import KeptProcesses
processes = KeptProcesses("{MODULE}")
mine = processes.ask("print", 5)
if os.fork() == 0:
    assert processes.ask("print", 5) != mine
    os._exit(0)
assert os.wait()[1] == 0
assert processes.ask("print", 5) == mine
"""


def test_a_fork_has_processes_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("executable", ["", "/bin/echo"])
def test_a_program_without_a_python_of_its_own(executable: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.executable", executable)
    with pytest.raises(NoProcessError):
        KeptProcesses(MODULE).ask(1, 5)


def test_a_question_that_is_broken_off_leaves_no_answer_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
):
    def stop(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kept_process, "read_message", stop)
        with pytest.raises(KeyboardInterrupt):
            PROCESSES.ask("first", 5)
    assert PROCESSES.ask("second", 5) == "second"
