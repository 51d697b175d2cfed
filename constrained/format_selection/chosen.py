"""A tool format that the user chooses, in place of the one that the chat template teaches.

What is taught is what is enforced: the prompt explains the format with an example and writes the
calls of the history in it, or the start fails.
"""

import os
from dataclasses import replace
from pathlib import Path

from constrained.errors import RequestError
from constrained.format_selection.generic import GenericTemplate
from constrained.format_selection.plain_calls import EXAMPLES, write_example
from constrained.format_selection.selection import Teaching, detect_format, find_block
from constrained.template.chat_template import ChatTemplate
from grammars.errors import DetectError, FormatError, RenderError
from grammars.formats import FORMATS
from grammars.infer.detect import Origin
from grammars.schema.nodes import Json
from grammars.wire.format import Content, Format, Reasoning, find_format
from grammars.wire.text import load_format

_HINT = "Leave the tool format out, or use another one (generic, hermes)"
_OWN_HINT = "Leave the tool format out: this model keeps its own"
_TOOL: dict[str, Json] = {
    "type": "function",
    "function": {
        "name": EXAMPLES[0].name,
        "description": "An example",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
        },
    },
}


def read_tool_format(given: str | os.PathLike[str] | Format) -> Format:
    """A format of the registry by its name, or one that `formats detect --save` has written.

    Raises:
        RequestError: there is no such format or file, or the file cannot be read.
        FormatError: the file describes no format.
    """
    if isinstance(given, Format):
        return given
    found = find_format(str(given), FORMATS)
    if found is not None:
        return found
    if not os.path.isfile(given):
        hint = f"Known: {', '.join(f.name for f in FORMATS)}; or give a file with a format"
        raise RequestError(f"unknown tool format {str(given)!r}", hint=hint)
    try:
        return load_format(Path(given).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise RequestError(f"the tool format {given} cannot be read: {e}") from e
    except FormatError as e:
        raise FormatError(f"{given}: {e.message}", where=e.where, hint=e.hint) from e


def choose_teaching(template: ChatTemplate, format: Format) -> Teaching:
    """The template, if it teaches this format itself; else instructions that do.

    Raises:
        RequestError: the format cannot be taught to this template; says why.
        TemplateError: the template fails on a plain message.
    """
    try:
        own = detect_format(template).format
    except DetectError:
        own = None
    registered = find_format(format.name, FORMATS) == format
    if own is not None and (own == format or (registered and own.name == format.name)):
        return Teaching(template, own, Origin.CHOSEN)
    taught = _fit(format, own, find_block(template), template)
    teacher = GenericTemplate(template, taught)
    _check_prompt(teacher)
    instead = f" in place of {own.name}, which the template teaches" if own else ""
    notice = f"{template.name}: the tool format {format.name} is explained in the prompt{instead}"
    return Teaching(teacher, taught, Origin.CHOSEN, notice)


def _fit(
    format: Format, own: Format | None, block: Reasoning | None, template: ChatTemplate
) -> Format:
    """The format with what belongs to the template: the reasoning block, the ends of a turn."""
    if format.contents != (Content(),) or format.tail:
        raise _refuse(format, "its turns have headers that this chat template does not write")
    if own is not None and (own.contents != (Content(),) or own.tail):
        why = f"the chat template writes the headers of {own.name} in each turn"
        raise _refuse(format, why, _OWN_HINT)
    wanted = format.reasoning
    if wanted and block and _marks(wanted) != _marks(block):
        marks = " and ".join(" ".join(_marks(b)) for b in (wanted, block))
        raise _refuse(format, f"its reasoning block is not that of the chat template: {marks}")
    for token in filter(None, template.tokens.values()):
        if any(token in text for text in format.texts):
            raise _refuse(format, f"it writes {token!r}, which begins or ends a text")
    return replace(format, reasoning=block, ends=own.ends if own else ())


def _marks(block: Reasoning) -> tuple[str, str]:
    return block.opener.text, block.closer.text


def _check_prompt(teacher: GenericTemplate) -> None:
    """Refuses a template that changes the example, or a call of the history."""
    format = teacher.format
    try:
        example = write_example(format).strip()
    except RenderError as e:
        raise _refuse(format, str(e)) from e
    function = {"name": EXAMPLES[0].name, "arguments": EXAMPLES[0].arguments}
    calls = [{"type": "function", "function": function}]
    text = teacher.render(
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "1"},
        ],
        [_TOOL],
    )
    if text.count(example) < 2:  # in the instructions, and in the history
        raise _refuse(format, "the chat template changes what explains it")


def _refuse(format: Format, why: str, hint: str = _HINT) -> RequestError:
    message = f"the tool format {format.name} cannot be taught to this model: {why}"
    return RequestError(message, hint=hint)
