"""`constrained chat`: piped, over a scripted model; at a terminal, over one of random weights."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.cli.commands.chat import HELP, SKIPPED, ChatSession
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.engine.protocol import Sampling
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.job import Job
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import HERMES, PAINT, PING, hermes_call
from tests.terminal import Terminal

RED = hermes_call("paint", '{"color": "red", "glossy": true}')


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    return str(write_model(folder / "m.gguf", with_markers(load_small(), MARKERS), HERMES))


class Watched:
    """A model that keeps the prompts and the choices it is asked for."""

    def __init__(self, model: Model):
        self._model = model
        self.prompts: list[str] = []
        self.choices: list[Any] = []

    def compile(self, job: Job) -> CompiledTurn:
        turn = self._model.compile(job)
        self.prompts.append(turn.prompt.text)
        self.choices.append(job.tool_choice)
        return turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


@pytest.fixture
def talk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def talk(
        model: Any, *lines: str | bytes, max_tokens: int = 200, **job: Any
    ) -> tuple[list[str], str]:
        """What is printed for these lines."""
        data = b"".join((x if isinstance(x, bytes) else x.encode()) + b"\n" for x in lines)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        start = replace(Job(()), **job)
        ChatSession(
            model, start, max_reply_tokens=max_tokens, sampling=Sampling(temperature=0)
        ).run()
        printed = capsys.readouterr()
        return printed.out.splitlines(), printed.err

    return talk


def test_a_conversation(talk: Any):
    model = Watched(scripted("Hello!", "<think>\nHm.\n</think>\n\nTwo.", "Bye."))
    system = [{"role": "system", "content": "Be brief."}]
    said = talk(model, "Hi, I am Ann.", "", "1 + 1?\r", "  ", " /bye", messages=system)
    assert said == (["Hello!", "Two.", "Bye."], "(reasoning) Hm.\n")
    last = model.prompts[-1]
    for text in ("Be brief.", "Hi, I am Ann.", "Hello!", "1 + 1?", "Two.", " /bye"):
        assert text in last
    assert len(model.prompts) == 3


def test_commands(talk: Any):
    model = Watched(scripted("One.", "Two."))
    lines = ["/undo", "a", "b", "/undo", "c", "/clear", "/undo", "d", "/what is it", "/exit", "e"]
    out, err = talk(model, *lines)
    undone = ["(there is nothing to undo)", "One.", "Two.", "(undone: b)", "Two.", "(forgotten)"]
    assert out == [*undone, "(there is nothing to undo)", "One."]
    assert err == (
        "constrained: error: /what is it is not a command. See /help; to send it, put a space "
        "before it\n"
    )
    told = [[text for text in "abcd" if f"user\n{text}<" in p] for p in model.prompts]
    assert told == [["a"], ["a", "b"], ["a", "c"], ["d"]]
    assert "/undo" in "\n".join(talk(model, "/help")[0])


def test_calls_are_answered_by_the_user(talk: Any):
    model = Watched(scripted(f"{RED}\n{hermes_call('ping')}", RED, "Done."))
    lines = ("Go.", "painted", "", '{"ok": true}')
    out, err = talk(model, *lines, tools=[PAINT, PING], tool_choice="required")
    call = 'paint(color="red", glossy=true)'
    assert (out, err) == ([call, "ping()", call, "Done."], "")
    assert model.choices == ["required", "auto", "auto"]
    answers = [p.split("<tool_response>\n")[1:] for p in model.prompts]
    found = [[a.split("\n</tool_response>")[0] for a in part] for part in answers]
    assert found == [[], ["painted", SKIPPED], ["painted", SKIPPED, '{"ok": true}']]
    assert json.loads(SKIPPED)


def test_the_end_in_the_middle_of_a_turn(talk: Any):
    assert talk(scripted(RED), "Go.", tools=[PAINT]) == (['paint(color="red", glossy=true)'], "")
    assert talk(scripted("Hi.")) == ([], "")


def test_calls_that_ran_out_of_tokens_are_not_carried_out(talk: Any):
    model = Watched(scripted(f"{RED}\n{RED}", "I see."))
    limit = len(RED) + 20
    out, err = talk(model, "Go.", "Why?", tools=[PAINT], max_tokens=limit)
    assert (out[0], out[-1]) == ('paint(color="red", glossy=true)', "I see.")
    assert "the tokens ran out" in err
    assert RED not in model.prompts[-1]


def test_an_error_ends_a_turn_but_not_the_chat(talk: Any):
    model = Watched(scripted("Hello!"))
    out, err = talk(model, "x" * 30_000, b"\xff\xfe", "Hi.", "\x00")
    assert out == ["Hello!", "Hello!"]
    assert "context length is 20000 tokens. However, your messages" in err
    assert "the line is not UTF-8: invalid start byte" in err
    assert err.count("error") == 2
    assert "xxx" not in model.prompts[-1]


def test_the_command(run: Run, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    schema = write(tmp_path / "s.json", {"enum": [1, 2]})
    common = ["-m", path, "--system", "Be brief.", "--reasoning", "off", "-n", "12", "--seed", "1"]
    for answer in (["--choice", "yes", "--choice", "no"], ["--json-schema", schema]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Is it?\nSure?\n")))
        code, out, err = run("chat", *common, *answer, "-c", "100000")
        assert code == 0
        assert "a context of 4096 tokens" in err
        lines = [line for line in out.splitlines() if line and "ran out" not in line]
        assert len(lines) == 2
        assert {line.strip() for line in lines} <= {"yes", "no", "1", "2"}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"/what\n/help\n")))
    assert run("chat", *common)[0] == ExitCode.NEGATIVE
    assert run("chat", "-m", "none.gguf")[0] == 3
    assert run("chat", *common, "-n", "0")[0] == 2


LONG = ["--regex", "[a-z]{30000}", "-n", "40000", "-c", "0", "--seed", "1", "--reasoning", "off"]


def test_at_a_terminal(path: str):
    with Terminal("-m", "constrained", "chat", "-m", path, *LONG) as terminal:
        assert "/help" in terminal.wait_for("> ")
        terminal.type("hello\r")
        terminal.wait_for("hello\r\n")
        terminal.wait_for_some(20)
        terminal.interrupt("(cancelled)\r\n")
        terminal.wait_for("> ")
        terminal.type("/undo\r")  # the turn has left no trace
        terminal.wait_for("(there is nothing to undo)\r\n> ")
        terminal.type("abc")
        terminal.wait_for("abc")
        terminal.interrupt("(/exit or Ctrl-D ends the chat)\r\n")
        terminal.wait_for("> ")
        terminal.type("\x1b[A\r")  # the arrow brings the last line back
        assert "/undo" in terminal.wait_for("(there is nothing to undo)\r\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.shown


def test_calls_at_a_terminal(path: str, tmp_path: Path):
    tools = write(tmp_path / "tools.json", [PAINT])
    words = ["--tools", tools, "--tool-choice", "paint", "--reasoning", "on"]
    words += ["--reasoning-budget", "8", "--seed", "1", "-n", "100"]
    with Terminal("-m", "constrained", "chat", "-m", path, *words) as terminal:
        terminal.wait_for("> ")
        terminal.type("hello\r")
        shown = terminal.wait_for("result of paint: ")
        assert "\x1b[2m" in shown
        assert shown.partition("\x1b[0m\r\n")[2].startswith("paint(color=")
        terminal.interrupt("(cancelled)\r\n> ")
        terminal.type("/exit\r")
        assert terminal.wait() == 0


def test_three_quotes_hold_several_lines(talk: Any):
    model = Watched(scripted("One.", "Two.", "Three."))
    lines = ('"""first', "", '/second"""', '"""alone"""', '"""', "never closed")
    out, err = talk(model, *lines)
    assert (out, err) == (["One.", "Two.", "Three."], "")
    last = model.prompts[-1]
    for text in ("user\nfirst\n\n/second<", "user\nalone<", "user\nnever closed<"):
        assert text in last


