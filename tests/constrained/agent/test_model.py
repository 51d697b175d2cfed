"""The Python interface, on a real llama.cpp with random weights."""

import asyncio
import contextlib
import copy
import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import llama_cpp
import pytest
from pydantic import BaseModel, Field, field_validator

from constrained.agent.loading import from_llama, load
from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.errors import GrammarError, ModelError, ReplyError, RequestError
from examples.random_model import MARKERS, load_small, with_markers, write_model
from grammars.errors import PolicyError, SchemaError
from grammars.parse.parser import collect
from grammars.turn import ArgumentsDelta, CallOpened, CallRead, ContentDelta, Think
from tests.replies import uncounted
from tests.templates import HERMES, PAINT, PING, WRITE, tool

SEEDED = Sampling(temperature=1.5, seed=5)
OFF = {"enable_thinking": False}
ON = {"enable_thinking": True}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return write_model(folder / "m.gguf", with_markers(load_small(), MARKERS), HERMES)


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with load(path, threads=1, sequences=2, deterministic=True) as model:
        yield model


def options(**given: Any) -> dict[str, Any]:
    return {"sampling": SEEDED, "template_kwargs": OFF, **given}


def test_events_add_up_to_the_reply(model: Model):
    stream = model.stream("Paint!", [PAINT, WRITE], **options(tool_choice="required"))
    events = []
    partial = dict[int, list[dict[str, Any]]]()
    for event in stream:
        events.append(event)
        if isinstance(event, ArgumentsDelta):
            partial.setdefault(event.index, []).append(stream.arguments(event.index))
    reply = stream.result
    assert collect(events).content == reply.content
    again = model.call("Paint!", [PAINT, WRITE], **options(tool_choice="required"))
    assert uncounted(again) == uncounted(reply)
    assert again.usage.cached_tokens > 0
    assert list(stream) == []  # it is over
    opened = [e for e in events if isinstance(e, CallOpened)]
    assert [e.name for e in opened] == [c.name for c in reply.calls]
    for index, call in enumerate(reply.calls):
        assert partial[index][-1] == call.arguments
        for earlier, later in zip(partial[index], partial[index][1:], strict=False):
            assert list(earlier) == list(later)[: len(earlier)]  # nothing is taken back
    told = "".join(e.text for e in events if isinstance(e, ArgumentsDelta))
    assert told == "".join(json.dumps(c.arguments, ensure_ascii=False) for c in reply.calls)


def test_async_streams_and_calls_run_beside_the_loop(model: Model):
    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        stream = model.astream("Hi", [PAINT], **options(tool_choice="required", parallel=False))
        events = [event async for event in stream]
        reply = await stream.result()
        read = [e.call for e in events if isinstance(e, CallRead)]
        assert [c.arguments for c in read] == [c.arguments for c in reply.calls]
        same = await model.acall("Hi", [PAINT], **options(tool_choice="required", parallel=False))
        assert uncounted(same) == uncounted(reply)
        assert ticks > 3
        ticking.cancel()

    asyncio.run(main())


def test_requests_together_give_what_they_give_alone(model: Model):
    asks = [f"Question {i}" for i in range(6)]
    alone = [model.call(ask, max_tokens=12, **options()).text for ask in asks]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda a: model.call(a, max_tokens=12, **options()).text, asks))
    assert together == alone

    async def gather() -> list[str]:
        replies = await asyncio.gather(*(model.acall(a, max_tokens=12, **options()) for a in asks))
        return [reply.text for reply in replies]

    assert asyncio.run(gather()) == alone


def test_a_turn_that_nobody_wants_ends(model: Model):
    stream = model.stream("Write", max_tokens=3_000, sampling=Sampling(temperature=1, seed=1))
    for event in stream:
        assert isinstance(event, ContentDelta)
        break
    reply = stream.result
    assert reply.finish_reason in ("cancelled", "stop")
    assert reply.usage.completion_tokens < 3_000

    long = {"type": "json_schema", "schema": {"type": "string", "minLength": 2_000}}
    asked = {"max_tokens": 3_000, "response_format": long, "template_kwargs": OFF}

    async def cancel() -> None:
        stream = model.astream("Write", **asked)
        events = aiter(stream)  # held: a loop that is left ends the turn by itself
        assert isinstance(await anext(events), ContentDelta)
        waiting = asyncio.create_task(stream.result())
        queued = asyncio.create_task(model.acall("Write", **asked))
        await asyncio.sleep(0)
        for task in (waiting, queued):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancel())
    assert model.call("Hi", max_tokens=2).usage.completion_tokens <= 2  # the worker is free


class Point(BaseModel):
    """A point."""

    x: int = Field(ge=0, le=9)
    label: Literal["a", "b"] = "a"


