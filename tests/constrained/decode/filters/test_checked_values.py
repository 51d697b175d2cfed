"""What the mask cannot hold waits until it is checked, and is written once more."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.inputs.sources import OURS
from constrained.agent.model import Model
from constrained.decode.filters.checked_values import CheckedSchemas
from constrained.decode.request import (
    DecodeInput,
    DecodeOptions,
    Finish,
    Generation,
    Request,
)
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.errors import ReplyError
from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.parse.parser import Parser
from grammars.parse.render import render
from grammars.schema.lowering.checked import find_checked
from grammars.turn import (
    ArgumentsDelta,
    CallRead,
    Event,
    KeyOrder,
    Policy,
    State,
    ToolCall,
    Turn,
    collect,
)
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES
from tests.generation import generate
from tests.replies import uncounted
from tests.scripted_model import BYTES, wish, wishing
from tests.templates import hermes_call, tool

HOST = {"type": "string", "pattern": "^(?!()\\1[-_])"}  # no mask holds what must not follow
PROPERTIES: dict[str, Any] = {
    "name": {"type": "string"},
    "host": HOST,
    "even": {"type": "integer", "not": {"multipleOf": 7}},
    "last": {"type": "string"},
}
THINKING = (OURS / "hermes.jinja").read_text("utf-8")
GREEDY = Sampling(temperature=0)
ANYTHING = Policy()


@dataclass
class Run:
    """A turn that a model of several wishes has written."""

    generation: Generation
    sent: list[Event] = field(default_factory=list)

    @property
    def told(self) -> str:
        """The arguments as they were streamed."""
        return "".join(e.text for e in self.sent if isinstance(e, ArgumentsDelta))


def write(
    format: Format,
    given: Sequence[Any],
    turns: Sequence[Turn],
    *,
    single: bool = False,
    can_roll_back: bool = True,
    stream: bool = True,
    policy: Policy = ANYTHING,
) -> Run:
    tools = read_tools(given)
    vocabulary, tokenizer = byte_tokenizer(format.atoms if single else ())
    ids = vocabulary.find_markers(format.texts)
    state = State(calls=0)
    texts = [vocabulary.encode_marked(render(t, format, tools, state), ids) for t in turns]
    grammar = build_grammar(format, tools, policy, state, ids)
    engine = ScriptedEngine(vocabulary, wish(texts, vocabulary), can_roll_back=can_roll_back)
    run = Run(None)
    turn = DecodeInput(
        [0],
        lambda: Parser(format, tools, state, stream=stream),
        Matcher.compile(tokenizer, grammar),
        checked_schemas=CheckedSchemas(
            {t.name: (t.schema, find_checked(t.schema)) for t in tools if t.strict}
        ),
    )
    options = DecodeOptions(max_tokens=2000, sampling=GREEDY)
    request = Request(turn, options, sink=run.sent.extend)
    (run.generation,) = generate(engine, [request])
    return run


def call(**arguments: Any) -> ToolCall:
    return ToolCall("connect", arguments, id="abcdefghi")


def turn(*calls: ToolCall) -> Turn:
    return Turn(calls=calls)


CONNECT = tool("connect", PROPERTIES, required=["name", "host", "even"])
FINE = {"name": "x", "host": "good", "even": 8, "last": "y"}


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("single", [False, True], ids=["text", "token"])
def test_a_value_that_does_not_fit_is_written_once_more(format: Format, single: bool) -> None:
    bad = {**FINE, "host": "-bad-"}
    run = write(format, [CONNECT], [turn(call(**bad)), turn(call(**FINE))], single=single)
    (read,) = collect(run.generation.events).calls
    assert read.valid
    assert read.arguments == FINE
    assert run.generation.usage.discarded_tokens > 0
    assert run.sent == list(run.generation.events)
    assert json.loads(run.told) == FINE
    assert "bad" not in run.told
    # What came before the value is not written again.
    text = run.generation.text
    assert run.generation.usage.discarded_tokens <= len(text) - text.index("x")


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_the_whole_call_waits(format: Format) -> None:
    texts = {"a": {"type": "string"}, "b": {"type": "string"}}
    unwanted = {"patternProperties": {"()\\1a": {"const": "x"}}}
    given = tool("connect", texts, **{"not": unwanted})
    bad, fine = {"a": "x", "b": "y"}, {"a": "z", "b": "y"}
    run = write(format, [given], [turn(call(**bad)), turn(call(**fine))])
    (read,) = collect(run.generation.events).calls
    assert read.valid
    assert run.sent == list(run.generation.events)
    assert json.loads(run.told) == read.arguments == fine


def test_what_fails_twice_is_an_error_and_was_never_sent() -> None:
    bads = [turn(call(**{**FINE, "host": host})) for host in ("-bad-", "_worse_")]
    for can_roll_back, discards in ((True, True), (False, False)):
        run = write(HERMES, [CONNECT], bads, can_roll_back=can_roll_back)
        (read,) = collect(run.generation.events).calls
        assert [e.pointer for e in read.errors] == ["/arguments/host"]
        assert read.arguments["host"] == ("_worse_" if can_roll_back else "-bad-")
        assert bool(run.generation.usage.discarded_tokens) is discards
        assert run.generation.finish is Finish.STOP
        assert run.told.startswith('{"name": "x"')
        assert "_" not in run.told
        assert "bad" not in run.told


def test_each_value_is_written_once_more() -> None:
    bads = [{**FINE, "host": "-bad-", "even": 7}, {**FINE, "even": 7}, FINE]
    run = write(HERMES, [CONNECT], [turn(call(**bad)) for bad in bads])
    (read,) = collect(run.generation.events).calls
    assert read.arguments == FINE
    assert run.sent == list(run.generation.events)


def test_what_is_not_held_streams_while_it_is_written() -> None:
    run = write(HERMES, [CONNECT], [turn(call(**FINE))])
    assert run.generation.usage.discarded_tokens == 0
    texts = [e.text for e in run.sent if isinstance(e, ArgumentsDelta)]
    assert {len(text) for text in texts} == {1}  # a token is a byte, and none is merged


def test_a_tool_that_is_not_strict_is_not_held() -> None:
    loose = {"type": "function", "function": {**CONNECT["function"], "strict": False}}
    run = write(HERMES, [loose], [turn(call(**{**FINE, "host": "-bad-"})), turn(call(**FINE))])
    (read,) = collect(run.generation.events).calls
    assert not read.valid
    assert run.generation.usage.discarded_tokens == 0
    assert "-bad-" in run.told


def test_undeclared_arguments_wait() -> None:
    given = tool("connect", {"name": {"type": "string"}}, additionalProperties=HOST)
    bad, fine = ({"name": "x", "host": host} for host in ("-bad-", "good"))
    run = write(HERMES, [given], [turn(call(**bad)), turn(call(**fine))])
    (read,) = collect(run.generation.events).calls
    assert read.arguments == fine
    assert "bad" not in run.told


def test_a_call_that_nobody_was_told_of() -> None:
    """A format whose calls are told when they are complete, beside an answer."""
    fine = {**FINE, "name": "z"}
    bads = [turn(call(**{**FINE, "host": "-bad-"})), turn(call(**fine))]
    format = next(f for f in FORMATS if f.name == "llama3_json")
    # It is written again from its first key on, and with another one it would be another text.
    policy = Policy(key_order=KeyOrder.SCHEMA)
    run = write(format, [CONNECT], bads, stream=False, policy=policy)
    (read,) = collect(run.generation.events).calls
    assert read.arguments == fine
    assert run.sent == list(run.generation.events)


def hermes(host: str) -> str:
    return hermes_call("connect", json.dumps({**FINE, "host": host}))


def test_the_reply_counts_what_was_thrown_away() -> None:
    with wishing(hermes("-bad-"), hermes("good")) as scripted:
        reply = scripted.call("Hi", [CONNECT], sampling=GREEDY)
        assert [c.arguments for c in reply.calls] == [FINE]
        usage = reply.usage
        assert usage.discarded_tokens > len("-bad-")
        assert usage.completion_tokens == len(reply.text) + usage.discarded_tokens
        again = scripted.call("Hi", [CONNECT], sampling=GREEDY)
        assert uncounted(again) == uncounted(reply)
        streamed = scripted.stream("Hi", [CONNECT], sampling=GREEDY)
        assert collect(list(streamed)).calls[0].arguments == FINE
        assert uncounted(streamed.result) == uncounted(reply)


def test_the_reply_that_fails_twice() -> None:
    with wishing(hermes("-bad-"), hermes("_worse_")) as scripted:
        with pytest.raises(ReplyError, match=r"connect\(.*_worse_.*does not fit") as info:
            scripted.call("Hi", [CONNECT], sampling=GREEDY)
        assert info.value.where == "/arguments/host"
        stream = scripted.stream("Hi", [CONNECT], sampling=GREEDY)
        told: list[Event] = []
        with pytest.raises(ReplyError):
            told.extend(stream)
        assert not any(isinstance(e, CallRead) for e in told)


def test_tokens_for_what_was_thrown_away_are_spent() -> None:
    """With too few tokens, there is no second attempt."""
    bad, fine = hermes("-bad-"), hermes("good")
    outcomes: set[str] = set()
    with wishing(bad, fine) as scripted:
        for most in range(len(bad) - 8, len(bad) + 20):
            try:
                reply = scripted.call("Hi", [CONNECT], sampling=GREEDY, max_tokens=most)
            except ReplyError:
                outcomes.add("error")
            else:
                assert reply.usage.completion_tokens <= most
                outcomes.add(reply.finish_reason)
    assert outcomes == {"error", "length", "tool_calls"}


def test_the_reasoning_is_counted_once() -> None:
    """Its budget is spent before the call; what comes after the way back does not count again."""
    thought = "Hm, 20 bytes of it.\n</think>\n\n"
    fine = thought + hermes("good")
    texts = [f"<think>\n{thought}{hermes('-bad-')}", f"<think>\n{fine}"]  # the prompt opens it
    with wishing(*texts, source=THINKING) as scripted:
        given: Any = {"sampling": GREEDY, "template_kwargs": {"enable_thinking": True}}
        plain = scripted.call("Hi", [CONNECT], **given)
        assert plain.usage.discarded_tokens
        assert plain.text == fine
        assert 20 <= plain.usage.reasoning_tokens <= len(thought)
        most = plain.usage.reasoning_tokens + len("\n</think>")
        bounded = scripted.call("Hi", [CONNECT], reasoning_budget=most, **given)
        assert bounded.text == fine
        assert bounded.usage.reasoning_tokens == plain.usage.reasoning_tokens


def test_an_answer_is_written_once_more() -> None:
    schema = {"type": "object", "properties": {"host": HOST}, "required": ["host"]}
    answer = {"type": "json_schema", "json_schema": {"schema": schema}}
    texts = ['{"host": "-bad-"}', '{"host": "good"}', '{"host": "_worse_"}']
    with wishing(*texts) as scripted:
        reply = scripted.call("Hi", response_format=answer, sampling=GREEDY)
        assert reply.parsed == {"host": "good"}
        assert reply.usage.discarded_tokens == len(texts[0]) - 1
        assert scripted.generate("Hi", schema=schema, sampling=GREEDY) == reply.parsed
        stream = scripted.stream("Hi", response_format=answer, sampling=GREEDY)
        assert collect(list(stream)).content == reply.content
        both = scripted.call("Hi", [CONNECT], response_format=answer, sampling=GREEDY)
        assert both.parsed == reply.parsed
    with wishing(texts[0], texts[2]) as scripted, pytest.raises(ReplyError, match="_worse_"):
        scripted.call("Hi", response_format=answer, sampling=GREEDY)
    with wishing(*texts, can_roll_back=False) as scripted:  # goes back to the end of the prompt
        reply = scripted.call("Hi", response_format=answer, sampling=GREEDY)
        assert reply.parsed == {"host": "good"}


ODD = {"type": "integer", "minimum": 0, "maximum": 99, "not": {"multipleOf": 2}}
COUNT = tool(
    "count",
    {
        "text": {"type": "string", "maxLength": 5},
        "odd": ODD,
        "list": {"type": "array", "items": ODD},
    },
)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "mistral"])
@pytest.mark.parametrize("seed", range(8))
def test_random_models(name: str, seed: int) -> None:
    """Whatever comes: what is delivered fits and is what was sent; nothing exceeds its tokens."""
    source = (OURS / f"{name}.jinja").read_text("utf-8")
    engine = ScriptedEngine(BYTES, random_logits(BYTES, seed), context_length=20_000)
    with Model(engine, ChatTemplate(source)) as random:
        most = [400, 4000][seed % 2]
        options: Any = {"max_tokens": most, "sampling": Sampling(seed=seed)}
        stream = random.stream("Hi", [COUNT], tool_choice="required", **options)
        sent: list[Event] = []
        try:
            sent.extend(stream)
        except ReplyError:
            assert not any(isinstance(e, CallRead) and not e.call.valid for e in sent)
            return
        reply = stream.result
        assert reply.usage.completion_tokens <= most
        assert all(c.valid for c in reply.calls)
        if reply.finish_reason != "length":
            told = "".join(e.text for e in sent if isinstance(e, ArgumentsDelta) and e.index == 0)
            assert json.loads(told) == reply.calls[0].arguments
