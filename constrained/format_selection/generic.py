"""Tools for chat templates that know none: instructions, and calls and results as plain text.

The instructions teach one wire format, and `grammars.render` writes the example as well as the
calls of the history: what is taught is what is enforced.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby, takewhile
from typing import Any

from constrained.errors import TemplateError
from constrained.format_selection.plain_calls import (
    describe_several,
    read_content,
    write_calls,
    write_example,
)
from constrained.messages import normalise
from constrained.template.chat_template import ChatTemplate
from grammars.wire.format import Format

CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""The ChatML template, for GGUF files that have none."""

_HEADING = "You can call these tools"
_INSTRUCTIONS = (
    _HEADING
    + """. Each line describes one of them:
<tools>
{tools}
</tools>

To call a tool, write its name and its arguments in exactly this form:
{example}

Use only names and parameters of the tools listed above; example_tool is not one of them. \
{several}{results}If no tool is needed, answer in plain text."""
)
_RESULTS = "You will get each result inside <tool_response></tool_response>. "
_PROBE = "PROBE-OF-A-SYSTEM-MESSAGE"

Message = dict[str, Any]


class GenericTemplate(ChatTemplate):
    """A chat template that is not asked to write tools, calls or results.

    The instructions go to the end of the system message, or to the head of the first user message
    where the template has no system role (a system message goes there, too). Calls become text of
    their message, and the results that follow a message become one user message.

    Args:
        template: what writes the conversation.
        format: the wire format that is taught.
        keeps_history: the template writes calls and results itself, in this format; it only does
            not describe the tools.
    """

    def __init__(self, template: ChatTemplate, format: Format, *, keeps_history: bool = False):
        super().__init__(template.source, name=template.name, **template.tokens)
        self.format = format
        self._keeps_history = keeps_history

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        /,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """As in `ChatTemplate.render`.

        Raises:
            TemplateError: also for calls and results that cannot be written as text, and where
                the template drops the instructions.
        """
        with self.failures():
            plain = normalise(messages)
            if not self._keeps_history:
                plain = _write_results(write_calls(plain, self.format))
            results = "" if self._keeps_history else _RESULTS
            instructions = _instruct(tools, self.format, results) if tools else ""
        if not self._has_system_role:
            plain = _put_into_user_message(plain, instructions)
        elif instructions:
            plain = _put_into_system_message(plain, instructions)
        text = super().render(plain, None, add_generation_prompt=add_generation_prompt, **kwargs)
        if instructions and _HEADING not in text:
            hint = "Leave out system messages behind the first, or use another template"
            raise TemplateError(f"{self.name} drops the description of the tools", hint=hint)
        return text

    @cached_property
    def _has_system_role(self) -> bool:
        asks = [{"role": "system", "content": _PROBE}, {"role": "user", "content": "Hello"}]
        try:
            return _PROBE in super().render(asks)
        except TemplateError:
            return False


def _instruct(tools: Sequence[Mapping[str, Any]], format: Format, results: str) -> str:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    example, several = write_example(format), describe_several(format)
    several += "" if several.endswith("\n") else " "
    return _INSTRUCTIONS.format(tools=listed, example=example, several=several, results=results)


def _write_results(messages: list[Message]) -> list[Message]:
    """Results become one user message; many templates insist that user and assistant alternate."""
    placed = [(message, f"/messages/{i}") for i, message in enumerate(messages)]
    written: list[Message] = []
    for is_result, group in groupby(placed, key=lambda pair: pair[0]["role"] == "tool"):
        if is_result:
            results = [f"<tool_response>\n{read_content(*p)}\n</tool_response>" for p in group]
            written.append({"role": "user", "content": "\n".join(results)})
            continue
        rest = [message for message, _ in group]
        if written and rest[0]["role"] == "user":  # the user goes on where the results end
            rest[0] = rest[0] | {"content": _prepend(written.pop()["content"], rest[0]["content"])}
        written += rest
    return written


def _put_into_system_message(messages: list[Message], instructions: str) -> list[Message]:
    head = list(takewhile(lambda message: message["role"] == "system", messages))
    texts = [read_content(message, f"/messages/{i}") for i, message in enumerate(head)]
    system = {"role": "system", "content": _join(*texts, instructions)}
    return [system, *messages[len(head) :]]


def _put_into_user_message(messages: list[Message], instructions: str) -> list[Message]:
    """Whatever the messages begin with as system message goes to the user message, too."""
    head, *rest = _put_into_system_message(messages, instructions)
    if not head["content"]:
        return messages
    at = next((i for i, message in enumerate(rest) if message["role"] == "user"), None)
    if at is None:
        return [{"role": "user", "content": head["content"]}, *rest]
    rest[at] = rest[at] | {"content": _prepend(head["content"] + "\n", rest[at]["content"])}
    return rest


def _prepend(text: str, content: Any) -> Any:
    """Text in front of content, which may consist of parts."""
    if isinstance(content, str):
        return f"{text}\n{content}" if content else text
    return [{"type": "text", "text": f"{text}\n"}, *content]


def _join(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)
