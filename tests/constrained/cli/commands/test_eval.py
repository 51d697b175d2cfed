"""`constrained eval`, with the demo model: what it prints, and that it goes on after a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from constrained.cli.terminal.exit_codes import ExitCode
from constrained.inspect.evaluation import evaluate
from constrained.inspect.evaluation.rows import QuestionKind
from constrained.model_files.embedded import PATH
from tests.command_line import Run
from tests.lora_file import write_adapter


def make_tool(name: str, description: str, key: str, kind: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}
    return {"name": name, "description": description, "parameters": parameters}


WEATHER = make_tool("get_weather", "The weather of a city", "city", "string")
TIMER = make_tool("set_timer", "Set a timer", "minutes", "integer")


def make_row(user: str, *gold: Any, tools: Any = (WEATHER, TIMER)) -> dict[str, Any]:
    calls = [{"name": name, "arguments": arguments} for name, arguments in gold]
    return {"tools": list(tools), "user": user, "gold": calls}


UNJUDGED = {"tools": [TIMER], "user": "Set a timer.", "id": "no gold"}
ROWS = [
    UNJUDGED,
    make_row("How is the weather in Oslo?", ("get_weather", {"city": "Oslo"}), tools=[WEATHER]),
    make_row("Set a timer for 5 minutes.", ("set_timer", {"minutes": 5})),
    make_row("Hello!", tools=[TIMER]),
]
SMALL = "-t 1 -n 48 -c 2048".split()


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return str(path)


def test_a_table_json_and_a_picture(run: Run, rows: str, tmp_path: Path) -> None:
    report, picture = tmp_path / "report.json", tmp_path / "picture.svg"
    written = ["--json", str(report), "--picture", str(picture)]
    options = ["--rows", rows, "--count", "1", *SMALL, *written]
    code, out, err = run("eval", "demo", "demo", *options, "--cache-types", "f16", "q8_0")
    assert (code, err) == (ExitCode.DONE, "")
    assert re.findall("^## (.*)", out, re.MULTILINE) == [
        *("demo-Q8_0.gguf f16", "demo-Q8_0.gguf q8_0")
    ]
    assert "note: left out, since they have no `gold` or no tools: no gold" in out
    assert "bits per weight: 100 % Q8_0" in out
    assert "With auto, the syntax fails in " in out
    assert "q8_0 against demo-Q8_0.gguf f16, masked, auto, in points (95 %): " in out
    found = json.loads(report.read_text(encoding="utf-8"))
    rightly = [row for row in found["answers"] if row["id"] == "rows.jsonl:2"]
    assert len(rightly) == 8
    assert all(row["exact"] for row in rightly)
    kinds = {row["kind"] for row in found["answers"]}
    assert kinds == {"simple", "multiple", "irrelevance", "agent"}
    masked = [row for row in found["figures"] if row["way"]["name"] == "masked"]
    assert all(row["valid"] in (1.0, None) for row in masked)
    assert found["calibration"]
    ElementTree.fromstring(picture.read_text(encoding="utf-8"))


def test_in_python(rows: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    began = b""
    for _ in range(2):
        began = answers.read_bytes() if answers.exists() else b""
        found = evaluate(
            ["demo"],
            rows=[rows],
            kinds=[QuestionKind.SIMPLE, QuestionKind.IRRELEVANCE],
            answers=answers,
            threads=1,
            context_length=2048,
        )
        assert {judgement.way.subject for judgement in found.judgements} == {"demo-Q8_0.gguf"}
        assert len(found.judgements) == 7
    assert answers.read_bytes() == began != b""


def test_an_adapter_has_its_own_answers(rows: str, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    adapter = write_adapter(tmp_path / "adapter.gguf", PATH)
    for lora in ([], [(adapter, 0.5)], [(adapter, 0.25)]):
        options = {"threads": 1, "context_length": 2048, "lora": lora}
        evaluate(["demo"], rows=[rows], kinds=["irrelevance"], answers=answers, **options)
    models = [json.loads(line)["model"] for line in answers.read_bytes().splitlines()[1:]]
    adapters = [model.get("adapter 0", "none").rpartition(" ")[2] for model in models]
    assert adapters == ["none"] * 2 + ["0.5"] * 2 + ["0.25"] * 2


def start(rows: str, answers: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "constrained", "eval", "demo", "--rows", rows, *SMALL]
    command += ["--kinds", "simple", "irrelevance", "agent", "--count", "16"]
    return subprocess.Popen(
        [*command, "--answers", str(answers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CONSTRAINED_NO_PROBE": "1"},
    )


def wait_for_lines(path: Path, count: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError("there are no answers")


def test_a_run_that_is_killed_goes_on_and_one_that_is_stopped_prints_what_it_has(
    rows: str, tmp_path: Path
) -> None:
    answers = tmp_path / "answers.jsonl"
    with start(rows, answers) as killed:
        wait_for_lines(answers, 5)
        killed.kill()
    first = answers.read_bytes()
    whole_lines = first[: first.rindex(b"\n") + 1]
    with start(rows, answers) as stopped:
        wait_for_lines(answers, whole_lines.count(b"\n") + 4)
        stopped.send_signal(signal.SIGINT)
        out, err = stopped.communicate(timeout=60)
    assert stopped.returncode == ExitCode.INTERRUPTED
    assert "## demo-Q8_0.gguf" in out
    assert "interrupted" in err
    assert answers.read_bytes().startswith(whole_lines)
    keys = [json.loads(line)["key"] for line in answers.read_bytes().splitlines()[1:]]
    assert len(keys) == len(set(keys))


def test_json_alone(run: Run, rows: str) -> None:
    options = ["--rows", rows, "--kinds", "irrelevance", "--ways", "masked", *SMALL]
    code, out, err = run("eval", "demo", *options, "--json", "-")
    assert (code, err) == (ExitCode.DONE, "")
    found = json.loads(out)
    [answer] = found["answers"]
    assert (answer["kind"], answer["name"], answer["choice"]) == ("irrelevance", "masked", "auto")
    assert found["syntax_or_wits"] == []
    assert found["notes"] == ["left out, since they have no `gold` or no tools: no gold"]


def test_no_call_is_required_where_none_is_due(run: Run, rows: str) -> None:
    options = ["--rows", rows, "--kinds", "irrelevance", "--ways", "masked", *SMALL]
    code, out, err = run("eval", "demo", *options, "--choices", "required")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "a call cannot be required" in err


def test_a_server_that_cannot_be_reached(run: Run, rows: str) -> None:
    address = "http://127.0.0.1:9"
    code, out, err = run("eval", "--against", address, "--model", "a", "--rows", rows)
    assert (code, out) == (ExitCode.USAGE, "")
    assert f"{address}/v1/chat/completions cannot be reached" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no model is named"),
        (["demo", "--count", "0"], "--count is 0"),
        (["demo", "-n", "0"], "--max-tokens is 0"),
        (["demo", "--kinds", "hard"], "there is no 'hard'"),
        (["nowhere.gguf"], "nowhere.gguf cannot be read"),
        (["--against", "nowhere"], "is not an HTTP URL"),
        (["demo", "--rows", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (
            ["demo", "--rows", "/dev/null", "--kinds", "simple", "parallel"],
            "the kind simple, parallel",
        ),
    ],
)
def test_what_cannot_be_asked(run: Run, arguments: list[str], message: str) -> None:
    code, out, err = run("eval", *arguments)
    assert code in (ExitCode.USAGE, ExitCode.MODEL)
    assert out == ""
    assert message in err
