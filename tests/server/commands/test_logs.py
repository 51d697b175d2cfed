"""The log has what the server did: no client and no file writes a line of it."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constrained.cli.terminal.output import (
    INDENT,
    LOUD,
    LineFormatter,
    NoteFormatter,
    show_warnings,
)
from server.commands.logs import set_up_log
from tests.command_line import Run
from tests.scripted_model import scripted
from tests.server.running_server import running

FORGED = "color\nERROR: all keys are valid now\r\x1b[2J\x1b]0;owned\x07\x9b31m\u2028\u202e\x7f"
TEXTS = st.one_of(st.text(), st.text("ab \n\r\t\x1b\x9b\x85\x0b\x0c\u2028\u2029\u202e\x00\\%"))


@contextmanager
def logging_to(out: io.StringIO) -> Iterator[logging.Logger]:
    """The logger of the server, with the handler that `serve` gives it."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter("%(levelname)s: %(message)s"))
    logger = logging.getLogger("constrained.server")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield logger
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def check_lines(text: str, level: str = "WARNING") -> None:
    """One record: all but its first line are indented, and nothing in it moves a cursor."""
    assert text.endswith("\n")
    first, *further = text[:-1].split("\n")
    assert first.startswith(f"{level}: ")
    for line in (first, *further):
        assert line.isprintable()
    for line in further:
        assert line.startswith(INDENT)


@given(text=TEXTS, argument=TEXTS)
@example(FORGED, FORGED)
def test_no_text_makes_a_line_of_its_own(text: str, argument: str) -> None:
    out = io.StringIO()
    with logging_to(out) as logger:
        logger.warning(text.replace("%", "%%") + ": %s", argument)
    check_lines(out.getvalue())
    assert out.getvalue().count("\n") == 1


@given(text=TEXTS, name=st.sampled_from(["ValueError", FORGED]))
@example(FORGED, FORGED)
def test_no_error_makes_one_either(text: str, name: str) -> None:
    kind = type(name, (Exception,), {})
    out = io.StringIO()
    with logging_to(out) as logger:
        try:
            error = kind(text)
            error.add_note(text)
            raise error
        except Exception:
            logger.warning("it failed", exc_info=True, stack_info=True)
    check_lines(out.getvalue())
    assert "Traceback" in out.getvalue()


def test_what_is_printed_stays_as_it_is() -> None:
    out = io.StringIO()
    with logging_to(out) as logger:
        logger.info("größer als %s", "日本 \\n 🙂")
    assert out.getvalue() == "INFO: größer als 日本 \\n 🙂\n"


@pytest.fixture
def log_settings() -> Iterator[None]:
    """Restores what a command sets up for good."""
    loggers = [logging.getLogger(name) for name in (None, "httpx", *LOUD)]
    levels = [logger.level for logger in loggers]
    root = loggers[0]
    handlers = list(root.handlers)
    last = logging.lastResort
    formatter = last.formatter if last else None
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    root.handlers[:] = handlers
    if last is not None:
        last.setFormatter(formatter)


@pytest.mark.parametrize("level", ["debug", "info"])
def test_what_a_package_logs_of_servers_is_shown_for_debugging(
    log_settings: None, level: str
) -> None:
    show_warnings()  # as the command line does before any command
    set_up_log(level)
    for name in LOUD:
        assert logging.getLogger(f"{name}.session").isEnabledFor(logging.ERROR) == (
            level == "debug"
        )


@pytest.mark.parametrize(("level", "kind"), [(logging.WARNING, "note"), (logging.ERROR, "error")])
def test_an_error_is_no_note(level: int, kind: str) -> None:
    record = logging.makeLogRecord({"msg": "it\nis", "levelno": level})
    assert NoteFormatter().format(record) == f"constrained: {kind}: it\\nis"


def refuse_tool(client: httpx.Client, name: str, tool_name: str = "bad") -> Any:
    """Offers a good tool, and one that nobody can call."""
    impossible = {"type": "string", "minLength": 5, "maxLength": 1}
    schema = {"type": "object", "properties": {name: impossible}, "required": [name]}
    tools = [
        {"type": "function", "function": {"name": "good", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": tool_name, "parameters": schema}},
    ]
    messages = [{"role": "user", "content": "Hello"}]
    body = {"messages": messages, "tools": tools, "max_tokens": 1, FORGED: 1}
    return client.post("/v1/chat/completions", json=body)


def test_a_refused_tool_writes_no_line() -> None:
    out = io.StringIO()
    with logging_to(out), running(scripted("Hi")) as client:
        response = refuse_tool(client, FORGED)
        assert response.status_code == 200
        assert response.json()["constrained"]["refused_tools"][0]["name"] == "bad"
    lines = out.getvalue().splitlines()
    assert any("all keys are valid now" in line and "bad" in line for line in lines)
    for line in lines:
        check_lines(f"{line}\n", line.split(":")[0])
        assert line.split(":")[0] in ("INFO", "WARNING")


def test_the_command_line_writes_no_foreign_message(run: Run, tmp_path: Any) -> None:
    template = tmp_path / "template.jinja"
    forged = "no\\nconstrained: note: all is well\\x1b[2J\\u202e"
    template.write_text('{{ raise_exception("' + forged + '") }}')
    code, _, err = run("call", "Hello", "--chat-template-file", str(template))
    assert code == 2
    assert "all is well" in err
    assert not any(line.startswith("constrained: note: all is well") for line in err.split("\n"))
    assert all(line.isprintable() for line in err.split("\n"))
