"""The conversations that are sent: the doctor's shapes, request by request, and habits of clients
that change what they have sent before."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from constrained.inspect.doctor.conversations import SHAPES, TOOLS, Message, Shape, make_call
from constrained.prompt.messages import copy_json

_RULES = " ".join(
    f"Rule {number}: {text}."
    for number, text in enumerate(
        (
            "answer in the language of the question",
            "state numbers with their units",
            "name the source of what you report",
            "say so where you do not know something",
            "ask before you assume a place or a day",
            "leave out greetings and thanks",
            "use a tool only where its result is needed",
            "keep to the facts of the results",
        ),
        1,
    )
)
"""Makes prompts long enough for servers that reuse blocks of tokens, and for measurable times."""


class Kind(StrEnum):
    """The cause of different prompts."""

    SHAPE = "shape"
    """A growing conversation: a loss is due to the template or the server."""
    HABIT = "habit"
    """The client changes what it has sent before."""


@dataclass(frozen=True)
class SentConversation:
    """The parts of a request that its prompt depends on.

    Args:
        messages: in OpenAI form.
        tools: the offered tools.
    """

    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = ()

    def salted(self, salt: str) -> "SentConversation":
        """Adds a text to the start of the first message and of each description, wherever the
        template puts tools. So prompts with different salts share no prefix."""
        first, *rest = self.messages
        first = {**first, "content": f"[{salt}] {first['content']}"}
        tools = tuple(_describe(tool, f"[{salt}] ") for tool in self.tools)
        return SentConversation((first, *rest), tools)


@dataclass(frozen=True)
class Experiment:
    """A series of requests; the prompt of each could begin with the whole prompt of the one before.

    Args:
        name: of the shape or the habit.
        kind: whether the client or the template makes prompts differ.
        requests: at least two.
        advice: what to do if something is lost.
    """

    name: str
    kind: Kind
    requests: tuple[SentConversation, ...]
    advice: str


def list_experiments() -> list[Experiment]:
    """Returns all shapes, then all habits."""
    experiments = [_walk(shape) for shape in SHAPES if shape.returns_reasoning]
    experiments.append(_drop_reasoning())
    for name, advice, before, after in _HABITS:
        requests = (before(_request(4)), after(_request(6)))
        experiments.append(Experiment(name, Kind.HABIT, requests, advice))
    return experiments


def make_sample() -> SentConversation:
    """Makes a conversation to find a meter with; any template accepts it."""
    return SentConversation(_write(SHAPES[0].sent))


def _walk(shape: Shape) -> Experiment:
    """Makes the requests of a shape, turn by turn. The assistant's messages are fixed."""
    requests: list[SentConversation] = []
    for count in (*shape.turns, len(shape.messages)):
        requests.append(SentConversation(_write(shape.sent[:count]), shape.tools))
    advice = "change the template, or a variable of it"
    if any(message.get("reasoning_content") for message in shape.messages):
        advice = "have the template keep reasoning, or expect this at each question"
    return Experiment(shape.name, Kind.SHAPE, tuple(requests), advice)


def _drop_reasoning() -> Experiment:
    """The client does not send back the reasoning that the server has in its cache."""
    kept = next(shape for shape in SHAPES if shape.name == "reasoning kept")
    dropped = next(shape for shape in SHAPES if not shape.returns_reasoning)
    requests = (
        SentConversation(_write(kept.sent[:4]), kept.tools),
        SentConversation(_write(dropped.sent[:4]), dropped.tools),
    )
    return Experiment(dropped.name, Kind.SHAPE, requests, "send reasoning_content back unchanged")


def _request(count: int) -> SentConversation:
    """Makes a request with the first messages of the tool loop."""
    loop = next(shape for shape in SHAPES if shape.name == "tool loop")
    return SentConversation(_write(loop.sent[:count]), loop.tools)


def _write(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Writes messages for the API, with more text in the first one and in results of tools."""
    written: list[Message] = []
    for index, message in enumerate(messages):
        message = copy_json(message)
        if index == 0 or message["role"] == "tool":
            message["content"] = f"{message['content']}\n{_RULES}"
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        written.append(message)
    return tuple(written)


def _describe(tool: Message, before: str = "", following: str = "") -> Message:
    function = tool["function"]
    description = f"{before}{function['description']}{following}"
    return {**tool, "function": {**function, "description": description}}


_Change = Callable[[SentConversation], SentConversation]


def _head(text: str) -> _Change:
    """Adds a line before the system message."""

    def change(request: SentConversation) -> SentConversation:
        system, *rest = request.messages
        return replace(request, messages=(_add(system, before=f"{text}\n"), *rest))

    return change


def _tail(text: str) -> _Change:
    """Adds a line after the system message."""

    def change(request: SentConversation) -> SentConversation:
        system, *rest = request.messages
        return replace(request, messages=(_add(system, following=f"\n{text}"), *rest))

    return change


def _add(message: Message, before: str = "", following: str = "") -> Message:
    return {**message, "content": f"{before}{message['content']}{following}"}


def _keep(request: SentConversation) -> SentConversation:
    return request


def _turn_tools(request: SentConversation) -> SentConversation:
    return replace(request, tools=tuple(reversed(TOOLS)))


def _edit_tool(request: SentConversation) -> SentConversation:
    first, *rest = request.tools
    return replace(request, tools=(_describe(first, following=", now for 14 days"), *rest))


def _respell(request: SentConversation) -> SentConversation:
    """Changes the key order of arguments, and removes the spaces."""

    def respell(call: Message) -> None:
        arguments: dict[str, Any] = json.loads(call["function"]["arguments"])
        turned = dict(reversed(arguments.items()))
        call["function"]["arguments"] = json.dumps(turned, separators=(",", ":"))

    return _change_calls(request, respell)


def _rename_call(request: SentConversation) -> SentConversation:
    """Changes the id in a call and in its result."""
    other = make_call("get_weather", 2)["id"]

    def rename(call: Message) -> None:
        call["id"] = other

    changed = _change_calls(request, rename)
    for message in changed.messages:
        if "tool_call_id" in message:
            message["tool_call_id"] = other
    return changed


def _change_calls(request: SentConversation, change: Callable[[Message], None]) -> SentConversation:
    messages: tuple[Message, ...] = tuple(copy_json(message) for message in request.messages)
    for message in messages:
        for call in message.get("tool_calls") or ():
            change(call)
    return replace(request, messages=messages)


_HABITS: tuple[tuple[str, str, _Change, _Change], ...] = (
    (
        "a header that rotates",
        "keep what changes with each request out of the system message",
        _head("x-request-id: 7f3a91c2"),
        _head("x-request-id: 0b64de58"),
    ),
    (
        "the time in the system message",
        "put date and time into the last message, or keep those of the first request",
        _tail("It is 2026-03-04, 10:30."),
        _tail("It is 2026-03-04, 10:31."),
    ),
    ("tools in another order", "sort the tools, by name for instance", _keep, _turn_tools),
    (
        "an edited description",
        "keep descriptions unchanged, and put new information into a message",
        _keep,
        _edit_tool,
    ),
    (
        "arguments spelled anew",
        "send the arguments back as exactly the text that was received",
        _keep,
        _respell,
    ),
    ("an id that changes", "send the ids of calls back unchanged", _keep, _rename_call),
)
"""Name, remedy, and the changes of the first and the second request."""
