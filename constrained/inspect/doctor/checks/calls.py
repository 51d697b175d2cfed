"""Checks in which format the model writes calls, and which values cannot be read back."""

from collections.abc import Iterator
from functools import cache

from constrained.errors import TemplateError
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict
from constrained.prompt.format_selection.generic import HARDLY_CALLS
from constrained.prompt.format_selection.template_facts import find_facts
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import NoFormat, Origin
from grammars.infer.probes import (
    ARGUMENTS,
    KEYS,
    NAMES,
    ProbedTemplate,
    distinct_id,
    make_parameters,
)
from grammars.infer.reasoning import find_state
from grammars.parse.parser import parse
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.numbers import are_equal
from grammars.turn import Tool, Turn
from grammars.wire.format import Format, JsonCall

_ORIGINS = {
    Origin.INFERRED: "inferred from what the template writes, and verified against it",
    Origin.REGISTERED: "known, and found in what the template writes",
    Origin.SHOWN: "shown by the prompt around the tools",
    Origin.GENERIC: "explained in the prompt by this project",
    Origin.CHOSEN: "chosen",
}
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}
_TYPES |= {list: "array", dict: "object", type(None): "null"}
_MAX_SHOWN = 6


def check_calls(subject: Subject) -> Iterator[Verdict]:
    if subject.template is None:
        return
    found = subject.selected
    facts = {"format": found.format.name, "origin": found.origin.value}
    level = Level.OK
    if found.origin in (Origin.SHOWN, Origin.GENERIC):
        level = Level.WARNING
    text = f"calls are in the format {found.format.name}: {_ORIGINS[found.origin]}"
    remedy = ""
    if found.origin is Origin.GENERIC:
        remedy = HARDLY_CALLS
    yield Verdict(level, text, remedy, facts)
    if found.notice:
        yield Verdict(Level.NOTE, found.notice)
    if found.format.single:
        yield Verdict(Level.NOTE, "a turn has one call: the template writes no second one")
    if found.origin in (Origin.INFERRED, Origin.REGISTERED):
        yield from _judge_lossy(subject, found.format)
        yield from _compare_stated(subject.template, found.format)


def _compare_stated(template: ChatTemplate, written: Format) -> Iterator[Verdict]:
    """Compares the example of a call in the prompt with the calls of the history."""
    stated = find_facts(template).stated
    if isinstance(stated, NoFormat):  # it has no example, as most prompts
        return
    if _differ(stated.format, written):
        (sign,) = stated.evidence
        yield Verdict(
            Level.WARNING,
            f"{sign.conclusion}, but the history has calls in another form, which is enforced",
            "Correct the template (--chat-template-file), or name a format (--tool-format)",
        )


def _differ(stated: Format, written: Format) -> bool:
    """Returns whether calls have other markers in front, or other keys."""
    openers = [format.opener.text.strip() for format in (stated, written) if format.opener]
    keys = [
        (hole.name_key, hole.arguments_key)
        for hole in (stated.hole, written.hole)
        if isinstance(hole, JsonCall)
    ]
    return len(set(openers)) > 1 or len(set(keys)) > 1


def _judge_lossy(subject: Subject, format: Format) -> Iterator[Verdict]:
    lossy = find_lossy(subject, format)
    if not lossy:
        text = "every kind of value in the history is read back unchanged"
        yield Verdict(Level.OK, text, is_detail=True)
        return
    shown = ", ".join(list(lossy)[:_MAX_SHOWN])
    if len(lossy) > _MAX_SHOWN:
        shown += f" and {len(lossy) - _MAX_SHOWN} more"
    yield Verdict(
        Level.NOTE,
        f"the template changes arguments in the history that are {shown}",
        "The model sees its earlier calls changed; calls that it writes are read exactly",
        facts={"lossy": lossy},
    )


def find_lossy(subject: Subject, format: Format) -> dict[str, str]:
    """Finds the kinds of values that are read back as something else, with the reasons."""
    template = subject.template
    if template is None:
        raise TemplateError("there is no usable chat template")
    chat = ProbedTemplate(template.render, format.reasoning)
    (call,) = chat.calls({KEYS[0]: "x"})
    if call.name not in (chat.answer(Turn(calls=(call,))) or ""):
        chat = ProbedTemplate(template.render, format.reasoning, scheme=distinct_id)
    lossy: dict[str, str] = {}
    for kind, value in ARGUMENTS.items():
        turn = Turn(calls=chat.calls({KEYS[0]: value}))
        read = _read_back(chat, turn, format, _lower_tools(_TYPES[type(value)]))
        if read is None:
            lossy[kind] = "refused"
        elif not read.calls:
            lossy[kind] = "no call"
        elif KEYS[0] not in read.calls[0].arguments:
            lossy[kind] = "left out"
        elif not are_equal(read.calls[0].arguments[KEYS[0]], value):
            lossy[kind] = "another value"
    return lossy


def _read_back(
    chat: ProbedTemplate, turn: Turn, format: Format, tools: tuple[Tool, ...]
) -> Turn | None:
    """Parses a turn of the history; None: the template refuses it."""
    answer, opened, closed = chat.answer(turn), chat.ask(opening=True), chat.ask()
    if answer is None or opened is None or closed is None:
        return None
    if answer.startswith(opened):  # so that it is the text that the model would write
        state = find_state(opened, closed, format, calls=0)
        return parse(answer.removeprefix(opened), format, tools, state)
    return parse(chat.strip(chat.body(turn) or ""), format, tools)


@cache
def _lower_tools(kind: str) -> tuple[Tool, ...]:
    properties: dict[str, Json] = {key: {"type": kind} for key in KEYS}
    schema = lower(make_parameters(properties))
    return tuple(Tool(name, schema) for name in NAMES)