class Picky(BaseModel):
    x: int = Field(ge=0, le=9)

    @field_validator("x")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise ValueError(f"{value} will not do")


def test_values_are_generated(model: Model):
    point = model.generate("A point", schema=Point, **options())
    assert isinstance(point, Point)
    schema = {"type": "array", "items": {"enum": [1, "b", None]}, "minItems": 2, "maxItems": 3}
    value = model.generate("List", schema=schema, **options())
    assert 2 <= len(value) <= 3
    assert set(value) <= {1, "b", None}
    assert model.generate("List", schema=list[bool], max_tokens=200, **options()) is not None
    text = model.generate("Date", regex=r"^\d{4}-\d{2}$", **options())
    assert len(text) == 7
    assert text[4] == "-"
    assert model.generate("?", choice=["yes", "no"], **options()) in ("yes", "no")
    for grammar in ('start: "a" /[0-9]{2}/ "}"', 'root ::= "a" [0-9] [0-9] "}"'):
        text = model.generate("?", grammar=grammar, **options())
        assert (text[0], text[-1], text[1:-1].isdigit()) == ("a", "}", True)
    thinks = options(template_kwargs=ON, reasoning_budget=5)
    assert model.generate("?", choice=["yes", "no"], **thinks) in ("yes", "no")
    assert asyncio.run(model.agenerate("?", choice=["yes"], **options())) == "yes"
    long = ["no", "yes, and this is a long answer with many words in it"]
    for seed in range(8):
        sampling = Sampling(temperature=50, top_k=0, top_p=1, min_p=0, seed=seed)
        given = options(sampling=sampling, max_tokens=3)
        with contextlib.suppress(ReplyError):  # it says so where the tokens ran out
            assert model.generate("?", choice=long, **given) == "no"


@pytest.mark.filterwarnings("ignore::constrained.errors.RefusedValueWarning")
def test_what_cannot_be_generated_is_said(model: Model):
    with pytest.raises(RequestError, match="none is given"):
        model.generate("?")
    with pytest.raises(RequestError, match="two formats of the answer are given"):
        model.generate("?", choice=["a"], response_format={"type": "json_object"})
    with pytest.raises(RequestError, match="max_tokens of 1 or more"):
        model.call("?", max_tokens=None)
    with pytest.raises(RequestError, match="2 are given"):
        model.generate("?", regex="a", choice=["a"])
    with pytest.raises(PolicyError, match="cannot be enforced"):
        model.generate("?", regex=r"(a)\1")
    with pytest.raises(RequestError, match="choice is"):
        model.generate("?", choice="yes")
    with pytest.raises(GrammarError, match="the grammar of the answer") as info:
        model.generate("?", grammar="start: missing")
    assert info.value.where == "/grammar"
    with pytest.raises(GrammarError, match="GBNF grammar is not valid"):
        model.generate("?", grammar="root ::= missing")
    with pytest.raises(GrammarError, match="nested too deeply"):
        model.generate("?", grammar=f"root ::= {'(' * 5000}[a]{')' * 5000}")
    with pytest.raises(SchemaError) as info:
        model.generate("?", schema={"enum": []})
    with pytest.raises(RequestError, match="no JSON schema"):
        model.generate("?", schema=object())
    with pytest.raises(ReplyError, match="will not do") as info:
        model.generate("?", schema=Picky, **options())
    assert info.value.where == "/x"
    with pytest.raises(TypeError, match="'temperatur', did you mean 'temperature'"):
        model.call("?", temperatur=1)
    with pytest.raises(TypeError, match="'max_token', did you mean 'max_tokens'"):
        model.call("?", max_token=1)
    with pytest.raises(RequestError, match="Give a Sampling"):
        model.call("?", sampling={"temperature": 1})


def test_a_call_or_an_answer_that_fits(model: Model):
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    kinds = set[str]()
    for seed in range(12):
        sampling = Sampling(temperature=50, top_k=0, top_p=1, min_p=0, seed=seed)
        given = options(response_format=form, sampling=sampling, parallel=False)
        reply = model.call("Hi", [PAINT], **given)
        kinds.add(reply.finish_reason)
        if reply.calls:
            assert (reply.content, reply.parsed) == ("", None)
        else:
            assert reply.parsed == json.loads(reply.content)
            assert isinstance(reply.parsed["ok"], bool)
    assert kinds == {"stop", "tool_calls"}
    forced = model.call("Hi", [PAINT], **options(response_format=form, tool_choice="required"))
    assert forced.calls
    with pytest.raises(RequestError, match="response_format"):
        model.call("Hi", response_format={"type": "xml"})


