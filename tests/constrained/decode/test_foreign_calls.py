"""Calls in other envelopes, over the whole stack: led back to the model's own format, or kept."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from constrained.logits import TokenDrawn
from constrained.model.model import Model
from constrained.reply import Reply
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import ArgumentsDelta, CallOpened, CallRead, ContentDelta, Event, collect
from tests.constrained.decode.test_token_healing import make_vocabulary
from tests.grammars.parse.test_envelopes import ARGUMENTS, CALL, ENVELOPES
from tests.leaning_model import Leaning, lean
from tests.scripted_model import BYTES
from tests.templates import tool

PROPERTIES = {"city": {"type": "string"}, "days": {"type": "integer"}}
WEATHER = tool("get_weather", PROPERTIES, required=["city"])
NATIVE = f'get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
ASK = "How is the weather?"
ONLY_LED_BACK = [name for name in ENVELOPES if name.endswith("first") and name != "the type first"]
"""Nothing has held the arguments there, so they are written again."""
OWN = [name for name, (_, text) in ENVELOPES.items() if "<tool_call>" in text]
NAMES = [name for name in ENVELOPES if name not in OWN]
ODD_WORDS = (
    'Hi.\n```json\n{"na',
    ".\n```",
    'json\n{"',
    'me": "get_',
    "weather",
    'er", "arg',
    '": {"',
    '": "',
    '{"city"',
    '{"ci',
    'ments": {"city": "Pa',
    '"}}\n```',
    "(city=",
    '("Paris")',
    '="Par',
    "<tool",
    "s>\n{",
    "=get_weather>{",
    "=get_weather>\n<para",
)
ODD = make_vocabulary(ODD_WORDS)


def call(model: Model, envelopes: Any = "native", **options: Any) -> Reply:
    """A reply; the stream of the same request says the same, and takes nothing back."""
    reply = model.call(ASK, [WEATHER], envelopes=envelopes, **options)
    stream = model.stream(ASK, [WEATHER], envelopes=envelopes, **options)
    sent: list[Event] = [event for event in stream if not isinstance(event, CallRead)]
    content = "".join(event.text for event in sent if isinstance(event, ContentDelta))
    assert content.strip() == reply.content.strip()
    names = [event.name for event in sent if isinstance(event, CallOpened)]
    assert names == [call.name for call in reply.calls]
    if len(names) == 1:
        text = "".join(event.text for event in sent if isinstance(event, ArgumentsDelta))
        assert collect(reply_events(text, names[0])).unfinished == ""
    assert stream.result.calls == reply.calls
    assert stream.result.content == reply.content
    assert stream.result.text == reply.text
    return reply


def reply_events(text: str, name: str) -> Sequence[Event]:
    return [CallOpened(0, name), ArgumentsDelta(0, text, ())]


@pytest.mark.parametrize("vocabulary", [BYTES, ODD], ids=["bytes", "odd"])
@pytest.mark.parametrize("before", ["", "Hi.\n"])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_led_back(name: str, before: str, vocabulary: Vocabulary) -> None:
    kind, text = ENVELOPES[name]
    model = lean(Leaning(before + text, NATIVE), vocabulary=vocabulary)
    reply = call(model)
    assert [(c.name, c.arguments) for c in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert reply.content == before.strip()
    assert reply.envelopes == (kind,)
    assert reply.text.endswith(f'<tool_call>\n{{"name": "{NATIVE}')
    assert reply.usage.discarded_tokens > 0
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("vocabulary", [BYTES, ODD], ids=["bytes", "odd"])
@pytest.mark.parametrize("before", ["", "Hi.\n"])
@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_kept(name: str, before: str, vocabulary: Vocabulary) -> None:
    kind, text = ENVELOPES[name]
    native = NATIVE
    if name == "single quotes":  # those of the arguments are double ones
        native = f"get_weather', 'arguments': {ARGUMENTS}}}"
    model = lean(Leaning(before + text, native), vocabulary=vocabulary)
    reply = call(model, "kept")
    assert [(c.name, c.arguments) for c in reply.calls] == [("get_weather", {"city": "Paris"})]
    assert reply.content == before.strip()
    assert reply.envelopes == (kind,)
    if name in ONLY_LED_BACK:
        assert "<tool_call>" in reply.text
    else:
        assert reply.text.startswith(before + text.partition("city")[0].rstrip("\"'"))
        # Only tokens that have the end of the beginning are written anew, and a key after them.
        assert reply.usage.discarded_tokens <= (0 if vocabulary is BYTES else 6)


@pytest.mark.parametrize(
    "options",
    [{"envelopes": "off"}, {"tool_choice": "none"}],
    ids=["off", "none"],
)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if "</tool_call>" not in ENVELOPES[name][1]]
)
def test_where_it_is_off_all_is_text(name: str, options: dict[str, Any]) -> None:
    _, text = ENVELOPES[name]
    model = lean(Leaning(text, NATIVE))
    reply = model.call(ASK, [WEATHER], **options)
    assert reply.calls == ()
    assert reply.content == text
    assert reply.envelopes == ()


def test_an_answer_of_json_is_no_call() -> None:
    model = lean(Leaning(CALL, NATIVE))
    reply = model.call(ASK, [WEATHER], response_format={"type": "json_object"})
    assert (reply.parsed, reply.calls) == (json.loads(CALL), ())
    assert reply.envelopes == ()


def test_without_tools_all_is_text() -> None:
    for name in ("object", "fence with a language", "NAME", "<tools>"):
        text = ENVELOPES[name][1]
        reply = lean(Leaning(text, NATIVE)).call(ASK)
        assert (reply.content.strip(), reply.calls) == (text, ())


@pytest.mark.parametrize("envelopes", ["native", "kept"])
@pytest.mark.parametrize("vocabulary", [BYTES, ODD], ids=["bytes", "odd"])
def test_log_probabilities_are_those_of_the_text(envelopes: Any, vocabulary: Vocabulary) -> None:
    model = lean(Leaning(f"Hi.\n```json\n{CALL}\n```", NATIVE), vocabulary=vocabulary)
    stream = model.stream(ASK, [WEATHER], envelopes=envelopes, logprobs=1)
    drawn = [event for event in stream if isinstance(event, TokenDrawn)]
    reply = stream.result
    assert reply.calls
    assert b"".join(one.text for one in reply.logprobs).decode() == reply.text
    assert tuple(drawn) == reply.logprobs
