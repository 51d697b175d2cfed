"""Ids of calls as the model writes them, for templates that write the ids of the messages.

Kimi K2 was trained on ids that hold the name and count the calls (`functions.get_weather:0`). Its
template writes whatever id a message has, and clients send ids of other servers (`call_8Kx2...`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.messages import normalise
from constrained.template.chat_template import ChatTemplate
from grammars.wire.format import CallIndex, Format
from grammars.wire.variants import Handle

Message = Mapping[str, Any]


class CountedIdTemplate(ChatTemplate):
    """A chat template that gets the ids of calls and results in the form of the model.

    If an id of the conversation has another form, all calls are numbered anew, from 0.

    Args:
        template: writes the conversation.
        format: has a pattern of ids, see `find_id_pattern`.
    """

    def __init__(self, template: ChatTemplate, format: Format):
        super().__init__(template.source, name=template.name, **template.tokens)
        self._pattern = find_id_pattern(format)
        self._handles = _list_handles(format)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """As in `ChatTemplate.render`."""
        with self.failures():
            written = self._number(normalise(messages))
        return super().render(written, tools, add_generation_prompt=add_generation_prompt, **kwargs)

    def _number(self, messages: Sequence[Message]) -> Sequence[Message]:
        calls: list[Message] = []
        for message in messages:
            calls += message.get("tool_calls") or ()
        if all(self._is_own(call) for call in calls):
            return messages
        numbered: list[Message] = []
        count = 0
        ids: dict[Any, str] = {}  # of the messages, each with the id of its last call
        for message in messages:
            if written := message.get("tool_calls"):
                own: list[Message] = []
                for call in written:
                    ids[call.get("id")] = self._pattern.format(name=_read_name(call), index=count)
                    own.append({**call, "id": ids[call.get("id")]})
                    count += 1
                message = {**message, "tool_calls": own}
            elif message.get("tool_call_id") in ids:
                message = {**message, "tool_call_id": ids[message["tool_call_id"]]}
            numbered.append(message)
        return numbered

    def _is_own(self, call: Message) -> bool:
        """Returns whether the id of a call has a form that the model writes."""
        for handle in self._handles:
            _, id = handle.read(str(call.get("id")), (_read_name(call),)) or ("", None)
            if id is not None:
                return True
        return False


def find_id_pattern(format: Format) -> str:
    """Returns the pattern of ids that count calls, with `{name}` and `{index}`; "" if the model
    writes no such ids."""
    for node in format.call:
        if isinstance(node, CallIndex) and "{name}" in node.id:
            return node.id
    return ""


def _list_handles(format: Format) -> list[Handle]:
    """Lists the ways in which the model writes ids."""
    pattern = find_id_pattern(format)
    handles = [Handle((pattern,), id=pattern)]
    for variant in format.variants:
        handles += [node for node in variant if isinstance(node, Handle)]
    return handles


def _read_name(call: Message) -> str:
    function = call.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else ""