def test_tools_are_listed_with_their_parameters(talk: Any):
    out, _ = talk(scripted("Hi."), "/tools", tools=[PAINT, PING])
    assert [line for line in out if not line.startswith(" ")] == ["paint", "ping"]
    assert any(line.startswith("    color: ") for line in out)
    assert talk(scripted("Hi."), "/tools")[0] == [
        "(there are no tools: --tools FILE, --mcp SERVER)"
    ]
    assert all(word in HELP for word in ("/tools", "/clear", "/undo", "/help", "/exit", '"""'))


PYTHON = '''
from pathlib import Path

from constrained import tool
from beside import forecast


@tool(read_only=True)
def get_weather(city: str, day: str = "today") -> dict:
    """Forecast for a city"""
    print("printed")
    return forecast


def set_timer(minutes: int) -> str:
    """Starts a timer"""
    Path(__file__).with_name("timer").write_text(str(minutes))
    return "ok"


def _hidden() -> None: ...
'''


@pytest.fixture
def python_tools(tmp_path: Path) -> str:
    write(tmp_path / "beside.py", 'forecast = {"weather": "sunny", "temperature": 24}\n')
    return write(tmp_path / "home.py", PYTHON)


@pytest.fixture
def chat_at_terminal(python_tools: str):
    """A chat with the demo model and the functions of a file."""
    words = ("--tools", python_tools, "--temp", "0", "-m", "demo", "--reasoning", "off")
    with Terminal("-m", "constrained", "chat", *words, "-n", "60") as terminal:
        terminal.wait_for("> ")
        yield terminal


