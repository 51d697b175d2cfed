"""What a model, a reply and a call show of themselves."""

from typing import Any

from constrained.decode.request import Usage
from constrained.model.reply import Reply
from grammars.schema.nodes import Violation
from grammars.turn import ToolCall
from tests.scripted_model import scripted

CALL = ToolCall("get_weather", {"city": "Paris"}, id="call_1")


def test_a_call_shows_what_it_has() -> None:
    assert repr(ToolCall("ping", {})) == "ToolCall('ping', {})"
    assert repr(CALL) == "ToolCall('get_weather', {'city': 'Paris'}, id='call_1')"
    unfit = ToolCall("ping", {}, errors=(Violation("/name", "not offered"),), truncated=True)
    assert "not offered" in repr(unfit)
    assert repr(unfit).endswith("truncated=True)")


def test_a_model_shows_its_format_and_its_context() -> None:
    shown = repr(scripted("hi"))
    assert shown == "<Model chat template: tool format hermes, context 20000, sequences 8>"


def make_reply(**parts: Any) -> Reply:
    whole: dict[str, Any] = {"content": "", "reasoning": "", "calls": ()}
    whole |= {"unfinished": "", "text": "raw"}
    return Reply(finish_reason="stop", usage=Usage(7, 3, 1), **(whole | parts))


def test_a_reply_leaves_out_what_is_empty() -> None:
    assert repr(make_reply()) == "Reply(finish_reason='stop', 3 tokens)"
    text = repr(make_reply(content="Sunny.", calls=(CALL,), parsed=False))
    assert text.startswith("Reply(content='Sunny.', calls=(ToolCall('get_weather'")
    assert "parsed=False" in text
    assert "raw" not in text


def test_a_notebook_shows_the_parts() -> None:
    shown = make_reply(content="Sunny.", reasoning="Look.", calls=(CALL,))._repr_markdown_()
    assert shown.index("Look.") < shown.index("Sunny.") < shown.index('"city": "Paris"')
    assert shown.endswith("*stop, 7 + 3 tokens*")
