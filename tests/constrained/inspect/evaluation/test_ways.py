"""What is asked in which way: over the whole stack, with models that write what they are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.inspect.chat_server import ChatServer
from constrained.inspect.evaluation.asking import (
    Asker,
    Messages,
    ModelAnswer,
    Tools,
    WayName,
    WrittenCall,
)
from constrained.inspect.evaluation.kept_answers import KeptAnswers
from constrained.inspect.evaluation.run import EvaluationPlan
from constrained.inspect.evaluation.ways import (
    AskOptions,
    make_model_askers,
    make_server_askers,
    read_calls,
)
from tests.leaning_model import Leaning, lean
from tests.scripted_model import failing, scripted
from tests.server.running_server import running
from tests.templates import tool

WEATHER: Tools = [tool("get_weather", {"city": {"type": "string"}}, required=["city"])]
ASK: Messages = [{"role": "user", "content": "How is the weather in Paris?"}]
PARIS = WrittenCall("get_weather", {"city": "Paris"})
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
NATIVE = f"<tool_call>\n{CALL}\n</tool_call>"
AGAIN: Messages = [
    *ASK,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": "get_weather", "arguments": {"city": "Paris"}},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_0", "content": "sunny"},
]


def test_models_are_called_by_their_files_and_those_of_ollama_as_there(tmp_path: Path) -> None:
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:1"}
    manifest = tmp_path / "manifests/registry.ollama.ai/library/tiny/1b"
    blob = tmp_path / "blobs/sha256-1"
    for path in (manifest, blob):
        path.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"layers": [layer]}))
    blob.touch()
    files = [blob, Path("a/m.gguf"), Path("b/m.gguf"), Path("n.gguf"), blob]
    plan = EvaluationPlan(files, [None], [], [], [], AskOptions())
    assert [name for *_, name in plan.list_files()] == [
        *("tiny:1b", "a/m.gguf", "b/m.gguf", "n.gguf")
    ]


def make_askers(model: Any, **options: Any) -> dict[tuple[str, str], Asker]:
    """Returns who asks a model, by way and tool choice."""
    name = {"name": "scripted", "sha256": ""}
    kept = KeptAnswers(None, {})
    askers = make_model_askers(model, name, kept, AskOptions(**options), subject="scripted")
    return {(way.name, way.choice): ask for way, ask in askers.items()}


def test_a_call_in_a_fence_is_none_to_a_strict_parser() -> None:
    with lean(
        Leaning(f"```json\n{CALL}\n```", 'get_weather", "arguments": {"city": "Paris"}}')
    ) as m:
        askers = make_askers(m)
        assert [*askers] == [
            *(("free", ""), ("free, read", ""), ("masked", "auto"), ("masked", "required"))
        ]
        answers = {way: ask(ASK, WEATHER) for way, ask in askers.items()}
    calls = {way: answer.calls for way, answer in answers.items()}
    assert calls["free", ""] == ()
    assert answers["free", ""].text == f"```json\n{CALL}\n```"
    assert calls["free, read", ""] == calls["masked", "auto"] == (PARIS,)
    assert calls["masked", "required"] == (PARIS,)
    assert answers["free, read", ""].seconds == answers["free", ""].seconds > 0
    assert answers["masked", "auto"].confidence is not None
    assert answers["free", ""].confidence is None


@pytest.mark.parametrize(
    ("text", "strict", "read"),
    [
        (NATIVE, (PARIS,), (PARIS,)),
        (NATIVE + "\n" + NATIVE, (PARIS, PARIS), (PARIS, PARIS)),
        ("It is sunny.", (), ()),
        (NATIVE.replace('"Paris"', "'Paris'"), None, (PARIS,)),
    ],
)
def test_a_strict_parser_and_the_reader(text: str, strict: Any, read: Any) -> None:
    with scripted(text) as model:
        askers = make_askers(model, ways=["free"])
        found = askers["free", ""](ASK, WEATHER)
        assert askers["free, read", ""](ASK, WEATHER).calls == read
    if strict is None:
        assert found.calls != read
    else:
        assert found.calls == strict
    assert not found.cut


def test_answers_that_are_cut() -> None:
    with scripted("It is sunny in Paris.") as model:
        askers = make_askers(model, ways=["free", "masked"], choices=["auto"], max_tokens=5)
        answers = [ask(ASK, WEATHER) for ask in askers.values()]
    assert [answer.cut for answer in answers] == [True] * 3
    assert [answer.tokens for answer in answers] == [5] * 3


def test_at_most_one_call_if_several_are_not_allowed() -> None:
    with scripted(f"{NATIVE}\n{NATIVE.replace('Paris', 'Rome')}") as model:
        both = make_askers(model)["masked", "auto"](ASK, WEATHER)
        one = make_askers(model, parallel=False)["masked", "auto"](ASK, WEATHER)
    assert [call.arguments["city"] for call in both.calls] == ["Paris", "Rome"]
    assert one.calls == (PARIS,)


def test_after_a_result_a_model_that_must_call_may_answer() -> None:
    with scripted(NATIVE, "It is sunny.") as model:
        ask = make_askers(model)["masked", "required"]
        assert ask(ASK, WEATHER).calls == (PARIS,)
        answer = ask(AGAIN, WEATHER)
    assert (answer.calls, answer.text) == ((), "It is sunny.")


def test_an_error_of_a_request_is_an_answer() -> None:
    with scripted(NATIVE) as model:
        for ask in make_askers(model).values():
            answer = ask([{"role": "nobody", "content": "Hi"}], WEATHER)
            assert answer.error
            assert answer.calls == ()


def test_an_engine_that_fails_ends_the_evaluation() -> None:
    with failing(NATIVE, at=3) as model:
        ask = make_askers(model)["masked", "auto"]
        with pytest.raises(Exception, match="the device is lost"):
            ask(ASK, WEATHER)


def ask_server(url: str, choice: str, messages: Messages) -> ModelAnswer:
    kept = KeptAnswers(None, {})
    askers = make_server_askers(ChatServer(url), "demo", kept, AskOptions(), subject=url)
    [ask] = [ask for way, ask in askers.items() if way.choice == choice]
    assert {way.name for way in askers} == {WayName.SERVED}
    return ask(messages, WEATHER)


def test_a_server_is_asked() -> None:
    with running(scripted(NATIVE, "It is sunny.")) as client:
        url = str(client.base_url)
        found = ask_server(url, "required", ASK)
        assert (found.calls, found.error, found.cut) == ((PARIS,), "", False)
        assert found.tokens > 0
        assert found.seconds > 0
        then = ask_server(url, "required", AGAIN)
        assert (then.calls, then.text) == ((), "It is sunny.")
        assert ask_server(url, "auto", [{"role": "user", "content": 3}]).error.startswith(
            "status 4"
        )


def test_calls_of_a_server_are_read() -> None:
    call = {"function": {"name": "get_weather", "arguments": json.dumps(PARIS.arguments)}}
    broken = {"function": {"name": "get_weather", "arguments": '{"city'}}
    assert read_calls([call, broken]) == (PARIS, WrittenCall("get_weather", '{"city'))
    deep = {"function": {"name": "get_weather", "arguments": '{"city": ' + "[" * 100_000}}
    [found] = read_calls([deep])
    assert found.arguments == deep["function"]["arguments"]
