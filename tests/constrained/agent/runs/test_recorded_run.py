"""Runs with a record: gone on with, decided about, gone through once more, made tests of."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from constrained.agent.budget import Budget
from constrained.agent.finished_run import Reason
from constrained.agent.journal import LATER, Verdict
from constrained.agent.model import Model
from constrained.agent.runs.export import export_rows, export_test
from constrained.agent.runs.record_form import read_options, write_options
from constrained.agent.runs.recorded_run import decide, fork, list_waiting
from constrained.agent.runs.replay import Replayed, replay
from constrained.agent.runs.store import RecordedRun, RunStore
from constrained.engine.files.stored import DamagedError, limited_queries, reading
from constrained.engine.protocol import Sampling
from constrained.errors import RequestError
from constrained.inspect.replay.check import check_rows
from constrained.prompt.tools.call_result import Outcome
from constrained.prompt.tools.functions import FunctionTool
from grammars.turn import ToolCall
from tests.command_line import Run
from tests.scripted_model import scripted
from tests.templates import PING, QWEN3_CODER, hermes_call

ROOT = Path(__file__).parents[4]
GREEDY = Sampling(temperature=0)


def call(name: str, value: int) -> str:
    return hermes_call(name, json.dumps({"value": value}))


class Ledger:
    """Tools that note their calls; one of them may stop the program."""

    def __init__(self, crash: int | None = None):
        self.made: list[str] = []
        self._crash = crash

    def look(self, value: int) -> int:
        self.made.append(f"look {value}")
        return value

    def write(self, value: int) -> str:
        if value == self._crash:
            raise KeyboardInterrupt
        self.made.append(f"write {value}")
        return f"wrote {value}"

    @property
    def tools(self) -> list[FunctionTool]:
        return [
            FunctionTool.from_function(self.look, read_only=True),
            FunctionTool.from_function(self.write),
        ]


CALL_FIELDS = ("name", "arguments", "valid")
SCRIPTS = (call("look", 1) + "\n" + call("write", 1), call("write", 2), "Done.")


def find(record: Path, id: str = "") -> RecordedRun:
    with RunStore(record) as store:
        return store.find(id)


def replay_file(record: Path, id: str = "", tools: Any = None) -> Replayed:
    with RunStore(record) as store:
        run = store.find(id)
        return replay(run, store.read_events(run.id), tools)


def interrupt(record: Path, crash: int) -> Ledger:
    """A run whose program ends inside a call."""
    ledger = Ledger(crash)
    with pytest.raises(KeyboardInterrupt):
        scripted(*SCRIPTS).run("Go.", ledger.tools, record=record, sampling=GREEDY)
    return ledger


def test_a_record_changes_nothing(tmp_path: Path) -> None:
    plain = scripted(*SCRIPTS).run("Go.", Ledger().tools, sampling=GREEDY)
    record = tmp_path / "runs.db"
    ran = scripted(*SCRIPTS).run("Go.", Ledger().tools, record=record, sampling=GREEDY)
    again = asyncio.run(
        scripted(*SCRIPTS).arun("Go.", Ledger().tools, record=record, sampling=GREEDY)
    )
    assert plain.messages == ran.messages == again.messages
    assert plain.id is None
    assert ran.id is not None
    with RunStore(record) as store:
        assert [(run.id, run.state) for run in store.list_runs()] == [
            (ran.id, "stop"),
            (again.id, "stop"),
        ]


def test_what_is_over_is_not_done_again(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    ran = scripted(*SCRIPTS).run("Go.", Ledger().tools, record=record, sampling=GREEDY)
    later = Ledger()
    again = scripted("never").resume(record, str(ran.id), later.tools)
    assert later.made == []
    assert (again.messages, again.reason, again.steps) == (ran.messages, ran.reason, ran.steps)
    assert [one.outcome for one in again.calls] == [one.outcome for one in ran.calls]
    assert again.spent == ran.spent


@pytest.mark.parametrize("crash", [1, 2])
def test_a_call_that_was_under_way_is_not_known(tmp_path: Path, crash: int) -> None:
    record = tmp_path / "runs.db"
    before = interrupt(record, crash)
    assert find(record).state == "running"
    ledger = Ledger()
    ran = scripted(*SCRIPTS).resume(record, "", ledger.tools)
    assert (ran.reason, ran.content) == (Reason.STOP, "Done.")
    assert f"write {crash}" not in before.made + ledger.made
    (lost,) = [made for made in ran.calls if made.outcome is Outcome.UNKNOWN]
    assert lost.call.arguments == {"value": crash}
    assert "the outcome is not known" in lost.content
    whole = before.made + ledger.made
    assert len(set(whole)) == len(whole)


def test_who_is_asked_may_have_it_done_again(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    interrupt(record, 2)
    asked: list[ToolCall] = []

    def again(call: ToolCall) -> bool:
        asked.append(call)
        return True

    ledger = Ledger()
    ran = scripted(*SCRIPTS).resume(record, "", ledger.tools, on_interrupted=again)
    assert [one.arguments for one in asked] == [{"value": 2}]
    assert ledger.made == ["write 2"]
    assert {made.outcome for made in ran.calls} == {Outcome.DONE}


def test_an_async_run_goes_on(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    interrupt(record, 2)

    async def again(call: ToolCall) -> bool:
        return True

    ledger = Ledger()
    model = scripted(*SCRIPTS)
    ran = asyncio.run(model.aresume(record, "", ledger.tools, on_interrupted=again))
    assert (ran.reason, ledger.made) == (Reason.STOP, ["write 2"])


def test_two_processes_do_not_go_on_with_one_run(tmp_path: Path) -> None:
    """The one that writes second fails before its call is made."""
    record = tmp_path / "runs.db"
    interrupt(record, 2)
    other = Ledger()

    def meanwhile(call: ToolCall) -> bool:
        scripted(*SCRIPTS).resume(record, "", other.tools, on_interrupted=lambda call: True)
        return True

    ledger = Ledger()
    with pytest.raises(RequestError, match="another process continues the run"):
        scripted(*SCRIPTS).resume(record, "", ledger.tools, on_interrupted=meanwhile)
    assert other.made + ledger.made == ["write 2"]


def approve_look(call: ToolCall) -> Verdict:
    return call.name == "look" or LATER


def test_approval_waits(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    ledger = Ledger()
    model = scripted(*SCRIPTS)
    ran = model.run("Go.", ledger.tools, record=record, sampling=GREEDY, approve=approve_look)
    assert (ran.reason, ran.steps) == (Reason.WAITING, 1)
    assert [one.name for one in ran.pending] == ["look", "write"]
    assert "write 1" not in ledger.made
    still = model.resume(record, str(ran.id), ledger.tools)  # nobody has decided
    assert still.reason is Reason.WAITING
    with RunStore(record) as store:
        run = store.find("")
        assert [one.call.arguments for one in list_waiting(store, run)] == [{"value": 1}]
        with pytest.raises(RequestError, match="no such call"):
            decide(store, run, True, number=0)
        assert len(decide(store, run, True)) == 1
        assert list_waiting(store, run) == []
    assert replay_file(record).differences == ()  # although it waits no longer
    second = model.resume(record, str(ran.id), ledger.tools)  # waits for the next call
    assert (second.reason, ledger.made.count("write 1")) == (Reason.WAITING, 1)
    with RunStore(record) as store:
        decide(store, store.find(""), "Not today.")
    ended = model.resume(record, str(ran.id), ledger.tools)
    assert (ended.reason, ended.content) == (Reason.STOP, "Done.")
    assert ended.calls[-1].outcome is Outcome.DECLINED
    assert "Not today." in ended.calls[-1].content
    assert "write 2" not in ledger.made


def test_a_limit_may_be_higher_later(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    ledger = Ledger()
    ran = scripted(*SCRIPTS).run("Go.", ledger.tools, record=record, sampling=GREEDY, max_steps=1)
    assert ran.reason is Reason.MAX_STEPS
    ended = scripted(*SCRIPTS).resume(record, str(ran.id), ledger.tools, max_steps=5)
    assert ended.reason is Reason.STOP
    assert ledger.made == ["look 1", "write 1", "write 2"]


def test_seconds_count_on(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    interrupt(record, 2)
    with sqlite3.connect(record) as database:  # the last turn has taken an hour
        database.execute(
            "UPDATE events SET body = json_set(body, '$.seconds', 3600)"
            " WHERE kind = 'reply' AND turn = 1"
        )
    ran = scripted(*SCRIPTS).resume(record, "", Ledger().tools, budget=Budget(seconds=3000))
    assert (ran.reason, ran.steps) == (Reason.BUDGET, 3)
    assert 3600 < ran.spent.seconds < 3900
    assert ran.calls[-1].outcome is Outcome.UNKNOWN  # it was begun when the budget was another one


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["look", "write"]), st.integers(0, 3)), max_size=3),
        max_size=3,
    ),
    st.sampled_from([None, 3]),
)
@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=12,
)
def test_a_replay_is_the_run(
    tmp_path: Path, turns: list[list[tuple[str, int]]], crash: int | None
) -> None:
    scripts = ["\n".join(call(*one) for one in turn) or "Well." for turn in turns] + ["Done."]
    record = tmp_path / "runs.db"
    record.unlink(missing_ok=True)
    try:
        ran = scripted(*scripts).run("Go.", Ledger(crash).tools, record=record, sampling=GREEDY)
    except KeyboardInterrupt:
        ran = scripted(*scripts).resume(record, "", Ledger().tools)
    replayed = replay_file(record)
    assert replayed.differences == ()
    assert replayed.messages == ran.messages
    assert replayed.run is not None
    assert replayed.run.reason is ran.reason
    assert replay_file(record, tools=Ledger().tools).differences == ()


def test_a_replay_ends_where_the_record_does(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    interrupt(record, 2)
    replayed = replay_file(record)
    assert replayed.run is None
    assert replayed.differences == ()
    assert replayed.messages[-1]["tool_calls"][0]["function"]["name"] == "write"


def test_a_replay_tells_what_differs(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    scripted(*SCRIPTS).run("Go.", Ledger().tools, record=record, sampling=GREEDY)

    def look(value: int) -> int:
        return value + 1

    def write(value: str) -> None: ...

    tools = [FunctionTool.from_function(look, read_only=True), write]
    found = replay_file(record, tools=tools).differences
    assert [(one.turn, one.call) for one in found] == [(0, 1), (0, 0), (1, 0)]
    assert (found[1].recorded, found[1].now) == ("1", "2")
    with pytest.raises(RequestError, match="the tool 'write', which is not given"):
        replay_file(record, tools=[look])


def test_a_fork_goes_another_way(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    ledger = Ledger()
    ran = scripted(*SCRIPTS).run("Go.", ledger.tools, record=record, sampling=GREEDY)
    with RunStore(record) as store:
        new = fork(store, store.find(str(ran.id)), 1)
        with pytest.raises(RequestError, match="has 3 turns, not 4"):
            fork(store, store.find(str(ran.id)), 4)
        runs = [store.read_run(listed) for listed in store.list_runs()]
        seeds = [run.request["options"]["sampling"]["seed"] for run in runs]
        assert len(set(seeds)) == 2
    other = scripted(SCRIPTS[0], "Something else.").resume(record, new, ledger.tools)
    assert (other.content, other.steps) == ("Something else.", 2)
    assert ledger.made == ["look 1", "write 1", "write 2"]
    assert find(record, str(new)).parent == ran.id
    assert replay_file(record, str(ran.id)).run is not None


@pytest.mark.parametrize("source", [None, QWEN3_CODER])
def test_the_rows_of_a_run_hold(tmp_path: Path, source: str | None) -> None:
    record = tmp_path / "runs.db"
    scripts = SCRIPTS if source is None else ("Hello.", "Done.")
    model = scripted(*scripts) if source is None else scripted(*scripts, source=source)
    ran = model.run("Go.", Ledger().tools, record=record, sampling=GREEDY)
    with RunStore(record) as store:
        run = store.find("")
        rows = export_rows(run, store.read_events(run.id))
    assert len(rows) == ran.steps
    for row, answer in zip(rows, check_rows(json.loads(json.dumps(rows))), strict=True):
        assert answer["accepted"] is True
        calls = [{key: made[key] for key in CALL_FIELDS} for made in answer["tool_calls"]]
        assert calls == row["expect"]["tool_calls"]


def test_an_exported_test_passes_and_fails(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    scripted(*SCRIPTS).run("Go é \\ '\"\n.", Ledger().tools, record=record, sampling=GREEDY)
    with RunStore(record) as store:
        run = store.find("")
        text = export_test(run, store.read_events(run.id))
    space: dict[str, Any] = {}
    exec(compile(text, "test_run.py", "exec"), space)
    space[f"test_run_{run.id}"]()
    broken = text.replace('"reason": "stop"', '"reason": "length"')
    if broken != text:
        exec(compile(broken, "test_run.py", "exec"), space)
        with pytest.raises(AssertionError):
            space[f"test_run_{run.id}"]()


def test_options_are_read_as_they_were_written() -> None:
    given: dict[str, Any] = {
        "sampling": Sampling(seed=3, logit_bias={5: float("-inf"), 2: 1.5}),
        "budget": Budget(calls=3, cost=0.5),
        "tool_choice": {"type": "any"},
        "max_steps": 4,
        "stop": ["END"],
        "excluded_calls": [ToolCall("write", {"value": 1})],
        "isolate": True,
        "date": datetime(2026, 1, 2, 3, 4, 5),
    }
    assert read_options(json.loads(json.dumps(write_options(given)))) == given


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    class Answer(BaseModel):
        value: int

    record = tmp_path / "runs.db"
    with pytest.raises(RequestError, match="Answer cannot be recorded") as error:
        scripted("x").run("Go.", [], record=record, response_format=Answer)
    assert error.value.where == "/response_format"
    with RunStore(record) as store:
        assert store.list_runs() == []


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no file"):
        scripted("x").resume(tmp_path / "no.db", "", [])
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"no database at all" * 100)
    with pytest.raises(RequestError, match="cannot be used"):
        scripted("x").run("Go.", [], record=garbage)
    newer = tmp_path / "newer.db"
    RunStore(newer).close()
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(RequestError, match="its version is 99"):
        RunStore(newer)


def test_tools_have_to_be_those_of_the_run(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    ran = scripted(hermes_call("ping")).run("Go.", [PING, *Ledger().tools], record=record)
    assert ran.reason is Reason.TOOL_CALLS
    model = scripted("x")
    bare = FunctionTool.from_schema("write", {})
    with pytest.raises(RequestError, match="the tool 'write' has no function"):
        model.resume(record, "", [PING, Ledger().tools[0], bare])
    with pytest.raises(RequestError, match="no run of id 'zz'"):
        model.resume(record, "zz", [])
    again = model.resume(record, "", [PING, *Ledger().tools])
    assert [one.name for one in again.pending] == ["ping"]


def test_killed_processes_are_resumed() -> None:
    program = "tests.constrained.agent.runs.killed_runs"
    command = [sys.executable, "-m", program, "--kills", "3", "--seed", "7"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].endswith(": 0 faults")


TOOLS_FILE = """
from constrained import tool

