"""Finds the form of calls and results that a template expects instead of OpenAI's: fields that name
the function, older APIs (`function_call`), or a message with a special role. It is found in its
syntax tree, and tested by rendering. Ids of calls get the form of the model, too."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice, product
from typing import Any

from jinja2 import nodes

from constrained.errors import TemplateError
from constrained.prompt.messages import normalise, read_function
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.result_calls import list_calls, renumber
from grammars.infer.detection import Detection, Evidence, NoFormat
from grammars.infer.find import find_format
from grammars.infer.probes import KEYS, NAMES, VALUES, ProbedTemplate, plain_id, show_message
from grammars.infer.reasoning import probe
from grammars.turn import ToolCall, Turn
from grammars.wire.format import CallIndex, Format
from grammars.wire.variants import Handle

MAX_WORDS = 40
"""The maximum number of fields, or roles, for which forms are tried."""

_ARGUMENTS = {KEYS[0]: VALUES[0]}
_CALL = show_message(Turn(calls=(ToolCall(NAMES[0], _ARGUMENTS, id=plain_id("", 0)),)))
_RESULT = "PROBE-OF-A-RESULT"
_RESULT_MESSAGE = {"role": "tool", "tool_call_id": plain_id("", 0), "content": _RESULT}
_STANDARD_FIELDS = frozenset(["role", "content", "tool_calls", "tool_call_id"])
_STANDARD_ROLES = frozenset(["system", "developer", "user", "assistant"])
_FORM = 'Write {"id": "call_1", "type": "function", "function": {...}}'
Message = dict[str, Any]


class CallForm(StrEnum):
    NAME = "the field {!r} of an assistant message names the function, its content is the arguments"
    CALL = "the field {!r} of an assistant message is the call"
    CALLS = "the field {!r} of an assistant message lists the calls"
    ROLE = "the content of a message of role {!r} is the call"


@dataclass(frozen=True)
class MessageForm:
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
    def __init__(self, template: ChatTemplate, message_form: MessageForm):
        super().__init__(template.source, name=template.name, **template.tokens)
        self.kwargs = template.kwargs
        self.message_form = message_form

    @cached_property
    def writes_text_arguments(self) -> bool:
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


class CountedIdTemplate(ChatTemplate):
    """A chat template that gets ids in the form of the model. If one has another form, all calls
    are numbered anew, from 0; results without an id belong to the calls in their order.

    Kimi K2 was trained on ids that hold the name and count the calls (`functions.get_weather:0`).
    Its template writes whatever id a message has, and clients send ids of other servers
    (`call_8Kx2...`), the same id twice, or none.
    """

    def __init__(self, template: ChatTemplate, format: Format):
        super().__init__(template.source, name=template.name, **template.tokens)
        self.kwargs = template.kwargs
        self._pattern = find_id_pattern(format)
        self._handles = _list_handles(format)

    def rewrite(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        messages = normalise(messages)
        for place, message in enumerate(messages):
            _check_ids(message, f"/messages/{place}")
        calls = [*list_calls(messages)]
        ids = [call.get("id") or "" for call in calls]
        if not all(map(self._is_own, calls)):
            names = enumerate(map(_read_name, calls))
            ids = [self._pattern.format(name=name, index=index) for index, name in names]
        return renumber(messages, ids)

    def _is_own(self, call: Mapping[str, Any]) -> bool:
        for handle in self._handles:
            _, id = handle.read(call.get("id") or "", (_read_name(call),)) or ("", None)
            if id is not None:
                return True
        return False


def _check_ids(message: Mapping[str, Any], where: str) -> None:
    for place, call in enumerate(message.get("tool_calls", ())):
        call_pointer = f"{where}/tool_calls/{place}"
        if not isinstance(call, Mapping):
            raise TemplateError("a call is not an object", where=call_pointer, hint=_FORM)
        _check_id(call.get("id"), f"{call_pointer}/id")
    _check_id(message.get("tool_call_id"), f"{where}/tool_call_id")


def _check_id(id: object, where: str) -> None:
    if id is not None and not isinstance(id, str):
        raise TemplateError("the id of a call is not a string", where=where, hint=_FORM)


def find_id_pattern(format: Format) -> str:
    """Returns the pattern of ids that count calls, with `{name}` and `{index}`; "": there is
    none."""
    for node in format.call:
        if isinstance(node, CallIndex) and "{name}" in node.id:
            return node.id
    return ""


def _list_handles(format: Format) -> list[Handle]:
    pattern = find_id_pattern(format)
    handles = [Handle((pattern,), id=pattern)]
    for variant in format.variants:
        handles += [node for node in variant if isinstance(node, Handle)]
    return handles


def _read_name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else ""
