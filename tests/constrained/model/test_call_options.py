"""Options of calls as users write them: fields of the sampling, tools by name, values that were
cut."""

import asyncio
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from constrained import Model, ReplyError, RequestError, Sampling, load
from constrained.engine.sampling import SamplingOptions
from constrained.model.cut_values import advise_limit
from grammars.errors import PolicyError
from grammars.schema.pointers import find_value
from tests.scripted_model import scripted


def get_weather(city: str) -> str:
    """Forecast for a city"""
    return "sunny"


def auto() -> str:
    """A tool with the name of a choice"""
    return "ok"


@pytest.fixture(scope="module")
def model():
    with load("demo", threads=1) as model:
        yield model


def test_each_field_of_the_sampling_is_an_option() -> None:
    assert get_type_hints(SamplingOptions) == get_type_hints(Sampling)


def call(model: Model, **options: Any) -> str:
    return model.call("Tell me something.", **options).text


def stream(model: Model, **options: Any) -> str:
    return model.stream("Tell me something.", **options).result.text


def run(model: Model, **options: Any) -> str:
    return model.run("Tell me something.", [], **options).reply.text


def acall(model: Model, **options: Any) -> str:
    return asyncio.run(model.acall("Tell me something.", **options)).text


def generate(model: Model, **options: Any) -> str:
    return model.generate("Tell me something.", regex="[a-z ]{30}", **options)


@pytest.mark.parametrize("ask", [call, stream, run, acall, generate])
def test_fields_of_the_sampling_are_options(model: Model, ask: Callable[..., str]) -> None:
    limits = {"max_tokens": 40}
    seeded: dict[str, Any] = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "seed": 7}
    assert ask(model, **seeded, **limits) == ask(model, sampling=Sampling(**seeded), **limits)
    greedy = ask(model, sampling=Sampling(temperature=0), **limits)
    assert ask(model, temperature=0, **limits) == greedy
    assert ask(model, **seeded, **limits) != greedy


def test_other_fields_keep_what_the_model_recommends() -> None:
    model = scripted("Hi.")
    model.sampling = Sampling(temperature=0.1, top_k=3)
    job_options = model._read_call("Hi", None, {"top_p": 0.5}).options
    assert job_options.decode.sampling == Sampling(temperature=0.1, top_k=3, top_p=0.5)


def test_a_sampling_and_one_of_its_fields(model: Model) -> None:
    with pytest.raises(RequestError, match="temperature is given beside sampling") as failure:
        model.call("Hi", sampling=Sampling(top_k=3), temperature=0)
    assert failure.value.where == "/temperature"
    with pytest.raises(RequestError, match="top_p is 2"):
        model.call("Hi", top_p=2)


def test_a_tool_is_chosen_by_its_name(model: Model) -> None:
    tools = [get_weather, auto]
    for choice in ("get_weather", {"type": "function", "function": {"name": "get_weather"}}):
        reply = model.call("Hello!", tools, tool_choice=choice, max_tokens=60)
        assert [made.name for made in reply.calls] == ["get_weather"]
    made = model.run("Hello!", tools, tool_choice="get_weather", max_tokens=60, max_steps=1)
    assert [one.call.name for one in made.calls] == ["get_weather"]
    named = {"type": "function", "function": {"name": "auto"}}
    assert model.call("Hello!", tools, tool_choice=named).calls[0].name == "auto"
    assert model.call("Thanks!", tools, tool_choice="auto", max_tokens=60).calls == ()


def test_a_name_that_no_tool_has(model: Model) -> None:
    with pytest.raises(PolicyError, match="unknown tool 'get_wether'") as failure:
        model.call("Hello!", [get_weather, auto], tool_choice="get_wether")
    assert failure.value.hint == "Offered: get_weather, auto"


class Report(BaseModel):
    title: str
    chapters: list[dict[str, str]]


def test_a_cut_value_names_the_field_that_took_the_tokens() -> None:
    text = '{"title": "A", "chapters": [{"text": "' + "on and on and " * 40
    model = scripted(text)
    with pytest.raises(ReplyError, match="the tokens ran out") as failure:
        model.generate("Go.", schema=Report, max_tokens=400, max_repetition=None)
    assert failure.value.hint is not None
    assert "/chapters/0/text took most of the tokens" in failure.value.hint
    assert "max_length (maxLength in a schema)" in failure.value.hint
    assert "max_tokens" in failure.value.hint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(JSON)
def test_what_is_named_is_there_and_most_of_the_value(value: Any) -> None:
    advice = advise_limit(value)
    if advice is not None and advice.startswith("the field "):
        pointer = advice.removeprefix("the field ").rpartition(" took most of the tokens")[0]
        part = find_value(value, pointer)
        assert isinstance(part, str | list)
        assert ("maxItems" in advice) == isinstance(part, list)
