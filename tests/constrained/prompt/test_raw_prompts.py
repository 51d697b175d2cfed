"""Prompts that no template writes, and turns of asyncio that are compiled before."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from constrained.agent.model import Model
from constrained.decode.schedule.workers import THREADS, Order
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import BusyError, GrammarError, ModelError, RequestError
from constrained.model.compile.compiler import Compiler
from constrained.prompt.answers import read_response_format
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import Answer, ContentDelta, GrammarAnswer, RegexAnswer, Think
from tests.scripted_model import scripted
from tests.templates import HERMES, PING, hermes_call

BYTES = byte_vocabulary(("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>"))
GREEDY = Sampling(temperature=0)


def writes(script: str) -> Model:
    """A model that writes the script after any prompt that ends with a colon."""

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        text = BYTES.text(tokens)
        return scripted_logits(BYTES, script, text.index(b":") + 1)(sequence, tokens)

    return Model(ScriptedEngine(BYTES, logits), ChatTemplate(HERMES))


SCRIPTS = [
    " \n Hello.\n\n",
    "<think>\nHm.\n</think>\n\nYes.",
    "<thinking>Hm.</thinking>Yes.",
    hermes_call("ping"),
    "  ",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_all_that_is_written_is_content(script: str) -> None:
    with writes(script) as model:
        turn = model.compile_text("Say:")
        stream = model.stream_turn(turn, sampling=GREEDY)
        deltas = list(stream)
    assert all(isinstance(event, ContentDelta) for event in deltas)
    assert "".join(getattr(event, "text", "") for event in deltas) == script
    reply = stream.result
    assert (reply.content, reply.reasoning, reply.calls) == (script, "", ())
    assert (reply.finish_reason, reply.text) == ("stop", script)
    assert reply.usage.prompt_tokens == 4


ANSWERS: list[tuple[Answer, str]] = [
    (RegexAnswer("[0-9]+ *"), "42 "),
    (GrammarAnswer('start: " a" | "\\nb"'), "\nb"),
]


@pytest.mark.parametrize(("answer", "script"), ANSWERS)
def test_an_answer_is_held_from_the_first_token(answer: Answer, script: str) -> None:
    for wanted in (script, "x" + script):
        with writes(wanted) as model:
            turn = model.compile_text("Say:", answer)
            reply = model.complete([turn], sampling=GREEDY, max_tokens=20)[0]
        assert reply.content == script or wanted != script
        assert not reply.content.startswith("x")


def test_a_json_answer_is_read() -> None:
    answer = read_response_format({"type": "json_schema", "schema": {"enum": ["red", 7]}})
    with writes(' "red"') as model:
        reply = model.complete([model.compile_text("Say:", answer)], sampling=GREEDY)[0]
        assert (reply.content, reply.parsed) == (' "red"', "red")
        short = model.complete([model.compile_text("Say:", answer)], max_tokens=6)[0]
        assert short.parsed in ("red", 7)
        with pytest.raises(RequestError, match="max_tokens"):
            model.complete([model.compile_text("Say:", RegexAnswer("a{30}"))], max_tokens=6)


def test_names_of_special_tokens_are_these() -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    turn = compiler.compile_text("<|im_start|>a")
    assert turn.tokens == (BYTES.marker("<|im_start|>"), ord("a"))
    assert turn.prompt.text == "<|im_start|>a"
    assert compiler.compile_text(turn.tokens).tokens == turn.tokens
    assert compiler.compile_text(list(turn.tokens)).prompt.text == "<|im_start|>a"
    assert turn.prompt.breakpoints.places == ()


def test_a_bos_stands_once() -> None:
    vocabulary = type(BYTES)(**{**vars_of(BYTES), "bos": BYTES.marker("<|im_start|>")})
    compiler = Compiler(vocabulary, ChatTemplate(HERMES))
    for text in ("<|im_start|>a", "a"):
        assert compiler.compile_text(text).tokens == (vocabulary.bos, ord("a"))
    assert compiler.compile_text([ord("a")]).tokens == (ord("a"),)  # ids are taken as they are


def vars_of(vocabulary: Any) -> dict[str, Any]:
    return {name: getattr(vocabulary, name) for name in type(vocabulary).__dataclass_fields__}


@pytest.mark.parametrize(
    ("prompt", "where", "what"),
    [
        ("", "/prompt", "is empty"),
        ([], "/prompt", "is empty"),
        ("\ud800", "/prompt", "surrogate"),
        ([1, len(BYTES.tokens)], "/prompt/1", "not a token id"),
        ([-1], "/prompt/0", "not a token id"),
        ([True], "/prompt/0", "not a token id"),
        (["a"], "/prompt/0", "not a token id"),
        (b"a", "/prompt", "neither"),
        (7, "/prompt", "neither"),
    ],
)
def test_bad_prompts(prompt: Any, where: str, what: str) -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    with pytest.raises(RequestError, match=what) as info:
        compiler.compile_text(prompt)
    assert info.value.where == where


def test_a_grammar_that_is_none() -> None:
    compiler = Compiler(BYTES, ChatTemplate(HERMES))
    with pytest.raises(GrammarError, match="the grammar of the answer"):
        compiler.compile_text("a", GrammarAnswer("start: ("))


def test_nothing_of_a_raw_turn_is_remembered_as_a_conversation() -> None:
    with writes("Hello.") as model:
        model.complete([model.compile_text("Say:")], sampling=GREEDY)
        assert not model.compiler.prompts._turns._kept


def test_turns_of_asyncio() -> None:
    async def main(model: Model) -> None:
        turn = await model.acompile(Job([{"role": "user", "content": "Hi."}], [PING]))
        assert (
            turn.tokens == model.compile(Job([{"role": "user", "content": "Hi."}], [PING])).tokens
        )
        stream = model.astream_turn(turn, sampling=GREEDY)
        told = [event async for event in stream]
        reply = await stream.result()
        assert reply.content == "Hello."
        assert "".join(e.text for e in told if isinstance(e, ContentDelta)) == "Hello."
        job = Job([{"role": "user", "content": "Hi."}], think=Think.REQUIRED, reasoning_budget=0)
        with pytest.raises(RequestError, match="thinking is required"):
            await model.acompile(job)

    with scripted("Hello.") as model:
        asyncio.run(main(model))


def test_a_turn_that_cannot_be_queued_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(model: Model, turn: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            model.astream_turn(turn)

    model = scripted("Hello.")
    turn = model.compile(Job([{"role": "user", "content": "Hi."}]))

    def refuse(request: Any) -> Any:
        raise BusyError("too many requests are waiting")

    monkeypatch.setattr(model._runner, "submit", refuse)
    asyncio.run(main(model, turn, BusyError))
    monkeypatch.undo()
    model.close()
    asyncio.run(main(model, turn, ModelError))


def test_cancelling_a_task_gives_the_job_up() -> None:
    async def main(model: Model) -> None:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        hold = threading.Event()

        def block() -> None:
            loop.call_soon_threadsafe(gate.set)
            hold.wait(10)

        for _ in range(THREADS + 1):
            model.queue.workers.submit(block, Order(is_known=True))
        await gate.wait()
        compiled = list[Job]()
        compile_ = model.compiler.compile

        def note(job: Job) -> Any:
            compiled.append(job)
            return compile_(job)

        model.compiler.compile = note
        task = asyncio.create_task(model.acompile(Job([{"role": "user", "content": "Hi."}])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.set()
        await model.acompile(Job([{"role": "user", "content": "Ho."}]))
        assert [job.messages[0]["content"] for job in compiled] == ["Ho."]

    with scripted("Hello.") as model:
        asyncio.run(main(model))