@tool(read_only=True)
def look(value: int) -> int:
    return value

def write(value: int) -> str:
    with open({path!r}, "a") as made:
        made.write(f"{{value}} ")
    return f"wrote {{value}}"
"""


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from constrained.cli import request

    def load(options: Any) -> Model:
        return scripted(*SCRIPTS)

    monkeypatch.setattr(request, "load_model", load)
    record, made = tmp_path / "runs.db", tmp_path / "made"
    functions = tmp_path / "tools.py"
    functions.write_text(TOOLS_FILE.format(path=str(made)))
    ran = scripted(*SCRIPTS).run(
        "Go.", Ledger().tools, record=record, sampling=GREEDY, approve=approve_look
    )

    def command(*arguments: str) -> str:
        from constrained.cli.parser import main

        assert main(["runs", *arguments]) in (0, 1)
        return capsys.readouterr().out

    id = str(ran.id)
    file = str(record)
    assert f"{id}" in command("list", file)
    assert 'waits    write({"value": 1})' in command("show", file, id)
    assert "approved ToolCall('write', {'value': 1}" in command("approve", file, id[:4])
    command("resume", file, id, "--functions", str(functions))
    assert made.read_text() == "1 "
    assert 'waits    write({"value": 2})' in command("show", file)
    assert "declined" in command("approve", file, "--call", "1", "--decline", "No.")
    assert "Done." in command("resume", file, id, "--functions", str(functions))
    assert made.read_text() == "1 "
    assert command("replay", file, id, "--functions", str(functions)) == "0 differences\n"
    new = command("fork", file, id, "--step", "1").strip()
    assert json.loads(command("list", file, "--json"))[1]["parent"] == id
    assert json.loads(command("show", file, new, "--json"))["run"]["id"] == new
    assert f"def test_run_{id}" in command("export", file, id)
    rows = command("export", file, id, "--as", "rows").splitlines()
    assert [json.loads(row)["text"] for row in rows] == list(SCRIPTS)


DAMAGES: tuple[tuple[str, str], ...] = (
    (
        "UPDATE events SET body = '{' WHERE number = 2",
        "Expecting property",
    ),
    ("UPDATE events SET kind = 'other' WHERE number = 2", "unknown kind"),
    ("UPDATE events SET turn = 'first'", "no integers"),
    ("UPDATE events SET body = '{}' WHERE kind = 'reply'", "event 1 of the run .* cannot be read"),
    (
        "UPDATE events SET body = json_set(body, '$.reply.usage.completion_tokens', 'few')"
        " WHERE kind = 'reply'",
        "/reply/usage/completion_tokens",
    ),
    ("UPDATE runs SET request = '[]'", "the run .* cannot be read"),
    ("UPDATE runs SET request = json_remove(request, '$.template')", "template"),
    ("UPDATE runs SET created = 'today'", "TypeError"),
    ("DROP TABLE events", "another program"),
    ("UPDATE events SET kind = 'request', body = (SELECT request FROM runs)", "unknown kind"),
    (
        "UPDATE runs SET request = json_set(request, '$.options.sampling.temperature', 'hot')",
        "/options/sampling/temperature",
    ),
    (
        "UPDATE runs SET request = json_set(request, '$.options.sampling.temperature', -1)",
        "temperature",
    ),
    (
        "UPDATE runs SET request = json_set(request, '$.options.budget', json('{\"x\": 1}'))",
        "budget",
    ),
    ("UPDATE runs SET request = json_set(request, '$.options.isolate', 'yes')", "isolate"),
    (
        "UPDATE runs SET request = json_set(request, '$.options.excluded_calls', json('[1]'))",
        "/options/excluded_calls/0",
    ),
    ("UPDATE runs SET request = json_set(request, '$.options.date', 'today')", "today"),
    (
        "UPDATE runs SET request = CAST(x'7BFF7D' AS TEXT)",
        "Expecting property",
    ),
)


@pytest.mark.parametrize(("damage", "fault"), DAMAGES)
def test_a_record_that_is_damaged_says_so(tmp_path: Path, damage: str, fault: str) -> None:
    record = tmp_path / "runs.db"
    scripted("Done.").run("Go.", [PING], record=record, sampling=GREEDY)
    with sqlite3.connect(record) as database:
        database.execute(damage)
    database.close()
    with pytest.raises(RequestError, match=fault):
        replay_file(record)


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text TEXT)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(RequestError, match="the database of another program"):
        RunStore(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage",
    ["request = '{'", "created = 'today'", "created = 9e999", "id = x'ff'", "created = -9e18"],
)
def test_a_run_that_is_damaged_hides_no_other(tmp_path: Path, run: Run, damage: str) -> None:
    record = tmp_path / "runs.db"
    ids = [str(scripted("Done.").run("Go.", [PING], record=record).id) for _ in range(2)]
    with sqlite3.connect(record) as database:
        database.execute(f"UPDATE runs SET {damage} WHERE id = ?", (ids[0],))
    database.close()
    assert find(record, ids[1]).id == ids[1]
    code, out, _ = run("runs", "list", str(record), "--json")
    assert code == 0
    assert {row["state"] for row in json.loads(out)} == {"damaged", "stop"}
    code, out, _ = run("runs", "list", str(record))
    assert code == 0
    assert "damaged" in out


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
REPLACED = (
    "CREATE VIEW runs AS SELECT * FROM kept",
    f"CREATE VIEW runs AS {ENDLESS} SELECT x AS id, 0 AS created, '', '', '' FROM n",
    "CREATE TABLE runs (id, created, parent, state, request)",
)


@pytest.mark.parametrize("table", REPLACED)
def test_a_view_or_another_table_in_place_of_ours_is_refused(
    tmp_path: Path, run: Run, table: str
) -> None:
    record = tmp_path / "runs.db"
    scripted("Done.").run("Go.", [PING], record=record)
    with sqlite3.connect(record) as database:
        database.execute("ALTER TABLE runs RENAME TO kept")
        database.execute(table)
    database.close()
    for words in (["list"], ["show"]):
        code, out, err = run("runs", *words, str(record))
        assert (code, out) == (2, "")
        assert "the database of another program" in err


def test_a_query_that_has_no_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constrained.engine.files.stored.QUERY_SECONDS", 0.1)
    database = sqlite3.connect(tmp_path / "runs.db")
    endless = f"{ENDLESS} SELECT count(*) FROM n"
    with pytest.raises(DamagedError, match="interrupted"), reading("it"), limited_queries(database):
        database.execute(endless).fetchall()
    database.close()


def test_a_full_disk_is_named_and_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    record = tmp_path / "runs.db"
    scripted("Done.").run("Go.", [PING], record=record)
    with RunStore(record) as store:
        (listed,) = store.list_runs()
        request = {**store.read_run(listed).request, "messages": "x" * 100_000}
        store._database.execute("PRAGMA max_page_count = 1")  # no less than there are
        for _ in range(2):
            with pytest.raises(RequestError, match="cannot be written: database or disk is full"):
                store.create(request)
        assert store.list_runs() == [listed]
