"""Turns of templates whose calls and reasoning block depend on a variable of the request."""

from typing import Any

import pytest

from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import Vocabulary, byte_vocabulary
from constrained.errors import RequestError
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import Start
from tests.constrained.prompt.format_selection.kwargs_template import EFFORTS, SOURCE
from tests.scripted_model import BYTES, scripted
from tests.templates import PAINT, tool

WEATHER = tool("get_weather", {"city": {"type": "string"}})
TAGS = byte_vocabulary(["<muse>", "</muse>", "<muse_brief>", "</muse_brief>", "<do>", "</do>"])
BRIEF = {"depth": "brief"}
BY_NAME = '<do>{"name": "get_weather", "arguments": {"city": "Rome"}}</do>'
BY_KEYS = "<do get_weather><key city>Rome</key></do>"


def say(text: str, vocabulary: Vocabulary = BYTES) -> Model:
    engine = ScriptedEngine(vocabulary, scripted_logits(vocabulary, text), context_length=20_000)
    return Model(engine, ChatTemplate(SOURCE))


@pytest.mark.parametrize("vocabulary", [BYTES, TAGS], ids=["text", "tokens"])
def test_the_block_that_the_prompt_opens_is_closed(vocabulary: Vocabulary) -> None:
    with say("hm</muse_brief>Sunny.", vocabulary) as model:
        reply = model.call("Hi", [WEATHER], template_kwargs=BRIEF)
    assert (reply.reasoning, reply.content) == ("hm", "Sunny.")


@pytest.mark.parametrize("vocabulary", [BYTES, TAGS], ids=["text", "tokens"])
def test_a_required_call_comes_after_the_thought(vocabulary: Vocabulary) -> None:
    with say(f"hm</muse_brief>{BY_NAME}", vocabulary) as model:
        reply = model.call("Hi", [WEATHER], tool_choice="required", template_kwargs=BRIEF)
    assert reply.reasoning == "hm"
    assert [call.arguments for call in reply.calls] == [{"city": "Rome"}]


@pytest.mark.parametrize(("syntax", "text"), [("keys", BY_KEYS), ("json", BY_NAME)])
def test_the_mask_has_the_calls_of_the_prompt(syntax: str, text: str) -> None:
    with say(f"hm</muse>{text}") as model:
        reply = model.call(
            "Hi", [WEATHER], tool_choice="required", template_kwargs={"syntax": syntax}
        )
    assert reply.text == f"hm</muse>{text}"
    assert [call.arguments for call in reply.calls] == [{"city": "Rome"}]


def test_other_requests_are_compiled_as_ever() -> None:
    with say("") as model:
        compiler = model.compiler
        for kwargs in ({}, {"depth": "none"}, {"unread": 1}):
            turn = model.compile(_job(kwargs))
            assert turn.format is compiler.format
        turn = model.compile(_job(BRIEF))
        assert turn.format is not compiler.format
        assert turn.state.start is Start.OPEN
        assert compiler.knows(_job(BRIEF))
        assert not compiler.knows(_job({"depth": 5}))


def test_formats_with_tokens_of_their_own_are_few() -> None:
    prompt = "{% if add_generation_prompt %}<|assistant|><{{ depth or 'muse' }}>{% endif %}"
    source = SOURCE.replace(EFFORTS, prompt)
    names = [f"muse_{i}" for i in range(9)]
    tags = [f"<{slash}{name}>" for name in names for slash in ("", "/")]
    vocabulary = byte_vocabulary(["<muse>", "</muse>", *tags])
    with scripted("", source=source, vocabulary=vocabulary) as model:
        for name in names:
            turn = model.compile(_job({"depth": name}, tool_choice="required"))
            assert turn.format.reasoning is not None
            assert turn.format.reasoning.closer.text == f"</{name}>"
            assert turn.markers.keys() >= {"<muse>", "</muse>", f"<{name}>", f"</{name}>"}
        assert len(model.compiler._grammars._own) == 4  # pyright: ignore[reportPrivateUsage]
        assert model.compiler.measure_caches()["matchers"].count > 0
        model.compiler.forget()


def test_a_value_that_nothing_explains_is_refused() -> None:
    with say("") as model, pytest.raises(RequestError, match="unknown tag") as e:
        model.compile(_job({"depth": "odd"}))
    assert e.value.where == "/chat_template_kwargs/depth"


def test_markers_in_a_value_are_text() -> None:
    with scripted("", source="{{ title }}" + SOURCE, vocabulary=TAGS) as model:
        turn = model.compile(_job({"depth": "brief", "title": "<muse>"}))
        assert turn.prompt.text.startswith("<muse>")
        assert turn.tokens.count(TAGS.marker("<muse>") or 0) == 0


def _job(kwargs: dict[str, Any], **options: Any) -> Job:
    messages = [{"role": "user", "content": "Hi"}]
    return Job(messages, [WEATHER, PAINT], template_kwargs=kwargs, **options)
