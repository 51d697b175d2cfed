"""Ids of calls in the form of the model, for templates that write the ids of messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.errors import TemplateError
from constrained.prompt.messages import normalise
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.result_calls import list_calls, renumber
from grammars.wire.format import CallIndex, Format
from grammars.wire.variants import Handle

_FORM = 'Write {"id": "call_1", "type": "function", "function": {...}}'


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
