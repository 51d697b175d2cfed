"""The beginning and the end of a turn, in a conversation as the template writes it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from constrained.errors import TemplateError
from constrained.template.chat_template import ChatTemplate
from constrained.template.special_tokens import Prompt
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.errors import RenderError
from grammars.render import render
from grammars.turn import ToolCall, Turn
from grammars.wire.format import Format

MAX_TAGS = 8  # at the end of a prompt: more of them are data
_TAG = re.compile(r"<[^<>\s]+>|\[/?[A-Z][A-Z_]+\]")
_ANSWER, _QUESTION = "PROBE-OF-AN-ANSWER", "PROBE-OF-A-QUESTION"


def find_text_ends(
    template: ChatTemplate, format: Format, vocabulary: Vocabulary
) -> tuple[str, ...]:
    """The texts that end a turn, where no end token does: a vocabulary without `<|im_end|>` spells
    it in ordinary tokens, behind which generation would go on.

    They are the tags that the template writes between an answer and the next question, also behind
    a line break of the model's own; where it writes no tag, the whole of that (`\\nUser:`).

    Returns:
        () where an end token stands there, or a text of the format that also stands elsewhere, or
        the template cannot be asked.
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
        return ()  # the format ends its turns by itself
    if tags:
        return tuple(space + tag for tag in tags for space in ("\n", ""))
    if not between.strip():
        return ()
    # A word such as `User:` ends a turn only where the template writes it: on a line of its own.
    line_break = "\n" if "\n" in between[: len(between) - len(between.lstrip())] else ""
    return (line_break + between.strip(),)


@dataclass(frozen=True)
class TurnBoundaries:
    """Finds turns in what the template writes.

    Args:
        format: how the model writes them.
        ends: texts that end a turn.
    """

    format: Format
    ends: Collection[str]

    def is_front_kept(self, opened: str, whole: str) -> bool:
        """True if what stands in front of a turn is what the turn answered. Templates move what is
        to stand in front of the last message: tools (Mistral), instructions (Command R). With a
        turn that is taken over, they would be there twice.

        A block for reasoning may be another one in earlier turns, and tags may be missing (DeepSeek
        R1, behind results): what the model has seen is no worse. Any other text counts; Apertus
        leaves a list of results open as soon as a turn follows it.

        Args:
            opened: the conversation up to the turn, with the generation prompt.
            whole: the conversation with the turn and what follows it.
        """
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
        self, marked: Prompt, message: Mapping[str, Any], *, inside: str, behind: str
    ) -> int | None:
        """The offset at which the text of a turn ends: the end of the turn follows, or where the
        template writes none (GLM, Apertus behind calls), the next message. None: it is not found.

        Args:
            marked: the conversation with two characters in it that are nowhere else.
            message: the turn, with the first of them.
            inside: the character that the turn writes last.
            behind: the one in the next message.
        """
        start, stop = marked.text.rfind(inside), marked.text.find(behind)
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
        """The text that the model writes behind the character."""
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
    """The text without a tag at its end."""
    start = text.rfind({">": "<", "]": "["}.get(text[-1:], "\0"))
    if start >= 0 and _TAG.fullmatch(text, start):
        return text[:start]
    return text
