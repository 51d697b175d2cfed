"""Checks whether the chat template writes everything that it gets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import nodes
from jinja2.exceptions import SecurityError

from constrained.errors import TemplateError
from constrained.inspect.doctor.subject import QUESTION, Subject
from constrained.inspect.doctor.verdicts import Level, Verdict
from constrained.prompt.template.arrival_probes import (
    CALL,
    CONVERSATIONS,
    REPLY,
    RESULT,
    SYSTEM,
    TOOLS,
    USER,
    Arrival,
    Fate,
    Message,
    list_words,
    probe_arrivals,
    say,
)
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.conversation_forms import ConversationForm
from constrained.prompt.template.rendering import TemplateLimitError

_THOUGHT = "PROBE-THOUGHT"
_INSTEAD = "This project writes it into the prompt itself; other servers do not"
_IN_FORM = "This project writes it in another form; other servers do not"
_ANOTHER = "Use the template of the model's repository (--chat-template-file)"
_NAMES = re.compile(r"__\w+__|\bmro\b|\bfunc_globals\b|\bgi_frame\b|\bf_globals\b")


@dataclass(frozen=True)
class _DropProbe:
    """A conversation, and the texts from it that the prompt must contain."""

    what: str
    messages: Sequence[Message]
    texts: Sequence[str] = ()  # (): the words of the messages
    tools: Sequence[Message] = ()
    level: Level = Level.WARNING  # if one is missing, as what follows
    remedy: str = _INSTEAD
    needs: str = ""  # another probe that must not have failed; "": none


_LOOP = (USER, CALL, RESULT)
_THOUGHTFUL = (USER, {**CALL, "reasoning_content": _THOUGHT}, RESULT)
_PROBES = (
    _DropProbe("system messages", (SYSTEM, USER), remedy=_IN_FORM),
    _DropProbe(
        "earlier turns",
        (USER, REPLY, say("user", "HOTEL")),
        level=Level.FAILURE,
        remedy=_ANOTHER,
    ),
    _DropProbe("tools", (USER,), ("get_weather", "Forecast", "city"), TOOLS),
    _DropProbe("tool calls", _LOOP, ("DELTA",), TOOLS),
    _DropProbe(
        "a second call in a turn",
        CONVERSATIONS["two calls"],
        ("DELTA", "JULIET"),
        TOOLS,
        remedy=_IN_FORM,
        needs="tool calls",
    ),
    _DropProbe("results of tools", _LOOP, ("ECHO",), TOOLS),
    _DropProbe(
        "reasoning in a tool loop",
        _THOUGHTFUL,
        (_THOUGHT,),
        TOOLS,
        level=Level.NOTE,
        remedy="This project keeps it in the prompt anyway, until the next user message",
    ),
    _DropProbe(
        "reasoning of earlier questions",
        (*_THOUGHTFUL, REPLY, say("user", "HOTEL")),
        (_THOUGHT,),
        TOOLS,
        level=Level.NOTE,
        needs="reasoning in a tool loop",
        remedy="Most models are trained this way; --recall keep keeps it",
    ),
)


def check_template(subject: Subject) -> Iterator[Verdict]:
    parsed = subject.parsed
    if parsed is None:
        yield Verdict(
            Level.FAILURE,
            "there is no chat template",
            "A base model, or lost in the conversion: name one with --chat-template-file. Without "
            "one this project uses ChatML",
        )
        return
    if isinstance(parsed, TemplateError):
        yield Verdict(Level.FAILURE, parsed.message, parsed.hint or "")
        return
    if len(subject.templates) > 1:
        names = ", ".join(subject.templates)
        yield Verdict(
            Level.NOTE, f"there are several templates: {names}; the one for tools is examined"
        )
    yield from _find_reach(parsed)
    failed = _judge_plain(subject.plain)
    if failed is not None:
        yield failed
        return
    yield Verdict(Level.OK, "it runs, and writes the user's message")
    dropped: list[str] = []
    for probe in _PROBES:
        if probe.needs in dropped or (_THOUGHT in probe.texts and subject.block is None):
            continue
        verdict = _try(parsed, probe)
        if verdict.level > Level.OK:
            dropped.append(probe.what)
        yield verdict
    yield from _judge_arrivals(probe_arrivals(subject.selected.template))


def _judge_plain(text: str | TemplateError | None) -> Verdict | None:
    """Returns the failure of a template that does not write a question; None: it does."""
    if isinstance(text, str) and QUESTION in text:
        return None
    if not isinstance(text, TemplateError):
        return Verdict(Level.FAILURE, "it drops the user's message", _ANOTHER)
    what = "it fails on a question"
    if isinstance(text.__cause__, SecurityError) or isinstance(text, TemplateLimitError):
        what = "it is broken or hostile"
    return Verdict(Level.FAILURE, f"{what}: {text.message}", text.hint or _ANOTHER)


def _judge_arrivals(arrivals: Sequence[Arrival]) -> Iterator[Verdict]:
    """Yields a verdict for each form that the template needs, and for each kind of conversation
    that does not arrive."""
    needed: dict[ConversationForm, list[str]] = {}
    for arrival in arrivals:
        if arrival.fate in (Fate.LOST, Fate.REFUSED):
            text = f"{arrival.kind}: {arrival.fate}: {arrival.reason}"
            yield Verdict(Level.WARNING, text, "Such requests are refused")
        for form in arrival.forms:
            needed.setdefault(form, []).append(arrival.kind)
    for form, kinds in needed.items():
        text = f"some conversations are rewritten for it: {form} ({'; '.join(kinds)})"
        yield Verdict(Level.NOTE, text, facts={"form": form.name.lower(), "conversations": kinds})


def _try(template: ChatTemplate, probe: _DropProbe) -> Verdict:
    facts = {"what": probe.what}
    try:
        text = template.render(probe.messages, probe.tools or None)
    except TemplateLimitError as e:
        return Verdict(Level.FAILURE, f"with {probe.what}, {e.message}", e.hint or "", facts)
    except TemplateError as e:
        return Verdict(probe.level, f"it refuses {probe.what}: {e.message}", probe.remedy, facts)
    texts = probe.texts or list_words(probe.messages)
    missing = [part for part in texts if part not in text]
    if not missing:
        return Verdict(Level.OK, f"it writes {probe.what}", facts=facts, is_detail=True)
    problem = f"it drops {probe.what}"
    if len(missing) < len(texts):
        problem = f"it drops a part of {probe.what}: {', '.join(missing)}"
    return Verdict(probe.level, problem, probe.remedy, facts)


def _find_reach(template: ChatTemplate) -> Iterator[Verdict]:
    """Finds what a template reads that belongs to Python, not to a conversation."""
    found: dict[str, int] = {}
    for node in template.tree.find_all((nodes.Getattr, nodes.Const)):
        match node:
            case nodes.Getattr(attr=text) | nodes.Const(value=str(text)):
                pass
            case _:
                continue
        if _NAMES.search(text):
            found.setdefault(text, node.lineno)
    for text, line in found.items():
        yield Verdict(
            Level.FAILURE,
            f"it is hostile: line {line} accesses {text}, an internal of Python",
            "Do not use it: the sandbox of this project stops it, other programs may not",
            facts={"line": line, "name": text},
        )