def test_the_reasoning_budget(model: Model):
    for budget in (0, 1, 7):
        given = options(template_kwargs=ON, tool_choice="required", reasoning_budget=budget)
        reply = model.call("Hi", [PING], reasoning_close="Enough.", **given)
        assert reply.calls
        assert reply.usage.reasoning_tokens <= budget
        assert (
            reply.reasoning.endswith("Enough.")
            or reply.usage.reasoning_tokens < budget
            or (budget == 0)
        )
        assert reply.text.count("</think>") == 1
    plain = options(template_kwargs={}, reasoning_budget=0)
    assert model.call("Hi", [PING], **plain).reasoning == ""
    for value, where in ((-1, "/reasoning_budget"), (True, "/reasoning_budget")):
        with pytest.raises(RequestError) as info:
            model.call("Hi", reasoning_budget=value)
        assert info.value.where == where
    with pytest.raises(RequestError, match="contains the marker </think>"):
        model.call("Hi", reasoning_budget=1, reasoning_close="x</think>y")
    with pytest.raises(RequestError, match="its budget is 0"):
        model.call("Hi", reasoning_budget=0, think=Think.REQUIRED)


def test_a_tool_that_is_not_strict(model: Model):
    loose = tool("paint", {"color": {"type": "string", "maxLength": 1}})
    loose["function"]["strict"] = False
    invalid = 0
    for seed in range(4):
        sampling = replace(SEEDED, seed=seed)
        given = options(tool_choice="required", sampling=sampling, parallel=False)
        given["key_order"] = "schema"  # undeclared ones come last, and not before the color
        (call,) = model.call("Hi", [loose], **given).calls
        assert isinstance(call.arguments["color"], str)
        invalid += not call.valid
    assert invalid
    compiled = model.compile(model_job(loose))
    checked = compiled.tools[0].schema.report.checked
    assert [(f.pointer, f.keyword) for f in checked] == [("/properties/color", "maxLength")]


def model_job(given: dict[str, Any]) -> Any:
    from constrained.prompt.job import Job

    return Job([{"role": "user", "content": "Hi"}], [given])


def test_ids_are_derived(model: Model):
    given = options(tool_choice="required")
    first, again = (model.call("Hi", [PING], **given) for _ in range(2))
    assert uncounted(first) == uncounted(again)
    ids = [call.id for call in first.calls]
    assert all(len(i or "") == 9 and str(i).isalnum() for i in ids)
    messages = [{"role": "user", "content": "Hi"}, first.message()]
    messages += [{"role": "tool", "tool_call_id": i, "content": "ok"} for i in ids]
    later = model.call(messages, [PING], **given)
    assert not {c.id for c in later.calls} & set(ids)


def test_an_open_llama_is_borrowed(path: Path):
    llama = llama_cpp.Llama(str(path), n_ctx=512, n_threads=1, verbose=False)
    greedy = Sampling(temperature=0)
    before = llama("a b c", max_tokens=4, temperature=0)
    with from_llama(llama) as borrowed, load(path, threads=1, context_length=512) as own:
        for _ in range(2):
            given: Any = {"sampling": greedy, "template_kwargs": OFF, "max_tokens": 60}
            reply = borrowed.call("Paint!", [PAINT], tool_choice="required", **given)
            assert reply.calls[0].valid
            same = own.call("Paint!", [PAINT], tool_choice="required", **given)
            assert reply.text == same.text
    llama.reset()
    after = llama("a b c", max_tokens=4, temperature=0)
    assert before["choices"] == after["choices"]
    llama.close()
    with pytest.raises(ModelError):
        from_llama(llama)
    with pytest.raises(ModelError, match="has no model"):
        from_llama(object())


def test_a_closed_model_says_so(path: Path):
    model = load(path, threads=1)
    model.close()
    model.close()
    with pytest.raises(ModelError, match="closed"):
        model.call("Hi")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_model_has_no_copy(duplicate: Any, path: Path):
    with load(path, threads=1) as model, pytest.raises(ModelError, match="Share the object itself"):
        duplicate(model)


def test_a_model_without_a_template(tmp_path: Path):
    path = write_model(tmp_path / "bare.gguf", load_small(), None)
    with load(path, threads=1) as model:
        (notice,) = model.notices
        assert "bare.gguf has no chat template" in notice
        assert "--chat-template-file" in notice
        reply = model.call("Paint!", [PAINT], tool_choice="required", sampling=SEEDED)
        assert reply.calls
        turn = model.compile(model_job(PAINT))
        assert turn.format.name == "generic"
        assert '"paint"' in turn.prompt.text


def test_errors_of_a_stream_reach_the_reader(model: Model):
    before = threading.active_count()
    stream = model.stream("Hi", [tool("bad", {"a": {"enum": []}})])
    with pytest.raises(SchemaError):
        list(stream)
    assert threading.active_count() <= before + 2
