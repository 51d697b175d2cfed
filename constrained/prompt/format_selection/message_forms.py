"""Finds the form of calls and results that a template expects instead of OpenAI's: fields that name
the function, older APIs (`function_call`), or a message with a special role. It is found in its
syntax tree, and tested by rendering."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice, product
from typing import Any

from jinja2 import nodes

from constrained.prompt.messages import normalise, read_function
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import Detection, Evidence, NoFormat
from grammars.infer.find import find_format
from grammars.infer.probes import KEYS, NAMES, VALUES, ProbedTemplate, plain_id, show_message
from grammars.infer.reasoning import probe
from grammars.turn import ToolCall, Turn

MAX_WORDS = 40
"""The maximum number of fields, or roles, for which forms are tried."""

_ARGUMENTS = {KEYS[0]: VALUES[0]}
_CALL = show_message(Turn(calls=(ToolCall(NAMES[0], _ARGUMENTS, id=plain_id("", 0)),)))
_RESULT = "PROBE-OF-A-RESULT"
_RESULT_MESSAGE = {"role": "tool", "tool_call_id": plain_id("", 0), "content": _RESULT}
_STANDARD_FIELDS = frozenset(["role", "content", "tool_calls", "tool_call_id"])
_STANDARD_ROLES = frozenset(["system", "developer", "user", "assistant"])
Message = dict[str, Any]


class CallForm(StrEnum):
    NAME = "the field {!r} of an assistant message names the function, its content is the arguments"
    CALL = "the field {!r} of an assistant message is the call"
    CALLS = "the field {!r} of an assistant message lists the calls"
    ROLE = "the content of a message of role {!r} is the call"


@dataclass(frozen=True)
class MessageForm:
    """The form in which a template expects calls and results."""

    call_form: CallForm
    word: str
    arguments_as_text: bool = False
    result_role: str = "tool"

    def describe(self) -> str:
        return f"{self.call_form.format(self.word)}; results have the role {self.result_role!r}"

    def write(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Converts messages in normal form; TemplateError: a call has no function."""
        names: dict[Any, str] = {}  # by the id of the call
        for i, message in enumerate(messages):
            if "tool_calls" in message:
                calls: list[Message] = []
                for call in message["tool_calls"]:
                    name, arguments = read_function(call, f"/messages/{i}")
                    calls.append({"name": name, "arguments": arguments})
                for call, written in zip(message["tool_calls"], calls, strict=True):
                    names[call.get("id")] = written["name"]
                yield from self._write_calls(message, calls)
            elif message["role"] == "tool":
                named = {"name": names.get(message.get("tool_call_id"), "")}
                yield {**named, **message, "role": self.result_role}
            else:
                yield message

    def _write_calls(self, message: Message, calls: Sequence[Message]) -> Iterator[Message]:
        """Yields the messages for one with calls. Only lists of calls can be in a message with
        content; the rest of the message, such as its reasoning, is in the first one."""
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        if self.call_form is CallForm.CALLS:
            yield {**rest, self.word: [self._spell(call) for call in calls]}
            return
        if rest["content"]:
            yield rest
            rest = {"role": "assistant"}
        for call in calls:
            yield {**rest, **self._write_call(call)}
            rest = {"role": "assistant"}

    def _write_call(self, call: Message) -> Message:
        match self.call_form:
            case CallForm.NAME:
                return {self.word: call["name"], "content": _write_json(call["arguments"])}
            case CallForm.ROLE:
                return {"role": self.word, "content": _write_json(call)}
            case _:
                return {self.word: self._spell(call), "content": ""}

    def _spell(self, call: Message) -> Message:
        if self.arguments_as_text:
            return {**call, "arguments": _write_json(call["arguments"])}
        return call


