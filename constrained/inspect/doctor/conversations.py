"""Conversations that the doctor renders: five shapes, as agents and chats send them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from constrained.prompt.messages import REASONING_NAMES
from grammars.infer.probes import make_tool, show_call
from grammars.schema.json_values import Json
from grammars.turn import ToolCall

Message = dict[str, Any]
_CITY: dict[str, Json] = {
    "city": {"type": "string", "description": "Name of the city"},
    "days": {"type": "integer", "description": "Number of days"},
}
TOOLS = (
    make_tool("get_weather", "The weather forecast of a city", _CITY),
    make_tool("get_time", "The local time of a city", {"city": _CITY["city"]}),
)
SYSTEM: Message = {"role": "system", "content": "You are a helpful assistant. Be brief."}
QUESTIONS = (
    "How is the weather in Paris?",
    "Thank you! And what is the capital of Italy?",
    "And of Spain?",
)
ANSWERS = ("It is sunny in Paris, 21 degrees.", "The capital of Italy is Rome.")
THOUGHTS = (
    "The user wants the weather in Paris, so I call the tool.",
    "I have all that I need, and answer.",
    "This is a question that needs no tool.",
)
RESULT = '{"sky": "clear", "temperature": 21}'


def say(role: str, content: str | None, **fields: Any) -> Message:
    return {"role": role, "content": content, **fields}


@dataclass(frozen=True)
class Shape:
    """A conversation, in which the model has written the messages of the assistant."""

    name: str
    messages: tuple[Message, ...]  # the assistant's messages have reasoning, if the model reasons
    tools: tuple[Message, ...] = ()
    returns_reasoning: bool = True  # the client sends reasoning back

    @property
    def turns(self) -> tuple[int, ...]:
        """The indexes of the messages that the model has written."""
        found = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"]
        return tuple(found)

    @property
    def sent(self) -> tuple[Message, ...]:
        return self.messages if self.returns_reasoning else drop_reasoning(self.messages)

    def without_system(self) -> "Shape":
        rest = [message for message in self.messages if message["role"] != "system"]
        return replace(self, messages=tuple(rest))

    def without_reasoning(self) -> "Shape":
        return replace(self, messages=drop_reasoning(self.messages))


def drop_reasoning(messages: Sequence[Message]) -> tuple[Message, ...]:
    kept: list[Message] = []
    for message in messages:
        kept.append({key: value for key, value in message.items() if key not in REASONING_NAMES})
    return tuple(kept)


def _loop(*, reasons: bool) -> tuple[Message, ...]:
    """Makes a call, an answer, and a question that needs no call."""
    # Every template accepts an id of this length.
    call = show_call(ToolCall("get_weather", {"city": "Paris", "days": 3}, id="abcdefgh1"))
    messages = (
        SYSTEM,
        say("user", QUESTIONS[0]),
        say("assistant", None, reasoning_content=THOUGHTS[0], tool_calls=[call]),
        say("tool", RESULT, tool_call_id=call["id"], name="get_weather"),
        say("assistant", ANSWERS[0], reasoning_content=THOUGHTS[1]),
        say("user", QUESTIONS[1]),
        say("assistant", ANSWERS[1], reasoning_content=THOUGHTS[2]),
        say("user", QUESTIONS[2]),
    )
    return messages if reasons else drop_reasoning(messages)


_CHAT = (
    say("user", QUESTIONS[0]),
    say("assistant", ANSWERS[0]),
    say("user", QUESTIONS[1]),
    say("assistant", ANSWERS[1]),
    say("user", QUESTIONS[2]),
)
SHAPES = (
    Shape("plain chat", _CHAT),
    Shape("system and tools", (SYSTEM, *_CHAT), TOOLS),
    Shape("tool loop", _loop(reasons=False), TOOLS),
    Shape("reasoning kept", _loop(reasons=True), TOOLS),
    Shape("reasoning dropped", _loop(reasons=True), TOOLS, returns_reasoning=False),
)
