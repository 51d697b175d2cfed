"""Turns that go on with a text of the client: only what is new comes back, and all of that."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrained.agent.model import Model
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, random_logits
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RequestError, TemplateError
from constrained.model.compile.compiler import Compiler
from constrained.model.reply import Reply
from constrained.prompt.answers import read_response_format
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.parse.render import render
from grammars.turn import (
    ContentDelta,
    Event,
    ReasoningDelta,
    RegexAnswer,
    Think,
    Turn,
    collect,
)
from tests.scripted_model import BYTES, TURN, scripted
from tests.templates import FOLDER, HERMES, OPEN, PING, QWEN3_CODER, hermes_call

MISTRAL = (FOLDER / "mistral.jinja").read_text(encoding="utf-8")
LLAMA3 = (FOLDER / "llama3_json.jinja").read_text(encoding="utf-8")
SOURCES = {
    "hermes": (HERMES, TURN),
    "open": (OPEN, TURN + rb"<think>\n"),
    "qwen3_coder": (QWEN3_CODER, TURN),
    "mistral": (MISTRAL, rb"\[/INST\]"),
}
COMPILERS = {name: Compiler(BYTES, ChatTemplate(source)) for name, (source, _) in SOURCES.items()}
USER = {"role": "user", "content": "Hi."}
GREEDY = Sampling(temperature=0)
TEXTS = st.text(st.sampled_from("ab <\n[é🙂"), min_size=1, max_size=8)


def begun(content: Any = "", reasoning: Any = None, **more: Any) -> dict[str, Any]:
    thought = {} if reasoning is None else {"reasoning_content": reasoning}
    return {"role": "assistant", "content": content, **thought, **more}


def ask(model: Model, *last: dict[str, Any], **options: Any) -> tuple[Reply, list[Event]]:
    options = {"sampling": GREEDY, "prefill": True, **options}
    stream = model.stream([USER, *last], **options)
    return stream.result, list(stream)


def told(events: Sequence[Event]) -> tuple[str, str]:
    content = "".join(event.text for event in events if isinstance(event, ContentDelta))
    return content, "".join(event.text for event in events if isinstance(event, ReasoningDelta))


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40)
@given(content=TEXTS, reasoning=TEXTS, data=st.data())
def test_any_cut_goes_on_with_exactly_the_rest(
    name: str, content: str, reasoning: str, data: st.DataObject
) -> None:
    source, before = SOURCES[name]
    format = COMPILERS[name].format
    state = COMPILERS[name].compile(Job([USER])).state
    reasoning = reasoning if format.reasoning else ""
    script = render(Turn(content, reasoning), format, (), state)
    tools = data.draw(st.sampled_from([[], [PING]]))
    with scripted(script, source=source, turn=before) as model:
        whole = model.call([USER], tools, sampling=GREEDY)
        assert (whole.content, whole.reasoning) == (content, reasoning)
        at = data.draw(st.integers(1, len(content)))
        reply, events = ask(model, begun(content[:at], reasoning), tools=tools)
        assert (reply.content, reply.reasoning) == told(events) == (content[at:], "")
        assert reply.text == content[at:]
        assert reply.usage.completion_tokens == len(content[at - 1 :].encode())
        if not reasoning:
            return
        at = data.draw(st.integers(1, len(reasoning)))
        reply, events = ask(model, begun("", reasoning[:at]), tools=tools)
        assert (reply.content, reply.reasoning) == told(events) == (content, reasoning[at:])
        total = whole.usage.prompt_tokens + whole.usage.completion_tokens
        assert reply.usage.prompt_tokens + reply.usage.completion_tokens == total


def test_content_alone_closes_a_block_that_the_template_has_opened() -> None:
    turn = COMPILERS["open"].compile(Job([USER, begun("Yes")], prefill=True))
    plain = COMPILERS["open"].compile(Job([USER]))
    assert turn.tokens[: len(plain.tokens)] == plain.tokens
    assert turn.prefill.text + turn.prefill.healed == "Yes"
    assert BYTES.text(turn.prefill.tokens) == b"\n</think>\n\nYe"
    assert turn.tokens == plain.tokens + turn.prefill.tokens


def test_nothing_to_go_on_with_is_the_turn_itself() -> None:
    compiler = COMPILERS["hermes"]
    turn = compiler.compile(Job([USER, begun("")], prefill=True))
    assert turn.tokens == compiler.compile(Job([USER])).tokens
    with scripted("Hello.") as model:
        assert ask(model, begun(None))[0].content == "Hello."


def test_a_call_follows_what_was_given() -> None:
    call = hermes_call("ping")
    with scripted(f"Let me see. \n{call}") as model:
        reply, events = ask(model, begun("Let me see. "), tools=[PING], tool_choice="auto")
        assert [found.name for found in reply.calls] == ["ping"]
        assert reply.content == told(events)[0] == ""
        assert reply.finish_reason == "tool_calls"


def test_parts_of_text_and_other_names_of_reasoning() -> None:
    with scripted("<think>\nabc\n</think>\n\none\ntwo three") as model:
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        assert ask(model, begun(parts, thinking="abc"))[0].content == " three"
        assert ask(model, begun("", reasoning="x") | {"reasoning": "ab"})[0].reasoning != "c"
        assert ask(model, {"role": "assistant", "reasoning": "ab"})[0].reasoning == "c"


def test_reasoning_alone_has_begun_no_answer() -> None:
    """The answer has the numbers of its schema, as without a prefill."""
    format = {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}}
    with scripted("<think>\nabc\n</think>\n\n7.0") as model:
        reply, events = ask(model, begun("", "ab"), response_format=format)
        assert reply.content == told(events)[0] == "7"


BAD: list[tuple[list[Any], dict[str, Any], str, str]] = [
    ([USER], {}, "/messages/0", "of 'user'"),
    ([begun("a")], {}, "/messages", "nothing before"),
    (
        [USER, begun(tool_calls=[{"function": {"name": "ping"}}])],
        {},
        "/messages/1/tool_calls",
        "cannot be continued",
    ),
    ([USER, begun([{"type": "image_url"}])], {}, "/messages/1/content", "not text"),
    ([USER, begun(7)], {}, "/messages/1/content", "not text"),
    ([USER, begun("", ["a"])], {}, "/messages/1/reasoning_content", "not text"),
    ([USER, begun("\ud800")], {}, "/messages/1/content", "surrogate"),
    ([USER, begun("é</think>b")], {"tools": [PING]}, "/messages/1/content", "up to byte 9"),
    ([USER, begun("é<tool_call>b")], {"tools": [PING]}, "/messages/1/content", "byte 13"),
    ([USER, begun("<thinking>b")], {}, "/messages/1/content", "read as a marker"),
    ([USER, begun("a", "b</think>")], {}, "/messages/1/reasoning_content", "up to byte 1"),
    ([USER, begun("a é<tool_call>")], {"tools": [PING]}, "/messages/1/content", "read as a marker"),
    (
        [USER, begun("a")],
        {"tools": [PING], "tool_choice": "required"},
        "/messages/1/content",
        "up to byte 0",
    ),
    ([USER, begun("a")], {"think": Think.REQUIRED}, "/messages/1/content", "up to byte 0"),
    ([USER, begun("", "a")], {"reasoning_budget": 0}, "/messages/1/reasoning_content", "byte 0"),
    ([USER, begun("12é")], {"answer": RegexAnswer("[0-9]+")}, "/messages/1/content", "byte 2"),
    ([USER, begun("éa")], {"answer": RegexAnswer("é[0-9]+")}, "/messages/1/content", "byte 2"),
]


@pytest.mark.parametrize(("messages", "options", "where", "what"), BAD)
def test_what_no_turn_can_go_on_with(
    messages: list[Any], options: dict[str, Any], where: str, what: str
) -> None:
    with pytest.raises(RequestError, match=what) as info:
        COMPILERS["hermes"].compile(Job(messages, **options, prefill=True))
    assert info.value.where == where
    # The grammars are not spoilt: the same without the text compiles, and takes its tokens.
    if options and len(messages) > 1:
        turn = COMPILERS["hermes"].compile(Job([USER], **options))
        assert turn.matcher
        assert turn.matcher.mask().any()


WORDS = RegexAnswer("[a-z_<\\n ]+")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("<", {"think": Think.REQUIRED}),
        (" \n", {"think": Think.REQUIRED}),
        ("<tool_", {"tools": [PING], "tool_choice": "required"}),
        ("\n", {"tools": [PING], "tool_choice": "required"}),
    ],
)
def test_content_is_not_the_beginning_of_a_marker_that_has_to_come(
    text: str, options: dict[str, Any]
) -> None:
    with pytest.raises(RequestError, match="up to byte 0"):
        COMPILERS["hermes"].compile(Job([USER, begun(text)], **options, prefill=True))


@pytest.mark.parametrize("text", ["<", "<tool_", "\n", "<thi", "<tool_call"])
@pytest.mark.parametrize("answer", [None, WORDS])
@pytest.mark.parametrize("tools", [[], [PING]])
def test_half_a_marker_stays_content(text: str, answer: Any, tools: list[Any]) -> None:
    """The model would like to complete it."""
    call = hermes_call("ping")
    for script in (call, f"\n{call}", "<think>\nHm.\n</think>\n\nab"):
        with scripted(script) as model:
            job = Job([USER, begun(text)], tools, answer=answer, prefill=True)
            reply = model.complete([model.compile(job)], sampling=GREEDY, max_tokens=40)[0]
            assert reply.reasoning == ""
            assert not reply.calls or text == "\n"
            assert reply.text.startswith(reply.content)


def test_reasoning_that_holds_a_marker() -> None:
    job = Job([USER, begun("a", "é<tool_call>")], [PING], prefill=True)
    with pytest.raises(RequestError, match="up to byte 2") as info:
        COMPILERS["hermes"].compile(job)
    assert info.value.where == "/messages/1/reasoning_content"


@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=40)
@given(content=TEXTS, seed=st.integers(0, 99), data=st.data())
def test_any_model_goes_on_with_a_turn_that_reads_as_the_whole(
    name: str, content: str, seed: int, data: st.DataObject
) -> None:
    marker = COMPILERS[name].format.markers[0]
    content += marker[: data.draw(st.integers(0, len(marker) - 1))]
    tools = data.draw(st.sampled_from([[], [PING]]))
    limit = data.draw(st.sampled_from([6, 40, 150]))
    engine = ScriptedEngine(BYTES, random_logits(BYTES, seed), context_length=20_000)
    with Model(engine, ChatTemplate(SOURCES[name][0])) as model:
        turn = model.compile(Job([USER, begun(content)], tools, prefill=True))
        stream = model.stream_turn(turn, max_tokens=limit, sampling=Sampling(seed=seed))
        assert told(list(stream)) == (stream.result.content, stream.result.reasoning)
    reply = stream.result
    parser = turn.make_parser()
    assert reply.usage.completion_tokens <= limit
    read = collect([*parser.feed(content + reply.text), *parser.close()])
    if "\ufffd" not in reply.text:
        assert (content + reply.content).startswith(read.content.rstrip())
        assert read.reasoning == reply.reasoning == ""


def test_the_byte_up_to_which_it_fits_is_exact() -> None:
    answer = read_response_format({"type": "json_schema", "schema": {"enum": ["red", "green"]}})
    for text, fits in (('"ré', 2), ('"redé"', 4), ("x", 0), ('"green" x', 7)):
        with pytest.raises(RequestError, match=rf"up to byte {fits} \("):
            COMPILERS["hermes"].compile(Job([USER, begun(text)], answer=answer, prefill=True))


def test_other_refusals() -> None:
    with pytest.raises(RequestError, match="prefill is 1, not a boolean"):
        COMPILERS["hermes"].compile(Job([USER], prefill=1))
    with pytest.raises(TemplateError, match="no messages"):
        COMPILERS["hermes"].compile(Job([], prefill=True))
    plain = Compiler(BYTES, ChatTemplate(LLAMA3))
    with pytest.raises(RequestError, match="no reasoning block here") as info:
        plain.compile(Job([USER, begun("a", "b")], prefill=True))
    assert info.value.where == "/messages/1/reasoning_content"


@pytest.mark.parametrize("text", ["{", '{ "na', '{"name": "ping"', "\n{"])
def test_half_a_call_is_refused_where_no_marker_opens_calls(text: str) -> None:
    compiler = Compiler(BYTES, ChatTemplate(LLAMA3))
    job = Job([USER, begun(text)], [PING], prefill=True)
    with pytest.raises(RequestError, match="starts like a call") as info:
        compiler.compile(job)
    assert info.value.where == "/messages/1/content"
    assert compiler.compile(Job([USER, begun(text)], prefill=True)).prefill.message.content == text
    compiler.compile(Job([USER, begun('{"other"')], [PING], prefill=True))


OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a", "b"],
}


def test_an_answer_goes_on_and_is_read_as_a_whole() -> None:
    script = '{"a": 17, "b": "no"}'
    with scripted(script) as model:
        for at in range(1, len(script) + 1):
            format = {"type": "json_schema", "schema": OBJECT}
            reply, events = ask(model, begun(script[:at]), response_format=format)
            assert reply.content == told(events)[0] == script[at:]
            assert reply.parsed == {"a": 17, "b": "no"}
            messages = [USER, begun(script[:at])]
            assert model.generate(messages, schema=OBJECT, prefill=True) == reply.parsed


CHECKED = {"type": "integer", "multipleOf": 1_000_003}
"""What only a check can tell."""


def test_an_answer_that_does_not_fit_is_written_again_behind_the_prefix() -> None:
    script = "2000007"
    with scripted(script) as model:
        format = {"type": "json_schema", "schema": CHECKED}
        turn = model.compile(
            Job([USER, begun("20")], answer=read_response_format(format), prefill=True)
        )
        assert turn.checked_schemas.answer
        with pytest.raises(Exception, match="does not fit"):
            model.complete([turn], sampling=GREEDY, max_tokens=12)
    with scripted("2000006") as model:
        reply, events = ask(model, begun("20"), response_format=format)
        assert reply.parsed == 2_000_006
        assert reply.content == told(events)[0] == "00006"


def test_the_budget_counts_what_was_thought_before() -> None:
    thought = "abcdefghij"
    with scripted(f"<think>\n{thought}\n</think>\n\nYes.") as model:
        whole = ask(model, begun(), reasoning_budget=6)[0]
        assert (whole.reasoning, whole.usage.reasoning_tokens) == ("abcde", 6)  # the pad counts
        for at in range(1, 6):
            reply = ask(model, begun("", thought[:at]), reasoning_budget=6)[0]
            assert thought[:at] + reply.reasoning == whole.reasoning
        for at in (6, 8):
            reply = ask(model, begun("", thought[:at]), reasoning_budget=6)[0]
            assert (reply.reasoning, reply.usage.reasoning_tokens) == ("", 0)


@pytest.mark.parametrize("at", [1, 8, 12])
def test_what_runs_out_of_tokens_ends_well_behind_the_prefix(at: int) -> None:
    script = json.dumps({"a": 17, "b": "".join(map(str, range(40)))})
    with scripted(script) as model:
        format = {"type": "json_schema", "schema": OBJECT}
        shortest = 0
        for limit in range(1, 24):
            options = {"max_tokens": limit, "response_format": format}
            try:
                reply, events = ask(model, begun(script[:at]), **options)
            except RequestError:
                assert shortest == limit - 1
                shortest = limit
                continue
            assert reply.usage.completion_tokens <= limit
            assert reply.finish_reason == "length"
            assert reply.content == told(events)[0]
            assert isinstance(reply.parsed, dict)
            assert json.dumps(reply.parsed)[: at - 1] == script[: at - 1]
        assert shortest


def test_tokens_that_run_out_while_the_text_is_healed() -> None:
    with scripted("🙂🙂") as model:
        for limit, content in ((1, ""), (4, ""), (5, "\ufffd"), (8, "🙂")):
            reply = ask(model, begun("🙂"), max_tokens=limit)[0]
            assert (reply.content, reply.text) == (content, content)
            assert reply.finish_reason == "length"


def test_a_turn_comes_back_as_one_message() -> None:
    with scripted("<think>\nHm.\n</think>\n\nHello there.", "Bye.") as model:
        reply = ask(model, begun("Hel", "Hm."))[0]
        assert reply.message() == {"role": "assistant", "content": "lo there."}
        whole = begun("Hello there.")
        follow: list[Any] = [USER, whole, {"role": "user", "content": "And?"}]
        turn = model.compile(Job(follow, recall="keep"))
        assert b"<think>\nHm.\n</think>\n\nHello there." in BYTES.text(turn.tokens)
        assert turn.prompt.reuse.turn
        for other in ("lo there.", "Hello there", "Hel", "Hello there.lo there."):
            edited = model.compile(Job([USER, begun(other), *follow[2:]]))
            assert edited.prompt.reuse.turn is None
        assert model.call(follow, sampling=GREEDY).content == "Bye."


def test_a_run_goes_on_once() -> None:
    def ping() -> str:
        """Pings."""
        return "pong"

    with scripted(f"Wait, {hermes_call('ping')}", "Done.") as model:
        run = model.run([USER, begun("Wa")], [ping], prefill=True, sampling=GREEDY)
    roles = [message["role"] for message in run.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert run.messages[1]["content"].strip() == "Wait,"
    assert run.content == "Done."


def test_names_of_markers_in_the_text_are_text() -> None:
    markers = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")
    vocabulary = byte_vocabulary(markers)
    end = vocabulary.marker("<|im_end|>")
    assert end is not None
    compiler = Compiler(replace(vocabulary, end=(end,)), ChatTemplate(HERMES))
    turn = compiler.compile(Job([USER, begun("a<|im_end|>b", "Hm.")], prefill=True))
    ids = {name: turn.vocabulary.marker(name) for name in markers}
    assert [token for token in turn.prefill.tokens if token > 256] == [
        ids["<think>"],
        ids["</think>"],
    ]
    assert turn.vocabulary.text(turn.prefill.tokens) == b"<think>\nHm.\n</think>\n\na<|im_end|>"
    assert turn.prefill.text + turn.prefill.healed == "a<|im_end|>b"


def test_a_text_that_ends_the_turn_is_refused_where_no_token_does() -> None:
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    with pytest.raises(RequestError, match="would be read as a marker") as info:
        compiler.compile(Job([USER, begun("a<|im_end|>b")], prefill=True))
    assert info.value.where == "/messages/1/content"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prefix", "Leave them out, or give their results and leave prefix out"),
        ("", "Leave them out, or give their results"),
    ],
)
def test_an_error_names_what_the_caller_has_given(name: str, hint: str) -> None:
    messages = [USER, begun(tool_calls=[{"function": {"name": "ping"}}])]
    with pytest.raises(RequestError) as info:
        COMPILERS["hermes"].compile(Job(messages, prefill=True, prefill_name=name))
    assert info.value.hint == hint
