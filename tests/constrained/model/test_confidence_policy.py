"""Calls that the model was not sure of: the user is asked, or the model answers without them."""

import asyncio
import re
from typing import Any, Literal

import pytest

from constrained.agent.run import arun, run
from constrained.errors import RequestError
from constrained.model.confidence_policy import ConfidencePolicy, Unsure
from constrained.prompt.job import Job
from tests.constrained.model.trace.choosing_model import GREEDY, choosing
from tests.scripted_model import scripted

LIKELY = {"b": 0.2, "g": 0.5, "r": 0.3}
painted: list[str] = []


def paint(colour: Literal["blue", "green", "red"], coats: Literal[1, 2]) -> str:
    painted.append(colour)
    return "painted"


@pytest.fixture(autouse=True)
def nothing_is_painted() -> None:
    painted.clear()


def go(**options: Any) -> Any:
    given: dict[str, Any] = {"sampling": GREEDY, "max_tokens": 600} | options
    return run(choosing(LIKELY, {"1": 1}), "Go.", [paint], **given)


def test_a_question_takes_the_place_of_a_call() -> None:
    ran = go(min_confidence=0.6, unsure="ask")
    assert (ran.reason, ran.steps, painted) == ("unsure", 1, [])
    assert "paint (confidence 0.50)" in ran.detail
    assert re.fullmatch(r"[^?<{]+\?", ran.content)
    assert [call.name for call in ran.reply.unsure_calls] == ["paint"]
    assert ran.reply.usage.discarded_tokens > 0
    assert [message["role"] for message in ran.messages] == ["user", "assistant"]
    assert "tool_calls" not in ran.messages[-1]


def test_an_answer_takes_the_place_of_a_call() -> None:
    ran = go(min_confidence=0.6, unsure="decline", tool_choice="required")
    assert (ran.reason, ran.reply.calls, painted) == ("unsure", (), [])


def test_a_call_that_the_model_is_sure_of_is_made() -> None:
    for unsure in ("ask", "decline"):
        ran = go(min_confidence=0.4, unsure=unsure)
        assert (ran.reason, ran.calls[0].result) == ("stop", "painted")
        assert ran.reply.unsure_calls == ()


def test_the_same_for_asyncio() -> None:
    options: dict[str, Any] = {"min_confidence": 0.6, "unsure": "ask", "sampling": GREEDY}
    ran = asyncio.run(arun(choosing(LIKELY, {"1": 1}), "Go.", [paint], **options))
    assert ran.reply.unsure_calls[0].name == "paint"


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"unsure": "ask"}, "/unsure"),
        ({"unsure": "shout", "min_confidence": 0.5}, "/unsure"),
        ({"unsure": "ask", "min_confidence": 2}, "/min_confidence"),
        ({"unsure": "ask", "min_confidence": True}, "/min_confidence"),
        ({"min_confidence": 0.5}, "/min_confidence"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], where: str) -> None:
    with pytest.raises(RequestError) as error:
        run(scripted("x"), "Go.", [paint], **options)
    assert error.value.where == where


@pytest.mark.parametrize(("name", "left_out"), [("prefix", "prefix"), ("", "the last message")])
def test_a_question_cannot_continue_a_message(name: str, left_out: str) -> None:
    job = Job([{"role": "user", "content": "Hi"}], prefill=True, prefill_name=name)
    with pytest.raises(RequestError, match=f"or leave {left_out} out"):
        ConfidencePolicy(unsure=Unsure.ASK).change_job(job)