def test_functions_of_a_file_are_executed_at_a_terminal(
    chat_at_terminal: Terminal, tmp_path: Path
) -> None:
    terminal = chat_at_terminal
    terminal.type("/tools\r")
    shown = terminal.wait_for("minutes: ")
    assert "get_weather: Forecast for a city" in shown
    assert "    day?: string" in shown
    assert "_hidden" not in shown
    terminal.wait_for("> ")
    terminal.type("What's the weather in Paris tomorrow?\r")
    shown = terminal.wait_for("24.")
    assert "run " not in shown  # it is read-only
    assert '-> {"weather": "sunny", "temperature": 24}' in shown
    terminal.wait_for("> ")
    terminal.type("Set a timer for 5 minutes\r")
    terminal.wait_for("run set_timer(minutes=5)? y/N, or why not: ")
    terminal.type("y\r")
    terminal.wait_for("-> ok\r\n")
    assert (tmp_path / "timer").read_text() == "5"
    terminal.wait_for("> ")
    terminal.type("Set a timer for 7 minutes\r")
    terminal.wait_for("why not: ")
    terminal.type("\r")
    terminal.wait_for("not executed")
    assert (tmp_path / "timer").read_text() == "5"


@pytest.mark.parametrize(
    "typed",
    [
        "\x1b[200~one\rtwo\rthree\x1b[201~\r",  # a paste that the terminal marks
        "one\rtwo\rthree\r",  # one that it does not
    ],
)
def test_a_paste_is_one_message(chat_at_terminal: Terminal, typed: str) -> None:
    terminal = chat_at_terminal
    terminal.type(typed)
    terminal.wait_for("three")
    terminal.wait_for("\r\n> ")
    terminal.type("/undo\r")
    terminal.wait_for("(undone: one two three)")
    terminal.wait_for("> ")
    terminal.type("/undo\r")
    terminal.wait_for("(there is nothing to undo)")


def test_functions_that_write_are_not_executed_without_a_user(
    run: Run, python_tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    ask = ("call", "Set a timer for 5 minutes", "--tools", python_tools, "-m", "demo")
    code, _, err = run(*ask, "--temp", "0", "--reasoning", "off")
    assert code == 0
    assert "set_timer(minutes=5) -> " in err
    assert "nobody can be asked" in err
    assert not (tmp_path / "timer").exists()
    assert run(*ask, "--temp", "0", "--reasoning", "off", "--yes")[0] == 0
    assert (tmp_path / "timer").read_text() == "5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name", "cannot be run: ModuleNotFoundError: No module named"),
        ("def _only(): ...", "has no public function"),
        ("raise SystemExit(3)", "cannot be run: SystemExit: 3"),
        ("def f(a: object()): ...", "parameter"),
    ],
)
def test_files_that_are_no_tools(run: Run, tmp_path: Path, text: str, message: str) -> None:
    code, _, err = run("call", "hi", "--tools", write(tmp_path / "bad.py", text))
    assert code == ExitCode.USAGE
    assert message in err
