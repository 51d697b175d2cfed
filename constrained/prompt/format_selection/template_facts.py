"""Facts about a chat template from probes: its format, its reasoning block, what it writes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import Detection, NoFormat
from grammars.infer.find import find_format
from grammars.infer.probes import (
    KEYS,
    NAMES,
    TEXT,
    THOUGHT,
    VALUES,
    ProbedTemplate,
    plain_id,
    show_message,
)
from grammars.infer.reasoning import probe
from grammars.infer.shown import find_stated
from grammars.infer.turn import find_frame
from grammars.limits.byte_cache import MIB, ByteCache, share_cache
from grammars.limits.packed_json import hash_json
from grammars.turn import ToolCall, Turn

Messages: TypeAlias = Sequence[Mapping[str, Any]]
TEMPLATES = 16 * MIB
_PROBE = "probe_of_a_tool"
_CALL = show_message(Turn(calls=(ToolCall(_PROBE, {}, id=plain_id(_PROBE, 0)),)))
_TAGS_AROUND = re.compile(rf"<([A-Za-z][\w-]*)>\s*{_PROBE}\s*</\1>")


@dataclass(frozen=True)
class TurnStyle:
    """How a template writes turns of the assistant: after a question ("": it refuses the turn), the
    generation prompt, and what is in front of a question with tools ("": it refuses one)."""

    turns: tuple[str, ...]
    prompt: str
    head: str


class TemplateFacts:
    def __init__(self, template: ChatTemplate):
        self._template = template.without_forms()

    def measure(self) -> int:
        return self._template.measure()

    @cached_property
    def chat(self) -> ProbedTemplate:
        return probe(self._template.render)

    @cached_property
    def detection(self) -> Detection | NoFormat:
        return find_format(self.chat)

    @cached_property
    def stated(self) -> Detection | NoFormat:
        return find_stated(self.chat)

    @cached_property
    def frame(self) -> tuple[str, str]:
        """What the template writes before and after every answer, if it gets no tools."""

        def render_plain(messages: Messages, _: object = None, /, **kwargs: Any) -> str:
            return self._template.render(messages, None, **kwargs)

        return find_frame(replace(self.chat, render_chat=render_plain))

    @cached_property
    def style(self) -> TurnStyle:
        chat = self.chat
        calls = chat.calls({KEYS[0]: VALUES[0]}, {KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
        turns = (
            Turn(TEXT),
            Turn(calls=calls[:1]),
            Turn(calls=calls),
            Turn(TEXT, reasoning=THOUGHT, calls=calls[:1]),
        )
        written = tuple(chat.answer(turn) or "" for turn in turns)
        return TurnStyle(written, chat.prompt, chat.render(opening=True))

    @cached_property
    def keeps_answers(self) -> bool:
        """Whether the prompt has answers unchanged. Some templates escape them, or write JSON."""
        text = 'It is "so":\n<b>'
        prompt = self.chat.render(show_message(Turn(text)), with_tools=False)
        return not prompt or text in prompt

    @cached_property
    def only_shows_tools(self) -> bool:
        """Whether the prompt names the tools, but has nothing of the calls in the history."""
        message = {**_CALL, "content": None}
        return self.describes_tools and _PROBE not in self.chat.render(message, with_tools=False)

    @cached_property
    def writes_call_ids(self) -> bool:
        message = show_message(Turn(calls=(ToolCall("get_probe", {}, id=_PROBE),)))
        return _PROBE in self.chat.render(message, with_tools=False)

    @cached_property
    def writes_results(self) -> bool:
        """True if the prompt has results of tools, even after a message with its calls as text."""
        answer = show_message(Turn("A call"))
        result = {"role": "tool", "content": _PROBE}
        return _PROBE in self.chat.render(answer, result, with_tools=False, opening=True)

    @cached_property
    def result_tags(self) -> tuple[str, ...]:
        """The tags around the result of a call, without their last character, in place of which a
        model that may not write it writes another one; (): there are none."""
        call = show_message(Turn(calls=(ToolCall("get_probe", {}, id=plain_id("", 0)),)))
        result = {"tool_call_id": plain_id("", 0), "name": "get_probe", "content": _PROBE}
        result["role"] = "tool"
        prompt = self.chat.render(call, result, with_tools=False, opening=True)
        found = _TAGS_AROUND.search(prompt)
        return () if found is None else (f"<{found[1]}", f"</{found[1]}")

    @cached_property
    def describes_tools(self) -> bool:
        return NAMES[0] in self.chat.render(opening=True)


_FACTS: "ByteCache[TemplateFacts]" = share_cache("templates", TEMPLATES, TemplateFacts.measure)


def find_facts(template: ChatTemplate) -> TemplateFacts:
    """Returns the facts of a template, cached for equal ones: probing takes 0.4 s."""
    if type(template) is not ChatTemplate:
        return TemplateFacts(template)  # a subclass may render something other than its source
    # Without the name, which is only for errors.
    key = hash_json([template.source, template.tokens, dict(template.kwargs)])
    if key is None:
        return TemplateFacts(template)
    facts = _FACTS.find(key, None)
    if facts is None:
        facts = TemplateFacts(template)
        _FACTS.keep(key, facts)
    return facts
