"""The beginning and the end of a turn, in a conversation as the template writes it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.special_tokens import Prompt
from grammars.errors import RenderError
from grammars.parse.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format

MAX_TAGS = 8  # at the end of a prompt: further ones are data
_TAG = re.compile(r"<[^<>\s]+>|\[/?[A-Z][A-Z_]+\]")
_ANSWER, _QUESTION = "PROBE-OF-AN-ANSWER", "PROBE-OF-A-QUESTION"


def find_text_ends(
    template: ChatTemplate, format: Format, vocabulary: Vocabulary
) -> tuple[str, ...]:
    """Finds the texts that end a turn if no end token does.

    For example, a vocabulary without `<|im_end|>` spells it with ordinary tokens, and generation
    would continue after it. The texts are the tags that the template writes between an answer and
    the next question, with or without a line break before. Without tags, it is the whole text
    between them (`\\nUser:`).

    Returns:
        The texts; () if an end token or a marker of the format ends the turn, or the template does
        not render the conversation.
    """
    messages = [
        {"role": "user", "content": _QUESTION},
        {"role": "assistant", "content": _ANSWER},
        {"role": "user", "content": _QUESTION},
    ]
    try:
        text = template.render(messages, add_generation_prompt=False)
    except TemplateError:
        return ()
    between = text.rpartition(_ANSWER)[2].partition(_QUESTION)[0]
    names = [vocabulary.names.get(token) for token in vocabulary.end]
    if any(name and name in between for name in names):
        return ()
    tags = dict.fromkeys(_TAG.findall(between))
    if any(tag in text for tag in tags for text in format.texts):
        return ()  # a marker of the format ends the turn
    if tags:
        return tuple(space + tag for tag in tags for space in ("\n", ""))
    if not between.strip():
        return ()
    # A word such as `User:` ends a turn only at the start of a line, as the template writes it.
    line_break = "\n" if "\n" in between[: len(between) - len(between.lstrip())] else ""
    return (line_break + between.strip(),)


@dataclass(frozen=True)
class TurnBoundaries:
    format: Format
    ends: Collection[str]

    def is_front_kept(self, opened: str, whole: str) -> bool:
        """Returns whether the text before a turn, up to the generation prompt, is still the one
        that the turn answered. Some templates write tools (Mistral) or instructions (Command R)
        before the last message; the prompt would have them twice. Reasoning blocks and tags at the
        end may differ for earlier turns (DeepSeek R1, after results), but nothing else: Apertus
        leaves a list of results open if a turn follows."""
        block = self.format.reasoning
        tags: tuple[str, ...] = ()
        if block:
            tags = tuple(map(str.strip, block.markers))
        bare = opened.rstrip()
        for _ in range(MAX_TAGS):
            for tag in tags:
                bare = bare.removesuffix(tag)
            bare = _without_tag(bare).rstrip()
        return whole.startswith(bare)

    def find_end(
        self, marked: Prompt, message: Mapping[str, Any], *, inside: str, after: str
    ) -> int | None:
        """Finds the offset at which the text of a turn ends. There the end marker of the turn
        begins; if the template writes none (GLM, Apertus after calls), the next message begins.
        `inside` and `after` are unique characters at the end of the turn and in the next message.
        None: it is not found."""
        start, stop = marked.text.rfind(inside), marked.text.find(after)
        if not 0 <= start < stop:
            return None
        ends = [marked.find(end, start) for end in self.ends]
        inner = [end for end in ends if start < end < stop]
        if inner:
            return min(inner)
        rest = self._close(message, inside)
        if rest is None or not marked.text.startswith(rest, start + 1):
            return None
        return start + 1 + len(rest)

    def _close(self, message: Mapping[str, Any], inside: str) -> str | None:
        """Returns the text that the format writes after the character to close the turn."""
        if not (calls := message.get("tool_calls")):
            return self.format.contents[0].closer
        id = calls[-1].get("id")
        if not isinstance(id, str):
            id = None
        call = ToolCall(calls[-1]["function"]["name"], {inside: inside}, id=id)
        try:
            return render(Turn(calls=(call,)), self.format).rpartition(inside)[2]
        except RenderError:  # the format has no such key
            return None


def _without_tag(text: str) -> str:
    start = text.rfind({">": "<", "]": "["}.get(text[-1:], "\0"))
    if start >= 0 and _TAG.fullmatch(text, start):
        return text[:start]
    return text
