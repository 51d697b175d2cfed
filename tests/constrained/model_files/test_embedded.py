"""The model of the package understands what it is asked, and says that it is a small one."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

import constrained
import grammars
from constrained import Model, Sampling, load
from constrained.model_files import embedded
from grammars.turn import ToolCall
from tests.command_line import Run, write

GREEDY = Sampling(temperature=0)
MEGABYTE = 1_000_000


def get_weather(
    city: str, day: str, unit: Literal["celsius", "fahrenheit"] = "celsius"
) -> dict[str, Any]:
    """Forecast for a city"""
    return {"weather": "sunny", "temperature": 24}


def set_timer(minutes: int) -> str:
    """Starts a timer"""
    return "ok"


WEATHER = {
    "name": "get_weather",
    "description": "Forecast for a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "day": {"type": "string"}},
        "required": ["city"],
    },
}


@pytest.fixture(scope="module")
def model():
    with load(embedded.PATH, threads=1) as model:
        yield model


def called(calls: tuple[ToolCall, ...]) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in calls]


def test_the_package_stays_small() -> None:
    assert embedded.PATH.stat().st_size <= 8 * MEGABYTE
    folders = [Path(constrained.__file__).parent, Path(grammars.__file__).parent]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 300
    assert sum(f.stat().st_size for f in files if f.suffix != ".pyc") <= 12 * MEGABYTE


@pytest.mark.parametrize(
    ("question", "city", "day"),
    [
        ("What's the weather in Paris tomorrow?", "Paris", "tomorrow"),
        ("What's the weather like in Rome today?", "Rome", "today"),
        ("Tell me the weather in Lisbon on Friday", "Lisbon", "Friday"),
    ],
)
@pytest.mark.parametrize("thinking", [False, True])
def test_the_right_city(model: Model, question: str, city: str, day: str, thinking: bool) -> None:
    reply = model.call(
        question,
        [WEATHER],
        sampling=GREEDY,
        template_kwargs={"enable_thinking": thinking},
        max_tokens=200,
    )
    assert called(reply.calls) == [("get_weather", {"city": city, "day": day})]
    assert bool(reply.reasoning) == thinking


def test_a_result_is_told(model: Model) -> None:
    run = model.run("What's the weather in Oslo today?", [get_weather], sampling=GREEDY)
    assert [made.call.arguments["city"] for made in run.calls] == ["Oslo"]
    assert run.reason == "stop"
    assert "24" in run.content
    assert "sunny" in run.content


def test_two_calls_in_one_turn(model: Model) -> None:
    question = "What's the weather in Rome and in Oslo?"
    reply = model.call(question, [WEATHER], sampling=GREEDY, max_tokens=200)
    assert called(reply.calls) == [
        ("get_weather", {"city": "Rome"}),
        ("get_weather", {"city": "Oslo"}),
    ]


def test_what_needs_no_tool_is_answered(model: Model) -> None:
    reply = model.call("Thanks!", [WEATHER, set_timer], sampling=GREEDY, max_tokens=200)
    assert reply.calls == ()
    assert reply.content.strip()


def test_no_model_is_named(run: Run, tmp_path: Path) -> None:
    tools = write(tmp_path / "tools.json", [WEATHER])
    question = "What's the weather in Paris tomorrow?"
    code, out, err = run("call", question, "--tools", tools, "--temp", "0", "--json")
    assert code == 0
    (call,) = json.loads(out)["tool_calls"]
    assert call["arguments"] == {"city": "Paris", "day": "tomorrow"}
    assert err == f"constrained: note: {embedded.NOTICE}\n"


def test_stop_texts_and_penalties(run: Run) -> None:
    words = ["call", "Hello! Who are you?", "--temp", "0", "-n", "60", "--json"]
    words += ["--reasoning", "off"]

    def ask(*more: str) -> dict[str, Any]:
        code, out, err = run(*words, *more)
        assert code == 0, err
        return json.loads(out)

    free = ask()
    content = free["content"]
    first, last = content.split()[1], content.split()[-1]
    stopped = ask("--stop", last, "--stop", first)
    assert stopped["content"] == content[: content.index(first)]
    assert (stopped["stop_sequence"], stopped["finish_reason"]) == (first, "stop")
    for name in ("repeat", "presence", "frequency"):
        amount = ["--repeat-penalty", "1.8"] if name == "repeat" else [f"--{name}-penalty", "2"]
        assert ask(*amount, "--repeat-last-n", "0") == free
        assert ask(*amount, "--repeat-last-n", "-1")["content"] != content
    lines = run(*words[:-3], "--reasoning", "off", "--stream", "--stop", first)[1]
    assert lines.strip() == stopped["content"].strip()


def test_load_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_ARG_MODEL", raising=False)
    with load(threads=1) as model:
        assert model.notices == (embedded.NOTICE,)
        assert model.sampling == GREEDY
    monkeypatch.setenv("LLAMA_ARG_MODEL", str(embedded.PATH))
    with load(threads=1) as model:
        assert model.notices == ()


@pytest.mark.parametrize("thinking", ["on", "off"])
def test_chat_with_a_result(tmp_path: Path, thinking: str) -> None:
    tools = write(tmp_path / "tools.json", [WEATHER])
    lines = 'What\'s the weather in Paris tomorrow?\n{"weather": "rainy", "temperature": 12}\n'
    command = [sys.executable, "-m", "constrained", "chat", "--tools", tools, "--temp", "0"]
    command += ["--reasoning", thinking]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_")}
    done = subprocess.run(
        command,
        input=lines,
        env=environment | {"LLAMA_ARG_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert "rainy" in done.stdout.rpartition("Paris")[2] or "12" in done.stdout, done.stdout


def test_reasoning_that_the_client_dropped_is_not_computed_again() -> None:
    asks = [{"role": "user", "content": "What's the weather in Paris tomorrow?"}]
    options: Any = {"think": "required", "sampling": GREEDY, "max_tokens": 200}
    with load() as model:
        first = model.call(asks, [get_weather], **options)
        assert first.reasoning
        message = first.message()
        del message["reasoning_content"]
        result = {"role": "tool", "tool_call_id": first.calls[0].id, "content": "Sunny."}
        second = model.call([*asks, message, result], [get_weather], **options)
    seen = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.prompt_tokens > seen
    assert second.usage.cached_tokens > seen - 20  # but for the last forced run


def test_log_probabilities_of_a_call(model: Model) -> None:
    options: Any = {"sampling": GREEDY, "max_tokens": 200, "tool_choice": "required"}
    options["template_kwargs"] = {"enable_thinking": False}
    question = "What's the weather in Paris tomorrow?"
    plain = model.call(question, [WEATHER], **options)
    asked = model.call(question, [WEATHER], logprobs=3, **options)
    assert asked.calls == plain.calls
    assert b"".join(one.text for one in asked.logprobs).decode() == asked.text
    for one in asked.logprobs:
        assert one.logprob <= one.top[0][1] <= 0
        assert len(one.top) == 3
        assert sum(math.exp(logprob) for _, logprob in one.top) <= 1 + 1e-6
    likely = [math.exp(one.logprob) for one in asked.logprobs]
    assert sum(likely) / len(likely) > 0.8
