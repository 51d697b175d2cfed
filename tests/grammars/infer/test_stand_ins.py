"""Inference from stand-ins for templates, whose format is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import DetectError, Error
from grammars.infer.detection import Detection
from grammars.parse.render import render
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    TaggedArguments,
)
from grammars.wire.formats import HERMES
from tests.found_formats import infer

Message = Mapping[str, Any]


def chat(
    format: Format,
    *,
    end: str = "<|im_end|>\n",
    write: Callable[[ToolCall], ToolCall] = lambda call: call,
    refuses: Callable[[Message], bool] = lambda message: False,
) -> Any:
    """Renders conversations as a ChatML template with this format does."""

    def render_chat(
        messages: Sequence[Message],
        tools: Any = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        text, before = "", 0
        for message in messages:
            if refuses(message) or not isinstance(message["content"], str):
                raise Error("refused")
            calls = tuple(
                write(ToolCall(c["function"]["name"], c["function"]["arguments"], id=c["id"]))
                for c in message.get("tool_calls", ())
            )
            turn = Turn(message["content"], "", calls)
            written = message["content"]
            if message["role"] != "user":
                written = render(turn, format, state=State(calls=before))
            before += len(calls)
            text += f"<|im_start|>{message['role']}\n{written}{format.after * bool(calls)}{end}"
        return text + ("<|im_start|>assistant\n" if add_generation_prompt else "")

    return render_chat


def tagged(**fields: Any) -> TaggedArguments:
    return replace(TaggedArguments("<p=", ">", "</p>", "</call>"), **fields)


PYTHON = JsonStyle(
    quotes=("'", '"'), true=("True", "true"), false=("False", "false"), null=("None", "null")
)
CALLS: dict[str, Format] = {
    "JSON lines": Format(
        "inferred",
        (JsonCall("tool", "input"),),
        opening=(Marker("<calls>"), Literal("\n")),
        closing=(Literal("\n"), Marker("</calls>")),
        before="\n\n",
        between="\n",
        after="\n",
    ),
    "tight JSON with ids": Format(
        "inferred",
        (Marker("[CALL]"), JsonCall(style=JsonStyle(",", ":", True), id=CallId(), id_first=True)),
    ),
    "any ids": Format(
        "inferred",
        (
            Marker("<a>"),
            CallId("[a-zA-Z0-9_-]{1,64}"),
            Marker("<b>"),
            Name(),
            Literal(" with "),
            JsonArguments(),
            Marker("</a>"),
        ),
    ),
    "numbered calls": Format(
        "inferred",
        (
            Marker("<a>"),
            Literal("f/"),
            Name(),
            Literal("-"),
            CallIndex(1, "f/{name}-{index}"),
            Marker("<b>"),
            JsonArguments(),
        ),
    ),
    "calls numbered in each turn": Format(
        "inferred",
        (
            Literal('<a n="'),
            CallIndex(1, "", anew=True),
            Literal('">'),
            JsonCall(),
            Literal("</a>"),
        ),
        opening=(Marker("<all>"),),
        closing=(Marker("</all>"),),
    ),
    "calls whose member is their number in the turn": Format(
        "inferred",
        (Marker("<a>"), JsonCall(id=CallIndex(0, "", anew=True)), Marker("</a>")),
    ),
    "indented JSON": Format(
        "inferred",
        (JsonCall(style=JsonStyle(indent=2, level=1)),),
        opening=(Marker("Calls:"), Literal("\n[\n  ")),
        closing=(Literal("\n]"),),
        between=",\n  ",
    ),
    "a word": Format("inferred", (Marker("invoke|"), JsonCall())),
    "words on a line": Format("inferred", (Marker("Calls to make\n"), JsonCall()), between="\n"),
    "Python": Format("inferred", (Marker("<a>"), Name(), Literal(" "), JsonArguments(PYTHON))),
    "marked texts": Format(
        "inferred",
        (
            Marker("<a>"),
            Name(),
            JsonArguments(JsonStyle(",", ":", quotes=("«»",), escapes=False, bare_keys=True)),
        ),
    ),
    "tags": Format("inferred", (Marker("<call>"), Literal("n="), Name(), tagged())),
    "words of Python": Format(
        "inferred",
        (
            Marker("<call>"),
            Name(),
            Literal("\n"),
            tagged(true=("True", "true"), false=("False", "false"), style=PYTHON),
            Literal("\n"),
            Marker("</calls>"),
        ),
        between="\n",
    ),
    "types": Format(
        "inferred",
        (
            Marker("<call>"),
            Name(),
            tagged(
                after_key=" type=",
                kinds=(("string", "text"), ("array", "list"), ("", "json")),
                after_kind=">",
                empty=" none</call>",
            ),
        ),
    ),
    "calls in Python": Format(
        "inferred",
        (Name(), Literal("("), KeywordArguments(), Literal(")")),
        opening=(Marker("<calls>"), Literal("[")),
        closing=(Literal("]"), Marker("</calls>")),
        between=", ",
    ),
    "calls in Python on lines of their own": Format(
        "inferred",
        (
            Name(),
            Literal("("),
            KeywordArguments(",", ": ", style=JsonStyle(), quote="'"),
            Literal(")"),
        ),
        opening=(Marker("<calls>"), Literal("\n")),
        closing=(Literal("\n"), Marker("</calls>")),
        between="\n",
    ),
    "calls in Python, double quotes": Format(
        "inferred",
        (Name(), Literal("("), KeywordArguments(objects=PYTHON, quote='"'), Literal(")")),
        opening=(Marker("Tools:"), Literal(" ")),
        closing=(Literal("."),),
        between=" and ",
    ),
    "calls in Python with escapes": Format(
        "inferred",
        (Name(), Literal("("), KeywordArguments(style=JsonStyle(), quote=""), Literal(")")),
        opening=(Marker("<calls>"),),
        closing=(Marker("</calls>"),),
        between="; ",
    ),
    "strings of JSON in calls in Python": Format(
        "inferred",
        (Name(), Literal("("), KeywordArguments(strings=JsonStyle(), quote=""), Literal(")")),
        opening=(Marker("<calls>"),),
        closing=(Marker("</calls>"),),
        between="; ",
    ),
    "tags in the order of their keys": Format(
        "inferred", (Marker("<call>"), Name(), Literal("\n"), tagged(sorted_keys=True))
    ),
    "lines in the order of their keys": Format(
        "inferred",
        (
            Marker("<call>"),
            Name(),
            KeywordArguments(
                "\n.",
                " = ",
                style=JsonStyle(),
                quote="",
                first="\n.",
                sorted_keys=True,
            ),
            Literal("\n"),
            Marker("</call>"),
        ),
    ),
    "a bare list": Format(
        "inferred",
        (JsonCall("tool", "input"),),
        opening=(Literal("["),),
        closing=(Literal("]"),),
        between=", ",
    ),
    "bare objects": Format("inferred", (JsonCall(),), between=";"),
    "one call in a turn": Format("inferred", (Marker("<a>"), JsonCall()), single=True),
    "wrapped content": Format(
        "inferred", (Marker("<a>"), JsonCall()), contents=(Content("<text>", "</text>"),)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_format_that_no_template_has(name: str) -> None:
    format = CALLS[name]

    def refuses(message: Message) -> bool:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        only_nine = name == "tight JSON with ids" and any(len(id) != 9 for id in ids)
        return only_nine or (format.single and len(ids) > 1)

    found = infer(chat(format, refuses=refuses)).format
    assert found == replace(format, ends=("<|im_end|>",))


@pytest.mark.parametrize("sign", [" ", "(", "-", ""])
def test_a_word_as_in_prose_opens_no_call(sign: str) -> None:
    """An answer may hold it."""
    format = Format("inferred", (Marker("Invoke"), Literal(sign), JsonCall(), Literal(")")))
    with pytest.raises(DetectError, match="no tag opens a call: it begins with 'Invoke"):
        infer(chat(format))


def test_the_id_is_all_that_is_written() -> None:
    """It holds the name and the number."""
    source = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or () %}"
        "<call>{{ c.id }}<args>{{ c.function.arguments | tojson }}</call>{% endfor %}<end>"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    found = infer(ChatTemplate(source).render).format
    index = CallIndex(0, "functions.{name}:{index}")
    head = (Marker("<call>"), Literal("functions."), Name(), Literal(":"), index)
    assert found.call == (*head, Marker("<args>"), JsonArguments(), Marker("</call>"))


def conclusions(inference: Detection) -> dict[str, str]:
    return {row.probe: row.conclusion for row in inference.evidence}


def test_what_a_template_leaves_out_is_noted() -> None:
    def drop(call: ToolCall) -> ToolCall:
        kept = {key: value for key, value in call.arguments.items() if value is not None}
        return replace(call, arguments=kept)

    assert conclusions(infer(chat(HERMES, write=drop)))["null"] == "the template leaves this out"


@pytest.mark.parametrize(
    ("change", "probe"),
    [
        (lambda value: value.strip() if isinstance(value, str) else value, "with white space"),
        (lambda value: f"<{value}>" if value == "" else value, "an empty text"),
        (lambda value: round(value, 3) if isinstance(value, float) else value, "a tiny number"),
        (lambda value: str(value) if isinstance(value, list) else value, "an empty list"),
    ],
)
def test_what_a_template_changes_is_no_format(change: Callable[[Any], Any], probe: str) -> None:
    def write(call: ToolCall) -> ToolCall:
        return replace(call, arguments={k: change(v) for k, v in call.arguments.items()})

    with pytest.raises(DetectError, match=probe):
        infer(chat(HERMES, write=write))


def test_a_template_without_calls() -> None:
    with pytest.raises(DetectError, match="writes no tool calls"):
        infer(chat(HERMES, write=lambda call: replace(call, arguments={})))
    with pytest.raises(DetectError, match="refuses a plain conversation"):
        infer(chat(HERMES, refuses=lambda message: "tool_calls" in message))


def test_content_beside_calls_that_is_never_seen() -> None:
    format = replace(CALLS["wrapped content"], name="x")
    found = infer(chat(format, refuses=lambda m: bool("tool_calls" in m and m["content"])))
    assert found.format.contents == (Content("<text>", "</text>", calls=False),)
    assert conclusions(found)["content and a call"] == (
        "content next to a call is rejected or dropped"
    )
