"""The message that a turn goes on with: what it says, and what may come behind that."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from constrained.errors import RequestError
from constrained.job import Job
from constrained.messages import THOUGHTS, is_text_parts, normalise
from constrained.template.chat_template import ChatTemplate
from grammars.turn import Choice, Policy, Start, State, Think
from grammars.wire.format import Format


@dataclass(frozen=True)
class Begun:
    """A message that a turn goes on with.

    Args:
        content, reasoning: what it says.
        places: the JSON pointers of the two.
    """

    content: str = ""
    reasoning: str = ""
    places: tuple[str, str] = ("", "")

    def where(self, *, is_content: bool) -> str:
        """The place of one of the two."""
        return self.places[0 if is_content else 1]


def read_begun(job: Job, template: ChatTemplate) -> tuple[Job, Begun]:
    """The request without the message that its turn goes on with, and that message.

    Raises:
        TemplateError: the messages are no conversation.
        RequestError: the last of them cannot be gone on with.
    """
    if not job.prefill:
        return job, Begun()
    with template.failures():
        messages = normalise(job.messages)
    count = len(messages) - 1
    begun = read_message(messages[-1], f"/messages/{count}")
    if not count:
        hint = "Give the message that it answers, too"
        raise RequestError("there is nothing before the turn", where="/messages", hint=hint)
    places = tuple(min(place, count) for place in job.breakpoints)
    return replace(job, messages=job.messages[:-1], breakpoints=places), begun


def read_message(message: Mapping[str, Any], where: str) -> Begun:
    """What a message says that a turn goes on with.

    Args:
        message: in normal form.
        where: its place.

    Raises:
        RequestError: it is not of the assistant, calls tools, or holds what is no text.
    """
    if message["role"] != "assistant":
        hint = "Add the message of the assistant to go on with, or leave prefill out"
        raise RequestError(f"the last message is of {message['role']!r}", where=where, hint=hint)
    if message.get("tool_calls"):
        hint = "Leave them out, or give their results and leave prefill out"
        raise RequestError("a turn with calls is over", where=f"{where}/tool_calls", hint=hint)
    content = message["content"]
    if is_text_parts(content):
        content = "\n".join(part["text"] for part in content)
    name = next((name for name in THOUGHTS if message.get(name) is not None), THOUGHTS[0])
    reasoning = message.get(name) or ""
    places = f"{where}/content", f"{where}/{name}"
    for text, place in zip((content, reasoning), places, strict=True):
        if not isinstance(text, str):
            raise RequestError("it is no text, so no turn can go on with it", where=place)
    return Begun(content, reasoning, places)


def narrow(begun: Begun, state: State, policy: Policy, format: Format) -> tuple[State, Policy]:
    """Where the grammar of a turn starts that has this, and what may still come: content that has
    begun is behind the reasoning, is no call, and, where an answer is asked for, is that.

    Args:
        begun: what the turn goes on with.
        state: where the prompt ends.
        policy: what the request allows.
        format: of the turn.

    Raises:
        RequestError: it allows none of that.
    """
    if begun.reasoning and policy.think is Think.FORBIDDEN:
        raise refuse(begun, 0, is_content=False)
    if not begun.content:
        return state, policy
    if policy.choice is Choice.REQUIRED:
        raise refuse(begun, 0, is_content=True)
    if policy.think is Think.REQUIRED:
        if not begun.reasoning:
            raise refuse(begun, 0, is_content=True)
        policy = replace(policy, think=Think.OPTIONAL)
    if policy.answer is not None:
        policy = replace(policy, choice=Choice.NONE, names=None)
    return replace(state, start=Start.CLOSED, pad="") if format.reasoning else state, policy


def refuse(begun: Begun, offset: int, *, is_content: bool) -> RequestError:
    """The error of a request that does not admit the text: so many bytes of it fit."""
    return RequestError(
        f"the request does not admit this text: it fits up to byte {offset}",
        where=begun.where(is_content=is_content),
        hint="Cut it there, or ask for something else",
    )