class MessageFormTemplate(ChatTemplate):
    """A chat template that gets calls and results in its own form."""

    def __init__(self, template: ChatTemplate, message_form: MessageForm):
        super().__init__(template.source, name=template.name, **template.tokens)
        self.kwargs = template.kwargs
        self.message_form = message_form

    @cached_property
    def writes_text_arguments(self) -> bool:
        """As in `ChatTemplate`; its calls may have any arguments."""
        return True

    def rewrite(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        return list(self.message_form.write(normalise(messages)))


def find_message_form(template: ChatTemplate) -> tuple[MessageForm, Detection] | NoFormat:
    """Finds the form in which a template expects calls, and the wire format that it then teaches.
    There is none if it writes calls of no form, or its calls cannot be parsed."""
    refusal: NoFormat | None = None
    for message_form in _list_written(template):
        found = find_format(probe(MessageFormTemplate(template, message_form).render))
        if isinstance(found, NoFormat):
            refusal = refusal or NoFormat(f"{message_form.describe()}, but {found.message}")
            continue
        evidence = Evidence("calls in messages of another form", "", message_form.describe())
        return message_form, replace(found, evidence=(evidence, *found.evidence))
    return refusal or NoFormat("no field or role that the template reads holds a call")


def _list_written(template: ChatTemplate) -> Iterator[MessageForm]:
    roles = _list_roles(template.tree)
    forms = (CallForm.NAME, CallForm.CALL, CallForm.CALLS)
    candidates = [*product(_list_fields(template.tree), forms)]
    candidates += [(role, CallForm.ROLE) for role in roles]
    for word, call_form in candidates:
        message_form = _prove_call(template, MessageForm(call_form, word))
        if message_form is not None:
            yield from islice(_list_with_results(template, message_form, roles), 1)


def _prove_call(template: ChatTemplate, message_form: MessageForm) -> MessageForm | None:
    """Returns the form if the template writes its calls where the model's turn begins."""
    text = _write_json(_ARGUMENTS)
    # A template that writes arguments as they are needs text; one that encodes them as JSON needs
    # objects.
    as_text = replace(message_form, arguments_as_text=True)
    is_field = message_form.call_form in (CallForm.CALL, CallForm.CALLS)
    if is_field and text in _try(template, as_text, _CALL):
        message_form = as_text
    written = _try(template, message_form, _CALL)
    holds_call = NAMES[0] in written and VALUES[0] in written
    if message_form.call_form is CallForm.ROLE:  # it could be the role of results instead
        prompt = _try(template, message_form, opening=True)
        holds_call = holds_call and bool(prompt) and written.startswith(prompt)
    return message_form if holds_call else None


def _list_with_results(
    template: ChatTemplate, message_form: MessageForm, roles: Sequence[str]
) -> Iterator[MessageForm]:
    known = [role for role in roles if role != "tool"]
    known.insert(0 if "tool" in roles else len(known), "tool")
    for role in known:
        if message_form.call_form is CallForm.ROLE and role == message_form.word:
            continue
        tried = replace(message_form, result_role=role)
        if _RESULT in _try(template, tried, _CALL, _RESULT_MESSAGE):
            yield tried


def _try(
    template: ChatTemplate, message_form: MessageForm, *messages: Message, opening: bool = False
) -> str:
    chat = ProbedTemplate(MessageFormTemplate(template, message_form).render, None)
    return chat.render(*messages, with_tools=False, opening=opening)


def _list_fields(tree: nodes.Template) -> list[str]:
    """Lists the names of fields that a template reads, in its order; []: there are too many."""
    found: dict[str, None] = {}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Compare)):
        match node:
            case nodes.Getattr(attr=name):
                found[name] = None
            case nodes.Getitem(arg=nodes.Const(value=str(name))):
                found[name] = None
            case nodes.Call(
                node=nodes.Getattr(attr="get"), args=[nodes.Const(value=str(name)), *_]
            ):
                found[name] = None
            case _:
                pass
    return _limit(found, _STANDARD_FIELDS)


def _list_roles(tree: nodes.Template) -> list[str]:
    """Lists the texts that a template compares a role with; []: there are too many."""
    names = {"role"}  # of variables that hold a role
    for assignment in tree.find_all(nodes.Assign):
        if isinstance(assignment.target, nodes.Name) and _reads_role(assignment.node, set()):
            names.add(assignment.target.name)
    found: dict[str, None] = {}
    for comparison in tree.find_all(nodes.Compare):
        if not any(_reads_role(part, names) for part in comparison.iter_child_nodes()):
            continue
        for constant in comparison.find_all(nodes.Const):
            if isinstance(constant.value, str) and constant.value != "role":
                found[constant.value] = None
    return _limit(found, _STANDARD_ROLES)


def _reads_role(node: nodes.Node, names: set[str]) -> bool:
    match node:
        case nodes.Operand(expr=expr):
            return _reads_role(expr, names)
        case nodes.Getattr(attr="role") | nodes.Getitem(arg=nodes.Const(value="role")):
            return True
        case nodes.Call(node=nodes.Getattr(attr="get"), args=[nodes.Const(value="role"), *_]):
            return True
        case nodes.Name(name=name):
            return name in names
        case _:
            return False


def _limit(found: Mapping[str, None], known: frozenset[str]) -> list[str]:
    words = [word for word in found if word not in known]
    return words if len(words) <= MAX_WORDS else []


def _write_json(value: Any) -> str:
    if isinstance(value, str):  # invalid arguments of a model, which are not an object
        return value
    return json.dumps(value, ensure_ascii=False)
