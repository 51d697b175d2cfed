"""llm, the command-line program: prompts, tools, schemas and a conversation that goes on."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import report
from report import QUESTION, scenario

PROGRAM = Path(sys.executable).with_name("llm")
MODEL = f"""\
- model_id: demo
  model_name: demo
  api_base: {report.URL}/v1
  supports_tools: true
  supports_schema: true
"""
TOOL = f"""\
def get_weather(city: str, day: str, unit: str) -> str:
    "Get the weather forecast for a city."
    return {report.TOLD!r}
"""
OPTIONS = ("-m", "demo", "-o", "temperature", "0", "-o", "max_tokens", "300")
home = Path(tempfile.mkdtemp(prefix="llm-"))
(home / "extra-openai-models.yaml").write_text(MODEL)
(home / "tool.py").write_text(TOOL)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LLM_USER_PATH": str(home)}
    return subprocess.run(
        [str(PROGRAM), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ask(*arguments: str) -> str:
    done = run(*OPTIONS, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@scenario
def plain() -> Any:
    streamed, whole = ask(report.GREETING), ask("--no-stream", report.GREETING)
    assert streamed
    assert streamed == whole
    return whole


@scenario
def round_trip() -> Any:
    answers = list[str]()
    for mode in ("--stream", "--no-stream"):
        given = [] if mode == "--stream" else [mode]
        answers.append(ask(*given, "--functions", str(home / "tool.py"), QUESTION))
    assert all("14" in answer for answer in answers), answers
    return answers


@scenario
def round_trip__typed() -> Any:
    day = json.loads(ask("--schema", "city, rainy bool", QUESTION))
    assert set(day) == {"city", "rainy"}, day
    return day


@scenario
def round_trip__conversation() -> Any:
    ask(report.GREETING)
    return ask("-c", report.GREETING)


@scenario
def error() -> Any:
    done = run(*OPTIONS, "-o", "stop", "x" * 20_000, report.GREETING)
    assert done.returncode != 0
    assert "1,000" in done.stderr, done.stderr
    return done.returncode


report.main()
