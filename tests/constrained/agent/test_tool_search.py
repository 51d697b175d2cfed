"""Runs that find their tools: what was found may be called, and the prompt stays cached."""

import asyncio
import json
from typing import Any

import pytest

from constrained.agent.finished_run import Reason
from constrained.agent.run import arun, run
from constrained.agent.search.tool_search import NOTHING_FOUND, ToolSearch
from constrained.engine.protocol import Sampling
from constrained.prompt.tools.execution import Outcome
from grammars.errors import ToolError
from tests.scripted_model import scripted
from tests.templates import HERMES, PING, QWEN3_CODER, hermes_call

GREEDY = Sampling(temperature=0)


def get_weather(city: str) -> str:
    """The weather forecast of a city."""
    return f"rain in {city}"


def send_mail(to: str) -> str:
    """Sends a mail."""
    return f"sent to {to}"


def search_for(query: str) -> str:
    return hermes_call("search_tools", json.dumps({"query": query}))


WEATHER = hermes_call("get_weather", '{"city": "Rome"}')
MAIL = hermes_call("send_mail", '{"to": "Ann"}')
SCRIPTS = (search_for("weather"), WEATHER, search_for("send mail"), MAIL, "Done.")


def test_a_run_finds_its_tools_and_keeps_its_prompt() -> None:
    search = ToolSearch([get_weather, send_mail])
    ran = run(scripted(*SCRIPTS), "Go.", [], search_tools=search, sampling=GREEDY)
    assert (ran.reason, ran.content, ran.steps) == (Reason.STOP, "Done.", 5)
    assert [made.outcome for made in ran.calls] == [Outcome.DONE] * 4
    assert [made.content for made in ran.calls][1::2] == ["rain in Rome", "sent to Ann"]
    again = asyncio.run(arun(scripted(*SCRIPTS), "Go.", [], search_tools=search, sampling=GREEDY))
    assert again.messages == ran.messages
    before = run(scripted(*SCRIPTS), "Go.", [], search_tools=search, sampling=GREEDY, max_steps=4)
    read = before.reply.usage  # in the last turn, all but the last result and what opens the turn
    assert read.prompt_tokens - read.cached_tokens < read.prompt_tokens / 4


def test_only_what_was_found_may_be_called() -> None:
    options: dict[str, Any] = {"sampling": GREEDY, "search_tools": [get_weather, send_mail]}
    ran = run(scripted(WEATHER), "Go.", [], **options, max_tokens=100)
    assert "get_weather" not in ran.reply.text
    assert {made.call.name for made in ran.calls} <= {"search_tools"}
    messages = run(scripted(*SCRIPTS), "Go.", [], **options, max_steps=1).messages
    found = run(scripted(WEATHER), messages, [], **options, max_steps=1)
    assert found.calls[0].content == "rain in Rome"
    missed = run(scripted(MAIL), messages, [], **options, max_steps=1)
    assert "send_mail" not in {call.name for call in missed.reply.calls}


def test_tools_that_are_always_there_stand_beside() -> None:
    ping = hermes_call("ping")
    ran = run(scripted(ping), "Go.", [PING], search_tools=[get_weather], sampling=GREEDY)
    assert [call.name for call in ran.pending] == ["ping"]
    for tools in ([get_weather], [ToolSearch([]).tool]):
        with pytest.raises(ToolError, match="two tools are called"):
            run(scripted("Hi."), "Go.", tools, search_tools=[get_weather])
    with pytest.raises(ToolError) as no_list:
        run(scripted("Hi."), "Go.", [], search_tools=3)
    assert no_list.value.where == "/search_tools"


def test_a_search_that_finds_nothing_is_answered() -> None:
    ran = run(
        scripted(search_for("xyz"), "I cannot."), "Go.", [], search_tools=[PING], sampling=GREEDY
    )
    assert (ran.reason, ran.content) == (Reason.STOP, "I cannot.")
    assert json.loads(ran.calls[0].content) == {"tools": [], "note": NOTHING_FOUND}
    stuck = run(scripted(search_for("xyz")), "Go.", [], search_tools=[PING], sampling=GREEDY)
    assert stuck.reason is Reason.REPEATED


def test_found_tools_stay_where_old_results_are_dropped() -> None:
    ran = run(
        scripted(search_for("weather"), search_for("mail"), search_for("xyz"), WEATHER, "Done."),
        "Go.",
        [],
        search_tools=[get_weather, send_mail],
        sampling=GREEDY,
        max_context=10,
    )
    assert ran.dropped
    assert ran.calls[3].content == "rain in Rome"


def test_hidden_tools_of_a_run_are_executed() -> None:
    ran = run(scripted(WEATHER, "Done."), "Go.", [], hidden_tools=[get_weather], sampling=GREEDY)
    assert ran.calls[0].content == "rain in Rome"


@pytest.mark.parametrize("source", [HERMES, QWEN3_CODER])
def test_a_conversation_goes_on_with_what_was_found(source: str) -> None:
    scripts = _write_scripts(source)
    options: dict[str, Any] = {"sampling": GREEDY, "search_tools": ToolSearch([get_weather], top=1)}
    began = scripted(*scripts, source=source).run("Go.", [PING], max_steps=1, **options)
    assert began.reason is Reason.MAX_STEPS
    ended = scripted(*scripts, source=source).run(began.messages, [PING], max_steps=1, **options)
    assert [made.content for made in ended.calls] == ["rain in Rome"]


def _write_scripts(source: str) -> list[str]:
    if source == QWEN3_CODER:
        return [_tag(text) for text in SCRIPTS]
    return [*SCRIPTS]


def _tag(text: str) -> str:
    """A call of Hermes in the format of Qwen3-Coder."""
    if "<tool_call>" not in text:
        return text
    body = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    parameters = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in body["arguments"].items()
    )
    return f"<tool_call>\n<function={body['name']}>\n{parameters}</function>\n</tool_call>"


def test_a_search_by_a_function() -> None:
    search = ToolSearch([send_mail, get_weather], rank=lambda query: ["get_weather"])
    ran = scripted(*SCRIPTS).run("Go.", [], max_steps=2, search_tools=search, sampling=GREEDY)
    assert ran.calls[1].content == "rain in Rome"
