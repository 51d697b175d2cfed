"""Tools that are found by a search, from any conversation."""

import json
from typing import Any

import pytest

from constrained.agent.search.tool_search import NOTHING_FOUND, ToolSearch
from constrained.errors import RequestError, TemplateError
from grammars.errors import ToolError
from tests.templates import PING, tool

BAD = tool("impossible", {"impossible": {"type": "string", "minLength": 3, "maxLength": 1}})


def get_weather(city: str) -> str:
    """The weather forecast of a city."""
    return city


def send_mail(to: str, text: str = "") -> str:
    """Sends a message by e-mail.

    Args:
        to: the address
    """
    return to + text


def conversation(search: ToolSearch, *queries: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for number, query in enumerate(queries):
        function = {"name": search.tool.name, "arguments": json.dumps({"query": query})}
        call = {"id": f"call{number}", "type": "function", "function": function}
        content = json.dumps(search.search(query))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call{number}", "content": content})
    return messages


def test_what_a_search_tells() -> None:
    search = ToolSearch([send_mail, get_weather, PING])
    assert search.search("weatherForecast") == {
        "tools": [
            {
                "name": "get_weather",
                "description": "The weather forecast of a city.",
                "parameters": {"city": "string"},
            }
        ]
    }
    assert search.find("address of the CITIES") == ["get_weather", "send_mail"]
    assert search.search("xyz") == {"tools": [], "note": NOTHING_FOUND}
    assert ToolSearch([send_mail, get_weather], top=1).find("city address") == ["get_weather"]
    assert ToolSearch([]).search("weather") == {"tools": [], "note": NOTHING_FOUND}


def test_what_was_found_is_read_from_the_messages() -> None:
    search = ToolSearch([send_mail, get_weather, PING])
    assert search.list_found(conversation(search)) == []
    found = search.list_found(conversation(search, "weather", "xyz", "mail", "weather"))
    assert [one.name for one in found] == ["get_weather", "send_mail"]


def test_only_results_of_searches_count() -> None:
    search = ToolSearch([get_weather, PING], name="find")
    messages = conversation(search, "weather")
    for content in ("", "[]", "null", '{"tools": 3}', '{"tools": [{"name": 3}, 4]}', "[" * 10_000):
        messages[2]["content"] = content
        assert search.list_found(messages) == []
    messages[2]["content"] = [{"type": "text", "text": '{"tools": [{"name": "get_weather"}]}'}]
    assert len(search.list_found(messages)) == 1
    messages[2]["content"] = '{"tools": [{"name": "rm"}]}'  # not one of these tools
    assert search.list_found(messages) == []
    messages = conversation(search, "weather")
    messages[1]["tool_calls"][0]["function"]["name"] = "ping"  # another tool that says the same
    assert search.list_found(messages) == []
    messages[1]["tool_calls"] = [3, {"id": 1}, {"id": "call0"}]
    assert search.list_found(messages) == []
    with pytest.raises(TemplateError):
        search.list_found([{"content": "no role"}])


def test_a_tool_that_cannot_be_enforced_is_told_and_not_found() -> None:
    search = ToolSearch([BAD, PING])
    result = search.search("impossible")
    assert result["tools"] == []
    assert "impossible" in result["refused"]
    assert search.list_found(conversation(search, "impossible")) == []


def test_a_rank_of_the_user() -> None:
    asked: list[str] = []

    def rank(query: str) -> list[str]:
        asked.append(query)
        return ["ping", "send_mail", "ping", "get_weather"]

    search = ToolSearch([get_weather, send_mail, PING], rank=rank, top=2)
    assert search.find("x y") == ["ping", "send_mail"]
    assert asked == ["x y"]
    with pytest.raises(ToolError, match="'nobody', which is not a tool"):
        ToolSearch([PING], rank=lambda query: ["nobody"]).find("x")


def test_what_cannot_be_searched() -> None:
    with pytest.raises(ToolError, match="two tools are called 'ping'") as two:
        ToolSearch([PING, get_weather, PING | {"strict": True}])
    assert two.value.where == "/search_tools/2"
    with pytest.raises(ToolError, match="search_tools") as same:
        ToolSearch([tool("search_tools")])
    assert same.value.where == "/search_tools"
    with pytest.raises(ToolError) as no_tool:
        ToolSearch([PING, 3])
    assert no_tool.value.where == "/search_tools/1"
    with pytest.raises(RequestError):
        ToolSearch([PING], top=0)
