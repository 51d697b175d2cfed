"""Histories as clients send them: ids of other servers, results without calls, odd arguments."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constrained.errors import TemplateError
from constrained.inspect.replay.replay_context import read_context
from constrained.model.compile.compiler import Compiler
from constrained.model_files.embedded import PATH
from constrained.prompt.job import Job
from constrained.prompt.template.result_calls import match_results
from tests.real_templates import real_templates

NAMES = (
    "google-gemma-4-31B-it",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "openai-gpt-oss-120b",
    "Qwen3-Coder",
    "Kimi-K3",
)
Json = dict[str, Any]
IDS = st.sampled_from([None, "", "call_1", "toolu_01A09q90qw90lq917835lq9", "abcdefgh1", 7])
ARGUMENTS = st.sampled_from(["", None, "null", "None", '{"city": "Rome"}{"city": "Rome"}', {}])


@lru_cache
def compiler(name: str) -> Compiler:
    """The compiler of the demo vocabulary with a template of llama.cpp's."""
    vocabulary = read_context({"model": str(PATH)}).vocabulary
    return Compiler(vocabulary, real_templates()[name])


def call(id: Any, arguments: Any, name: str = "gone") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def result(id: Any, content: Any = "It is sunny") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": content}


@st.composite
def histories(draw: st.DrawFn) -> Sequence[Json]:
    """Questions, calls of tools that are not offered, and results of any calls."""
    messages: list[Json] = [{"role": "user", "content": "Question 0"}]
    for number in range(draw(st.integers(1, 2))):
        calls = draw(st.lists(st.builds(call, IDS, ARGUMENTS), max_size=1))
        if calls:
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        for place in range(draw(st.integers(0, 2))):
            messages.append(result(draw(IDS), f"Result {number}{place}"))
        messages.append({"role": "user", "content": f"Question {number + 1}"})
    return messages


TWICE: list[Json] = [
    {"role": "user", "content": "Question 0"},
    {"role": "assistant", "content": None, "tool_calls": [call("call_1", "")]},
    result(None, "Result 00"),
    result("call_1", "Result 01"),
    {"role": "user", "content": "Question 1"},
]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(messages=histories())
@example(messages=TWICE)
def test_every_history_is_rendered_with_all_texts(name: str, messages: Sequence[Json]) -> None:
    prompt = compiler(name).compile(Job(messages)).prompt.text
    for message in messages:
        assert message["content"] is None or message["content"] in prompt


@pytest.mark.parametrize("name", NAMES)
def test_cut_arguments_are_text_or_an_error_with_the_place(name: str) -> None:
    turn = {"role": "assistant", "content": None, "tool_calls": [call("c", '{"city": "Par')]}
    job = Job([{"role": "user", "content": "Hi"}, turn, result("c")])
    if name in ("google-gemma-4-31B-it", "Qwen3-Coder"):
        with pytest.raises(TemplateError, match=name) as info:
            compiler(name).compile(job)
        assert info.value.where == "/messages/1/tool_calls/0/function/arguments"
    else:
        assert "Par" in compiler(name).compile(job).prompt.text


def test_results_belong_to_the_call_of_their_id_or_the_next_one() -> None:
    calls = {"role": "assistant", "tool_calls": [call(id, {}) for id in ("a", "b", "b")]}
    results = [result(id) for id in ("x", "b", "b", "a", None)]
    assert match_results([calls, *results]) == [None, None, 1, 2, 0, None]
    assert match_results([result("a"), calls, result("x"), result("b")]) == [None, None, 0, 1]
