"""Calls and content as plain text of their message, and the example that teaches a format."""

from collections.abc import Mapping, Sequence
from typing import Any

from constrained.errors import TemplateError
from constrained.messages import is_text_parts
from grammars.errors import RenderError, ToolError
from grammars.render import render
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import Format

EXAMPLES = (
    ToolCall("example_tool", {"text": "hello", "count": 2}),
    ToolCall("example_tool", {"text": "goodbye", "count": 3}),
)
_SEVERAL = "To make several calls, write them "

Message = dict[str, Any]


def write_example(format: Format, count: int = 1) -> str:
    """So many calls of `example_tool`, as the model has to write them.

    Raises:
        RenderError, ToolError: the format cannot write them.
    """
    return render(Turn(calls=EXAMPLES[:count]), format, state=State(calls=0))


def describe_several(format: Format) -> str:
    """What the instructions say of several calls, and of text beside a call."""
    alone = " A call stands alone, without any other text." if format.bare else ""
    if format.single:
        return "Make one call at a time." + alone
    if format.opening or format.closing or format.between.strip():
        return f"{_SEVERAL}in this form:\n{write_example(format, 2)}\n"
    return f"{_SEVERAL}one after the other." + alone


def write_calls(messages: Sequence[Message], format: Format) -> list[Message]:
    """Calls become text behind the content of their message.

    Raises:
        TemplateError: the format cannot write a call.
    """
    written, before = list[Message](), 0
    for i, message in enumerate(messages):
        if "tool_calls" in message:
            written.append(_with_calls(message, format, before, f"/messages/{i}"))
            before += len(message["tool_calls"])
        else:
            written.append(message)
    return written


def _with_calls(message: Message, format: Format, before: int, where: str) -> Message:
    calls = [
        _read_call(call, format, f"{where}/tool_calls/{i}")
        for i, call in enumerate(message["tool_calls"])
    ]
    content = read_content(message, where)
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    # A call that no marker opens would run into the text.
    space = format.before or ("\n" if format.bare else "")
    head = content + space if content.strip() else ""
    written = _write_turn(calls, format, before, f"{where}/tool_calls")
    return rest | {"content": head + written + format.after}


def _read_call(call: Any, format: Format, where: str) -> ToolCall:
    match call:
        case {"function": {"name": str(name), "arguments": arguments}}:
            # Arguments that are no object, as a model in trouble writes them, are kept as well.
            return ToolCall(name, arguments, id=_read_id(call.get("id"), name, format))
        case _:
            hint = 'A call is {"id": ..., "type": "function", "function": {"name", "arguments"}}'
            raise TemplateError("a tool call without a function", where=where, hint=hint)


def _read_id(id: Any, name: str, format: Format) -> str | None:
    """The id, if the format can write it; else the format counts."""
    if not isinstance(id, str):
        return None
    try:
        render(Turn(calls=(ToolCall(name, {}, id=id),)), format)
    except (RenderError, ToolError):
        return None
    return id


def _write_turn(calls: Sequence[ToolCall], format: Format, before: int, where: str) -> str:
    """All calls of a message, numbered as the model has to number them."""
    try:
        return render(Turn(calls=tuple(calls)), format, state=State(calls=before))
    except (RenderError, ToolError, AttributeError) as error:
        for i, call in enumerate(calls):
            try:
                render(Turn(calls=(call,)), format)
            except (RenderError, ToolError, AttributeError) as e:
                raise _refuse(format, e, f"{where}/{i}") from e
        raise _refuse(format, error, where) from error


def _refuse(format: Format, error: Exception, where: str) -> TemplateError:
    message = f"format {format.name} cannot write this call: {error}"
    return TemplateError(message, where=where, hint="Leave it out of the messages")


def read_content(message: Mapping[str, Any], where: str) -> str:
    """The text of a message.

    Raises:
        TemplateError: its content is something else.
    """
    content = message["content"]
    if is_text_parts(content):
        return "\n".join(part["text"] for part in content)
    if not isinstance(content, str | None):
        hint = "Give it as text; this chat template knows nothing else"
        role = message["role"]
        raise TemplateError(
            f"content of role {role} is no text", where=f"{where}/content", hint=hint
        )
    return content or ""
