"""Whole calls: real models in llama.cpp, their weights random."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType

from constrained.agent.loading import load
from constrained.agent.model import Model
from constrained.decode.request import DecodeInput, DecodeOptions, Request
from constrained.engine.protocol import Chunk, Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import ContextError, GrammarError, ReplyError, RequestError, TokenLimitError
from constrained.mask.matcher import Matcher
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from examples.random_model import MARKERS, load_small, with_markers, write_model
from grammars.turn import Start, Think
from tests.generation import generate
from tests.templates import HERMES, OPEN, PAINT, PING, QWEN3_CODER, hermes_call, tool

GREEDY = Sampling(temperature=0)
USER = [{"role": "user", "content": "Paint it."}]
OFF = {"enable_thinking": False}
TOOLS = [PING, PAINT]
SOURCES = {"hermes": HERMES, "qwen3_coder": QWEN3_CODER}


def make(folder: Path, source: str | None, single: bool, **options: Any) -> Path:
    tokens = with_markers(load_small(), MARKERS) if single else load_small()
    return write_model(folder / "model.gguf", tokens, source, **options)


@pytest.fixture(
    scope="module", params=["hermes-token", "hermes-text", "qwen3_coder-token", "qwen3_coder-text"]
)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    name, kind = request.param.split("-")
    path = make(tmp_path_factory.mktemp("model"), SOURCES[name], kind == "token")
    with load(path, sequences=3, context_length=2048, threads=1, deterministic=True) as model:
        assert bool(model.compiler.markers) == (kind == "token")
        yield model


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = make(tmp_path_factory.mktemp("model"), HERMES, True)
    with load(path, sequences=2, threads=1, context_length=4096) as model:
        yield model


def assert_fits(call: Any, tools: list[dict[str, Any]]) -> None:
    (read,) = [t for t in read_tools(tools) if t.name == call.name]
    assert call.valid
    assert not read.schema.find_errors(call.arguments)


SAMPLINGS = [GREEDY, *(Sampling(temperature=1.5, seed=seed) for seed in range(3))]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "seed 0", "seed 1", "seed 2"])
@pytest.mark.parametrize("choice", ["required", {"type": "tool", "name": "paint"}])
def test_a_required_call_is_made_and_fits(model: Model, choice: Any, sampling: Sampling):
    reply = model.call(
        USER, TOOLS, tool_choice=choice, sampling=sampling, parallel=False, template_kwargs=OFF
    )
    (call,) = reply.calls
    assert_fits(call, TOOLS)
    assert choice == "required" or call.name == "paint"
    assert (reply.finish_reason, reply.content, reply.unfinished) == ("tool_calls", "", "")
    assert reply.usage.forward_passes <= reply.usage.completion_tokens


def test_the_same_seed_gives_the_same_reply(model: Model):
    def ask(seed: int) -> str:
        sampling = Sampling(temperature=2, seed=seed)
        return model.call(USER, TOOLS, max_tokens=60, sampling=sampling).text

    assert ask(1) == ask(1)
    assert ask(1) != ask(2)


def test_forced_tokens_do_not_change_the_text(model: Model, tmp_path: Path):
    tools = [tool("paint", {"color": {"enum": ["red", "green"]}, "note": {"maxLength": 8}})]
    job = Job(USER, tools, "required", parallel=False, template_kwargs=OFF)
    turn = model.compile(job)
    on, off = (model.complete([turn], sampling=GREEDY, force=force)[0] for force in (True, False))
    assert on.text == off.text
    assert on.calls == off.calls
    with load(make(tmp_path, HERMES, True), threads=1) as fast:  # decodes them together
        turn = fast.compile(job)
        (on,) = fast.complete([turn], sampling=GREEDY)
        (off,) = fast.complete([turn], sampling=GREEDY, force=False)
    assert off.usage.cached_tokens == off.usage.prompt_tokens - 1
    assert on.usage.forward_passes < off.usage.forward_passes


def test_turns_together_equal_turns_alone(model: Model):
    jobs = [
        Job(USER, TOOLS, "required", template_kwargs=OFF),
        Job([{"role": "user", "content": "Hello there, how are you?"}], TOOLS, "auto"),
        Job(USER),
    ]
    turns = [model.compile(job) for job in jobs]
    alone = [model.complete([turn], max_tokens=48, sampling=GREEDY)[0].text for turn in turns]
    together = [reply.text for reply in model.complete(turns, max_tokens=48, sampling=GREEDY)]
    assert together == alone
    more = model.complete([*turns, turns[0]], max_tokens=48, sampling=GREEDY)  # one has to wait
    assert [reply.text for reply in more] == [*alone, alone[0]]


def test_without_tools_there_is_no_grammar(tmp_path: Path):
    with load(make(tmp_path, HERMES, True), threads=1) as model:
        turn = model.compile(Job(USER))
        engine = model.engine
        assert turn.grammar is None
        assert turn.matcher is None
        tokens: list[int] = []
        chunk = list(turn.tokens)
        position = 0
        while len(tokens) < 20:  # plain greedy decoding
            (logits,) = engine.decode([Chunk(0, chunk, position)])
            position += len(chunk)
            chunk = [int(logits.argmax())]
            tokens += chunk
        engine.release(0)
        options = DecodeOptions(max_tokens=20, sampling=GREEDY, draft=False)
        request = Request(DecodeInput(turn.tokens, turn.make_parser), options)
        (generation,) = generate(engine, [request])
        assert list(generation.tokens) == tokens
        assert generation.usage.forward_passes == 20


def test_start_states(model: Model):
    def state(**job: Any) -> Start:
        return model.compile(Job(USER, TOOLS, **job)).state.start

    assert state() is Start.PLAIN
    assert state(template_kwargs=OFF) is Start.CLOSED
    assert state(template_kwargs={"enable_thinking": True}) is Start.OPEN
    closed = model.call(USER, TOOLS, template_kwargs=OFF, max_tokens=20, sampling=GREEDY)
    assert closed.reasoning == ""
    opened = model.call(
        USER, TOOLS, template_kwargs={"enable_thinking": True}, max_tokens=20, sampling=GREEDY
    )
    assert opened.reasoning
    assert opened.content == ""
    thinks = model.call(USER, think=Think.REQUIRED, max_tokens=20, sampling=GREEDY)
    assert thinks.reasoning
    assert "<think>" in thinks.text
    silent = model.call(USER, think=Think.FORBIDDEN, max_tokens=20, sampling=GREEDY)
    assert (silent.reasoning, silent.content) == ("", silent.text)


def test_a_template_that_opens_the_reasoning(tmp_path: Path):
    with load(make(tmp_path, HERMES, True), chat_template=OPEN) as model:
        turn = model.compile(Job(USER, TOOLS, "required"))
        assert turn.state.start is Start.OPEN
        assert model.complete([turn], max_tokens=40)[0].reasoning


def test_a_turn_ends_well_at_every_limit(model: Model):
    tools = [tool("paint", {"color": {"enum": ["red", "green"]}, "note": {"type": "string"}})]
    turn = model.compile(Job(USER, tools, "required", parallel=False, template_kwargs=OFF))
    with pytest.raises(RequestError, match="the shortest turn") as info:
        model.complete([turn], max_tokens=1)
    assert info.value.where == "/max_tokens"
    shortest = int(str(info.value.hint).split()[3])
    truncated = 0
    for limit in range(shortest, shortest + 30):
        reply = model.complete([turn], sampling=GREEDY, max_tokens=limit)[0]
        (call,) = reply.calls
        assert_fits(call, tools)
        assert call.truncated == (reply.finish_reason == "length")
        assert (reply.content, reply.unfinished) == ("", "")
        assert reply.usage.completion_tokens <= limit
        truncated += call.truncated
    assert truncated


def test_a_call_that_the_model_has_not_named_is_not_delivered():
    vocabulary = byte_vocabulary()
    script = "sure\n" + hermes_call("ping") + "\n" + hermes_call("ping")
    engine = ScriptedEngine(vocabulary, scripted_logits(vocabulary, script))
    with Model(engine, ChatTemplate(HERMES)) as model:
        one = len(f"sure\n{hermes_call('ping')}")
        for limit, calls in ((one, 1), (one + 5, 1), (len(script), 2)):
            reply = model.call(
                USER, [PING], max_tokens=limit, sampling=GREEDY, max_identical_calls=None
            )
            assert len(reply.calls) == calls
            assert not any(call.truncated for call in reply.calls)


def test_reasoning_that_runs_out_of_tokens_is_closed(model: Model):
    given = {"template_kwargs": {"enable_thinking": True}, "sampling": GREEDY}
    reply = model.call(USER, TOOLS, max_tokens=20, **given)
    assert reply.finish_reason == "length"
    assert reply.reasoning
    assert "</think>" in reply.text
    assert reply.usage.completion_tokens <= 20


def test_the_context_is_a_limit_too(hermes: Model):
    turn = hermes.compile(Job([{"role": "user", "content": "x " * 3_000}]))
    with pytest.raises(ContextError, match="context length is 4096"):
        hermes.complete([turn, turn])
    room = 4096 - len(hermes.compile(Job([{"role": "user", "content": "x" * 4_000}])).tokens)
    assert 0 < room < 200
    reply = hermes.call("x" * 4_000, max_tokens=1000, sampling=GREEDY)
    assert (reply.finish_reason, reply.usage.completion_tokens) == ("length", room)
    # Where the context has no room for the shortest turn, a larger max_tokens would not help.
    long = {"type": "json_schema", "schema": {"type": "string", "minLength": 250}}
    for max_tokens in (room, 1000):
        with pytest.raises(ContextError, match=rf"is 4096 .*\({4096 - room} in the messages"):
            hermes.call("x" * 4_000, max_tokens=max_tokens, response_format=long)
    with pytest.raises(TokenLimitError, match=f"max_tokens is {room - 1}"):
        hermes.call("x" * 4_000, max_tokens=room - 1, response_format=long)


def test_a_matcher_that_fails_ends_the_request(hermes: Model, monkeypatch: pytest.MonkeyPatch):
    apply, calls = Matcher.apply, []

    def fail(self: Matcher, logits: Any) -> int | None:
        calls.append(self)
        if len(calls) == 2:
            self._fail("the grammar failed")
        return apply(self, logits)

    turn = hermes.compile(Job(USER, TOOLS, "required"))
    assert hermes.compiler._grammars.usual._matchers.size.count
    monkeypatch.setattr(Matcher, "apply", fail)
    with pytest.raises(GrammarError, match="the grammar failed"):
        hermes.complete([turn])
    hermes.compile(Job(USER))  # comes after what the failure has led to
    assert hermes.compiler._grammars.usual._matchers.size.count == 0
    monkeypatch.undo()
    reply = hermes.call(USER, TOOLS, tool_choice="required", template_kwargs=OFF, parallel=False)
    assert reply.calls


def test_a_keyword_that_is_only_checked(hermes: Model):
    never = {"type": "string", "maxLength": 5, "pattern": "^(?!()\\1)"}  # nothing fits
    with pytest.raises(ReplyError, match=r"the call f\(.*\) does not fit: .*match") as info:
        hermes.call(USER, [tool("f", {"n": never})], tool_choice="required", template_kwargs=OFF)
    assert info.value.where == "/arguments/n"


DECODE = """
import sys
from constrained.engine.llamacpp import load
from constrained.engine.protocol import Chunk
with load(sys.argv[1]) as engine:
    for tokens in ([5], list(range(64))):
        (logits,) = engine.decode([Chunk(0, tokens, 0)])
        assert abs(logits).max() > 0
        engine.release(0)
"""


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0"])
def test_quantised_models_decode_several_tokens(tmp_path: Path, name: str):
    # In a process of its own: llama.cpp's code for AMX, compiled by an old GCC, would end this one.
    dtype = GGMLQuantizationType[name]
    path = make(tmp_path, HERMES, True, dtype=dtype, n_embd=256, n_ff=512)
    done = subprocess.run([sys.executable, "-c", DECODE, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
