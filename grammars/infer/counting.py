"""How a template counts calls: over the conversation, or in each turn anew."""

from dataclasses import replace

from grammars.errors import DetectError, RenderError, ToolError
from grammars.infer.probes import AGAIN, KEYS, NAMES, VALUES, ProbedTemplate, show_message
from grammars.render import render
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import CallIndex, Format, JsonCall, Node


def find_counting(chat: ProbedTemplate, format: Format) -> Format:
    """The format, with the way in which the template counts the calls of a second turn.

    Raises:
        DetectError: it counts them in neither way.
    """
    anew = replace(format, call=tuple(map(_count_anew, format.call)))
    if anew == format:
        return format
    first, second = (
        ToolCall(NAMES[0], {KEYS[0]: VALUES[i]}, id=chat.scheme(NAMES[0], i)) for i in range(2)
    )
    text = _show_turns(chat, first, second)
    if text is None:
        return format
    for candidate in (format, anew):
        written = _write(second, candidate)
        if written and written in text:
            return candidate
    raise DetectError(f"calls of a second turn are counted in an unknown way: {text!r}")


def _show_turns(chat: ProbedTemplate, first: ToolCall, second: ToolCall) -> str | None:
    """What the template writes for two turns of one call each; None if it refuses them, whether a
    question stands between them or not."""
    result = {"role": "tool", "tool_call_id": first.id, "name": first.name, "content": "1"}
    again = {"role": "user", "content": AGAIN}
    one, two = show_message(Turn(calls=(first,))), show_message(Turn(calls=(second,)))
    text = chat.ask(one, result, two)
    return chat.ask(one, result, again, two) if text is None else text


def _write(call: ToolCall, format: Format) -> str:
    """The second call of a conversation; "" where the format cannot write it."""
    try:
        return render(Turn(calls=(call,)), format, state=State(calls=1)).strip()
    except (RenderError, ToolError):
        return ""


def _count_anew(node: Node) -> Node:
    """The node, where each turn counts its calls from the first again; as ids such numbers would
    not tell the calls of two turns apart."""
    match node:
        case CallIndex():
            return replace(node, anew=True, id="")
        case JsonCall(id=CallIndex() as index):
            return replace(node, id=replace(index, anew=True, id=""))
        case _:
            return node
