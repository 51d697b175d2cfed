"""Adds tools to chat templates that do not support them, or not fully: instructions teach one wire
format, and calls and results of the history are written as text in it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, Self

from constrained.errors import TemplateError
from constrained.prompt.messages import (
    REASONING_NAMES,
    join_text_parts,
    normalise,
    read_function,
)
from constrained.prompt.template.arrival import FormFinder
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import RenderError, ToolError
from grammars.infer.probes import write
from grammars.parse.render import join_before, render
from grammars.turn import State, ToolCall, Turn
from grammars.wire.format import Content, ContentPlace, Format

CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""The ChatML template, for GGUF files that have none."""

EXAMPLES = (
    ToolCall("example_tool", {"text": "hello", "count": 2}),
    ToolCall("example_tool", {"text": "goodbye", "count": 3}),
)
"""The example calls of the instructions."""

# No other text that was tried made a small model call more often or better. The prompt is searched
# for its first line, since some templates drop the instructions.
_TEXT = """You can call these tools. Each line describes one of them:
<tools>
{tools}
</tools>

To call a tool, write its name and its arguments in exactly this form:
{example}

Use only names and parameters of the tools listed above; example_tool is not one of them. \
{several}{results}If no tool is needed, answer in plain text."""
HARDLY_CALLS = (
    "Small models hardly call under tool_choice auto: use required, a router in front, or a "
    "template with tools (--chat-template-file)"
)
"""What to know of models whose prompt explains the tools in the generic format."""
_SEVERAL = "To make several calls, write them "
_RESULT_OPENER, _RESULT_CLOSER = "<tool_response>", "</tool_response>"
RESULT_STEMS = (_RESULT_OPENER[:-1], _RESULT_CLOSER[:-1])
"""The tags around results, without their last character: a model that may not write it writes
another one there."""
_RESULTS = f"You will get each result inside {_RESULT_OPENER}{_RESULT_CLOSER}. "
_TOOL_TAGS = ("<tools>", "</tools>")
_JSON = json.JSONEncoder(ensure_ascii=False)

Message = dict[str, Any]


@dataclass(frozen=True)
class Abilities:
    tools: bool = False
    calls: bool = False
    results: bool = False


def _write_instructions(
    tools: Sequence[Mapping[str, Any]], format: Format, *, writes_results: bool
) -> str:
    """Writes the text about tools. RenderError, ToolError: the format cannot write the example."""
    several = describe_several(format)
    if not several.endswith("\n"):
        several += " "
    return _TEXT.format(
        tools="\n".join(map(_JSON.encode, tools)),
        example=write_example(format),
        several=several,
        results="" if writes_results else _RESULTS,
    )


class GenericTemplate(ChatTemplate):
    """A chat template that writes tools, calls or results as plain text, for one that cannot.
    Instructions end the system message, or come before the first user message if there is no system
    role. Results after a message become one user message. If the format has no reasoning block,
    reasoning is left out: the template would write it in a form that the parser reads as
    content."""

    def __init__(
        self,
        template: ChatTemplate,
        format: Format,
        *,
        abilities: Abilities | None = None,
    ):
        super().__init__(template.source, name=template.name, **template.tokens)
        self.kwargs = template.kwargs
        self.format = replace(format, head="")  # the template writes that
        self._abilities = abilities or Abilities()
        self._finder = FormFinder(self._render_in_order)  # instructions have to arrive

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """As in `ChatTemplate.render`. Raises TemplateError also for calls and results that cannot
        be written as text, and where the template drops the instructions."""
        with self.failures():
            plain = normalise(messages)
            if self.format.reasoning is None:
                for message in plain:  # a copy
                    for name in REASONING_NAMES:
                        message.pop(name, None)
            if not self._abilities.calls:
                plain = _write_calls(plain, self.format)
            if not self._abilities.results:
                plain = _write_results(plain)
        if self._abilities.tools:
            return super().render(
                plain, tools, add_generation_prompt=add_generation_prompt, **kwargs
            )
        with self.failures():
            instructions = ""
            if tools:
                instructions = _write_instructions(
                    tools, self.format, writes_results=self._abilities.results
                )
        if instructions:
            plain = _put_into_system_message(plain, instructions)
        text = super().render(plain, None, add_generation_prompt=add_generation_prompt, **kwargs)
        if not instructions or instructions.splitlines()[0] in text:
            return text
        hint = "Use another template"
        raise TemplateError(f"{self.name} drops the description of the tools", hint=hint)

    def without_forms(self) -> Self:
        return self

    @cached_property
    def writes_text_arguments(self) -> bool:
        return not self._abilities.calls or super().writes_text_arguments

    @property
    def writes_results(self) -> bool:
        return not self._abilities.results

    @property
    def tool_tags(self) -> tuple[str, ...]:
        """The tags around the tools in the instructions; empty if the template describes them."""
        return () if self._abilities.tools else _TOOL_TAGS


