"""Conversations in OpenAI's form: read into one normal form, written as templates want them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from constrained.errors import TemplateError

SYSTEM_ROLES = ("system", "developer")
RESULT_ROLES = ("tool", "function")
REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")
"""Names under which clients give the reasoning of a message."""
TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
"""Types of the parts of content that are text, in all dialects."""
_FORM = 'Write [{"role": "user", "content": "..."}]'
_NOTHING = (None, "", "null", "None", [])
"""What clients write as the arguments of a call without arguments."""


def copy_json(value: Any) -> Any:
    """Copies JSON data: mappings become dicts, lists and tuples lists; anything else is shared."""
    if isinstance(value, Mapping):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [copy_json(item) for item in value]
    return value


def normalise(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies a conversation (OpenAI chat form) into the form that rendering starts from: no
    developer messages; arguments are objects where they are JSON text of one or empty; missing
    content is "", but next to tool calls None. Parts that are no text become a note, see
    `find_noted`. TemplateError: it is no conversation."""
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        raise TemplateError("messages are not an array", where="/messages", hint=_FORM)
    if not messages:
        raise TemplateError("no messages", where="/messages", hint=_FORM)
    normal = [_normal_message(message, f"/messages/{i}") for i, message in enumerate(messages)]
    for number in find_noted([message["role"] for message in normal]):
        normal[number]["content"] = note_left_out(normal[number]["content"])
    return normal


def _normal_message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise TemplateError("a message is not an object", where=where, hint=_FORM)
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise TemplateError("a message has no role", where=f"{where}/role", hint=_FORM)
    normal = copy_json(message) | {"role": "system" if role == "developer" else role}
    if not normal.get("tool_calls"):
        normal.pop("tool_calls", None)  # clients write null and [], which templates do not expect
    elif not isinstance(normal["tool_calls"], list):
        raise TemplateError("the calls of a message are not an array", where=f"{where}/tool_calls")
    for function in _functions(normal):
        function["arguments"] = read_arguments(function.get("arguments"))
    normal["content"] = normal.get("content") or (None if "tool_calls" in normal else "")
    return normal


def _name_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    reasoning = read_reasoning(message)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _functions(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the `function` of each call; other shapes are left to the template to refuse."""
    functions = list[dict[str, Any]]()
    for call in message.get("tool_calls", ()):
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            functions.append(call["function"])
    return functions


def read_function(call: Any, where: str) -> tuple[str, Any]:
    """Returns name and arguments of a call in normal form; TemplateError: it is none."""
    match call:
        case {"function": {"name": str(name), "arguments": arguments}}:
            return name, arguments
        case _:
            hint = 'A call is {"id": ..., "type": "function", "function": {"name", "arguments"}}'
            raise TemplateError("a tool call without a function", where=where, hint=hint)


def read_arguments(arguments: Any) -> Any:
    """Returns the arguments of a call. Models write the object twice, and the first one counts;
    text that is no object, such as a cut one, stays text."""
    if not isinstance(arguments, str):
        return {} if arguments in _NOTHING else arguments
    text = arguments.strip()
    if text in _NOTHING:
        return {}
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (RecursionError, ValueError):
        return arguments
    is_whole = end == len(text) or text[end:].lstrip().startswith("{")
    return value if isinstance(value, dict) and is_whole else arguments


def find_other_arguments(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Returns the JSON pointer of the first arguments, in normal form, that are no object."""
    for i, message in enumerate(messages):
        for j, call in enumerate(message.get("tool_calls", ())):
            match call:
                case {"function": {"arguments": arguments}} if not isinstance(arguments, dict):
                    return f"/messages/{i}/tool_calls/{j}/function/arguments"
                case _:
                    pass
    return None


def find_noted(roles: Sequence[Any]) -> frozenset[int]:
    """Returns the numbers of the messages in which a note takes the place of a picture or a file:
    results, and what the user has said before the last answer or together with results. A client
    sends these again each time: a refusal would end the conversation for good. What the user asks
    now is refused."""
    asked = 0  # where the messages since the last answer begin
    for number, role in enumerate(roles[:-1]):
        if role == "assistant":
            asked = number + 1
    if any(role in RESULT_ROLES for role in roles[asked:]):
        asked = len(roles)
    noted = set[int]()
    for number, role in enumerate(roles):
        if role in RESULT_ROLES or (role == "user" and number < asked):
            noted.add(number)
    return frozenset(noted)


def is_left_out(part: Any) -> bool:
    """Returns whether a part of content, in any dialect, is no text: a picture, a file."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind not in TEXT_PARTS


def note_left_out(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [write_note(part["type"]) if is_left_out(part) else part for part in content]


def write_note(kind: str) -> dict[str, str]:
    name = kind.removeprefix("input_").removesuffix("_url")
    return {"type": "text", "text": f"[{name} left out: this model reads text]"}


def check_parts(messages: Sequence[Mapping[str, Any]]) -> None:
    """Refuses parts that are no text in what the user asks, with their JSON pointer."""
    for i, message in enumerate(messages):
        content = message["content"] if message["role"] == "user" else None
        for j, part in enumerate(content if isinstance(content, list) else ()):
            if is_left_out(part):
                text = f"a part of type {part['type']!r} cannot be read: this model reads text"
                hint = "Leave it out, or describe it"
                raise TemplateError(text, where=f"/messages/{i}/content/{j}", hint=hint)


def is_text_parts(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    )


def join_text_parts(content: Any) -> Any:
    """Joins content that consists of text parts, a line each; returns other content unchanged."""
    if is_text_parts(content):
        return "\n".join(part["text"] for part in content)
    return content


def find_reasoning_name(message: Mapping[str, Any]) -> str:
    for name in REASONING_NAMES:
        if message.get(name) is not None:
            return name
    return REASONING_NAMES[0]


def read_reasoning(message: Mapping[str, Any]) -> Any:
    """Returns the reasoning of a message, under any of its known keys; None if it has none."""
    return message.get(find_reasoning_name(message))


def is_silent(message: Mapping[str, Any]) -> bool:
    """Returns whether a message of the assistant in normal form has neither content nor calls."""
    return message["role"] == "assistant" and message["content"] == ""


def read_call_ids(messages: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    ids: list[Any] = []
    for message in messages:
        ids.append(message.get("tool_call_id"))
        for call in message.get("tool_calls") or ():
            if isinstance(call, dict):
                ids.append(call.get("id"))
    return frozenset(id for id in ids if isinstance(id, str))


class MessageSpelling(NamedTuple):
    """How messages in normal form are written for a template.

    Args:
        blank: the content of an assistant message with neither content nor calls.
        named: reasoning gets the names that templates read, as in transformers.
        empty: replaces the content None.
        as_text: arguments are the JSON text of an object.
        joined: parts of text become one text, a line each, as in llama.cpp; few templates support
            parts.
    """

    blank: str = ""
    named: bool = False
    empty: str | None = ""
    as_text: bool = False
    joined: bool = False

    def write(self, messages: list[dict[str, Any]]) -> list[Any]:
        written = copy_json(messages)
        if self.named:
            written = [_name_reasoning(message) for message in written]
        for message in written:
            if is_silent(message):
                message["content"] = self.blank
            if message["content"] is None:
                message["content"] = self.empty
            if self.joined:
                message["content"] = join_text_parts(message["content"])
            for function in _functions(message):
                if self.as_text and isinstance(function["arguments"], dict):
                    function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return written
