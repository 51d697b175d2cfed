"""The assistant prefill: the last message of a conversation, which the turn continues."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from constrained.errors import RequestError
from constrained.prompt.job import Job
from constrained.prompt.messages import (
    find_reasoning_name,
    join_text_parts,
    normalise,
    read_reasoning,
)
from constrained.prompt.template.chat_template import ChatTemplate


@dataclass(frozen=True)
class AssistantPrefill:
    content: str = ""
    reasoning: str = ""
    content_pointer: str = ""
    reasoning_pointer: str = ""

    def where(self, *, is_content: bool) -> str:
        return self.content_pointer if is_content else self.reasoning_pointer

    def join(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the message of the whole turn: the prefill, and the generated text after it."""
        whole = {**message, "content": self.content + (message.get("content") or "")}
        reasoning = self.reasoning + (read_reasoning(message) or "")
        if reasoning:
            whole["reasoning_content"] = reasoning
        return whole


NO_PREFILL = AssistantPrefill()


def read_prefill(job: Job, template: ChatTemplate) -> tuple[Job, AssistantPrefill]:
    """Splits a job into one without its last message, and that message as prefill (RequestError: it
    cannot be continued)."""
    if not job.prefill:
        return job, NO_PREFILL
    with template.failures():
        messages = normalise(job.messages)
    count = len(messages) - 1
    prefill = read_message(messages[-1], f"/messages/{count}", name=job.prefill_name)
    if not count:
        hint = "Also give the message that it answers"
        raise RequestError("there is nothing before the turn", where="/messages", hint=hint)
    breakpoints = tuple(min(end, count) for end in job.breakpoints)
    return replace(job, messages=job.messages[:-1], breakpoints=breakpoints), prefill


def read_message(
    message: Mapping[str, Any], where: str, *, name: str = "prefill"
) -> AssistantPrefill:
    """Reads the message that a turn continues. RequestError: it is not the assistant's, calls
    tools, or has parts that are not text."""
    if message["role"] != "assistant":
        hint = "Add the message of the assistant to continue"
        if name:
            hint += f", or leave {name} out"
        raise RequestError(f"the last message is of {message['role']!r}", where=where, hint=hint)
    if message.get("tool_calls"):
        hint = "Leave them out, or give their results"
        if name:
            hint += f" and leave {name} out"
        raise RequestError(
            "a turn that has calls cannot be continued", where=f"{where}/tool_calls", hint=hint
        )
    reasoning_name = find_reasoning_name(message)
    prefill = AssistantPrefill(
        content=join_text_parts(message["content"]),
        reasoning=message.get(reasoning_name) or "",
        content_pointer=f"{where}/content",
        reasoning_pointer=f"{where}/{reasoning_name}",
    )
    _check_text(prefill.content, prefill.content_pointer)
    _check_text(prefill.reasoning, prefill.reasoning_pointer)
    return prefill


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str):
        raise RequestError("it is not text, so a turn cannot continue it", where=where)