def let_quote_result(format: Format) -> Format:
    """Lets an answer quote a result as the prompt writes it, as small models do; the parser reads
    what is between the tags. If the mask only forbids the tags, they repeat the call instead."""
    if format.contents != (Content(),) or format.bare is not None:
        return format
    quoted = Content(f"{_RESULT_OPENER}\n", f"\n{_RESULT_CLOSER}", calls=False)
    return replace(format, contents=(Content(), quoted))


def write_example(format: Format, count: int = 1) -> str:
    """Writes example calls as the model has to write them; RenderError, ToolError: it cannot."""
    return render(Turn(calls=EXAMPLES[:count]), format, state=State(calls=0))


def describe_several(format: Format) -> str:
    if not format.single and (format.opening or format.closing or format.between.strip()):
        return f"{_SEVERAL}in this form:\n{write_example(format, 2)}\n"
    instruction = f"{_SEVERAL}one after the other."
    if format.single:
        instruction = "Make one call at a time."
    if format.bare:
        instruction += " A call stands alone, without any other text."
    return instruction


def _write_calls(messages: Sequence[Message], format: Format) -> list[Message]:
    written: list[Message] = []
    calls_before = 0
    for i, message in enumerate(messages):
        if "tool_calls" in message:
            state = State(calls=calls_before)
            calls_before += len(message["tool_calls"])
            message = _write_calls_of(message, format, state, where=f"/messages/{i}")
        written.append(message)
    return written


def _write_calls_of(message: Message, format: Format, state: State, *, where: str) -> Message:
    calls: list[ToolCall] = []
    for i, call in enumerate(message["tool_calls"]):
        calls.append(_read_call(call, format, f"{where}/tool_calls/{i}"))
    content = read_content(message, where)
    text = _render_calls(calls, format, state, where=f"{where}/tool_calls") + format.after
    if not content.strip():
        content = ""
    elif format.bare and not format.before:
        content += "\n"  # without a marker before the call, it would run into the text
    if format.content_places[0] is ContentPlace.AFTER:
        text += content
    else:
        text = join_before(content, text, format)
    written = message | {"content": text}
    del written["tool_calls"]
    return written


def _read_call(call: Any, format: Format, where: str) -> ToolCall:
    # Arguments that are not an object, which a model may write by mistake, are kept, too.
    name, arguments = read_function(call, where)
    id = call.get("id")
    # An id that the format cannot write is left out, and the format counts.
    is_written = isinstance(id, str) and write(Turn(calls=(ToolCall(name, {}, id=id),)), format)
    return ToolCall(name, arguments, id=id if is_written else None)


def _render_calls(calls: Sequence[ToolCall], format: Format, state: State, *, where: str) -> str:
    try:
        return render(Turn(calls=tuple(calls)), format, state=state)
    except (RenderError, ToolError, AttributeError) as error:
        for i, call in enumerate(calls):  # which of them is it?
            try:
                render(Turn(calls=(call,)), format)
            except (RenderError, ToolError, AttributeError) as e:
                raise _refuse(format, e, f"{where}/{i}") from e
        raise _refuse(format, error, where) from error


def _refuse(format: Format, error: Exception, where: str) -> TemplateError:
    message = f"format {format.name} cannot write this call: {error}"
    return TemplateError(message, where=where, hint="Leave it out of the messages")


def read_content(message: Mapping[str, Any], where: str) -> str:
    """Returns the text of a message; TemplateError: its content is not text."""
    content = join_text_parts(message["content"])
    if not isinstance(content, str | None):
        hint = "Give it as text; this chat template accepts nothing else"
        text = f"content of role {message['role']} is not text"
        raise TemplateError(text, where=f"{where}/content", hint=hint)
    return content or ""


def _write_results(messages: list[Message]) -> list[Message]:
    """Joins results to one user message; many templates require user and assistant in turn."""
    written: list[Message] = []
    results = ""  # not written yet
    for i, message in enumerate(messages):
        if message["role"] == "tool":
            if results:
                results += "\n"
            content = read_content(message, f"/messages/{i}")
            results += f"{_RESULT_OPENER}\n{content}\n{_RESULT_CLOSER}"
            continue
        if results and message["role"] == "user":  # the message continues after the results
            message = message | {"content": _prepend(results, message["content"])}
        elif results:
            written.append({"role": "user", "content": results})
        results = ""
        written.append(message)
    if results:
        written.append({"role": "user", "content": results})
    return written


def _put_into_system_message(messages: list[Message], instructions: str) -> list[Message]:
    head = list(takewhile(lambda message: message["role"] == "system", messages))
    texts = [read_content(message, f"/messages/{i}") for i, message in enumerate(head)]
    content = "\n\n".join(filter(None, [*texts, instructions]))
    return [{"role": "system", "content": content}, *messages[len(head) :]]


def _prepend(text: str, content: Any) -> Any:
    if isinstance(content, str):
        return f"{text}\n{content}" if content else text
    return [{"type": "text", "text": f"{text}\n"}, *content]
