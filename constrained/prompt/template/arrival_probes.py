"""Conversations that clients send, and what a chat template makes of each."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from constrained.prompt.template.arrival import note_forms
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.conversation_forms import ConversationForm, write
from grammars.errors import Error

Message = dict[str, Any]
_PROPERTIES = {"city": {"type": "string"}, "day": {"type": "string"}}
_PARAMETERS = {"type": "object", "properties": _PROPERTIES}
_FUNCTION = {"name": "get_weather", "description": "Forecast", "parameters": _PARAMETERS}
_WORD = re.compile("[A-Z]+")
_WORDS = "ALPHA BRAVO CHARLIE DELTA ECHO FOXTROT GOLF HOTEL INDIA JULIET KILO LIMA MIKE".split()
TOOLS = [{"type": "function", "function": _FUNCTION}]


def say(role: str, word: str) -> Message:
    return {"role": role, "content": f"Some {word} here"}


def call(*words: str, content: str | None = None) -> Message:
    calls: list[Message] = []
    for word in words:
        function = {"name": "get_weather", "arguments": json.dumps({"city": word})}
        calls.append({"id": f"{word.lower():a<9}"[:9], "type": "function", "function": function})
    return {"role": "assistant", "content": content, "tool_calls": calls}


def answer(word: str, of: str) -> Message:
    return {"role": "tool", "tool_call_id": f"{of.lower():a<9}"[:9], "content": f"It is {word}"}


SYSTEM, USER, REPLY = say("system", "ALPHA"), say("user", "BRAVO"), say("assistant", "CHARLIE")
CALL, RESULT = call("DELTA"), answer("ECHO", "DELTA")
_MESSAGES: Mapping[str, Message] = {
    "system": SYSTEM,
    "developer": say("developer", "GOLF"),
    "system2": say("system", "GOLF"),
    "system3": say("system", "MIKE"),
    "user": USER,
    "user2": say("user", "HOTEL"),
    "user3": say("user", "MIKE"),
    "answer": REPLY,
    "answer2": say("assistant", "LIMA"),
    "empty": {"role": "assistant", "content": ""},
    "call": CALL,
    "call2": call("JULIET"),
    "calls": call("DELTA", "JULIET"),
    "call-and-text": call("DELTA", content="Some INDIA here"),
    "result": RESULT,
    "result2": answer("KILO", "JULIET"),
    "result-of-parts": {
        **RESULT,
        "content": [{"type": "text", "text": "It is ECHO"}, {"type": "text", "text": "or FOXTROT"}],
    },
}
_KINDS = {
    "two system messages": "system system2 user",
    "system, developer": "system developer user",
    "system in the middle": "system user answer system2 user2",
    "system last": "system user answer user2 system2",
    "content beside a call": "user call-and-text result",
    "two calls": "user calls result result2",
    "no user": "system call result",
    "two users": "system user user2",
    "two assistants": "system user answer answer2 user2",
    "assistant first": "answer2 user",
    "a result, then a user": "user call result user2",
    "three system messages": "system system2 system3 user",
    "developer alone": "developer user",
    "system alone": "system",
    "system after a result": "system user call result system2",
    "system between call and answer": "system user call result system2 answer user2",
    "system after the first question": "user system2 answer user2",
    "a result of parts": "user call result-of-parts answer user2",
    "an empty answer": "user empty user2",
    "two rounds of calls": "system user call-and-text result call2 result2 answer user2",
    "calls, results and a reminder": "system user calls result result2 user2 system2",
    "two users, two assistants": "user user2 answer answer2 user3",
}
CONVERSATIONS: Mapping[str, Sequence[Message]] = {
    kind: [_MESSAGES[name] for name in names.split()] for kind, names in _KINDS.items()
}


def list_words(messages: Sequence[Message]) -> list[str]:
    words: list[str] = []
    for message in messages:
        text = json.dumps([message["content"], message.get("tool_calls")])
        words += [word for word in _WORD.findall(text) if word in _WORDS]
    return words


class Fate(StrEnum):
    IN_ORDER = "in order"
    MOVED = "moved"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True)
class Arrival:
    """What a template makes of a conversation; `reason`: the missing words, or the error."""

    kind: str
    fate: Fate
    forms: Sequence[ConversationForm] = ()
    reason: str = ""


def judge(messages: Sequence[Message], prompt: str) -> tuple[Fate, str]:
    """Returns what has become of the messages. The result of a call may follow it directly."""
    words = list_words(messages)
    if lost := [word for word in words if word not in prompt]:
        return Fate.LOST, " ".join(lost)
    paired = list_words(write([*map(dict, messages)], (ConversationForm.SINGLE_CALLS,)))
    for ordered in (words, paired):
        if sorted(ordered, key=prompt.find) == ordered:
            return Fate.IN_ORDER, ""
    return Fate.MOVED, " ".join(sorted(words, key=prompt.find))


def probe_arrivals(template: ChatTemplate) -> Sequence[Arrival]:
    return [_probe(template, kind, messages) for kind, messages in CONVERSATIONS.items()]


def _probe(template: ChatTemplate, kind: str, messages: Sequence[Message]) -> Arrival:
    tools = TOOLS if any("tool_calls" in message for message in messages) else None
    with note_forms() as forms:
        try:
            prompt = template.render(messages, tools)
        except Error as error:
            return Arrival(kind, Fate.REFUSED, reason=str(error))
    fate, reason = judge(messages, prompt)
    return Arrival(kind, fate, sorted(forms), reason)
