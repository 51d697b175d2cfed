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
PROPERTIES = {"city": {"type": "string"}, "day": {"type": "string"}}
PARAMETERS = {"type": "object", "properties": PROPERTIES}
FUNCTION = {"name": "get_weather", "description": "Forecast", "parameters": PARAMETERS}
_WORD = re.compile("[A-Z]+")
_WORDS = "ALPHA BRAVO CHARLIE DELTA ECHO FOXTROT GOLF HOTEL INDIA JULIET KILO LIMA MIKE".split()
TOOLS = [{"type": "function", "function": FUNCTION}]


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
PARTS = {
    **RESULT,
    "content": [{"type": "text", "text": "It is ECHO"}, {"type": "text", "text": "or FOXTROT"}],
}
CONVERSATIONS: Mapping[str, Sequence[Message]] = {
    "two system messages": [SYSTEM, say("system", "GOLF"), USER],
    "system, developer": [SYSTEM, say("developer", "GOLF"), USER],
    "system in the middle": [SYSTEM, USER, REPLY, say("system", "GOLF"), say("user", "HOTEL")],
    "system last": [SYSTEM, USER, REPLY, say("user", "HOTEL"), say("system", "GOLF")],
    "content beside a call": [USER, call("DELTA", content="Some INDIA here"), RESULT],
    "two calls": [USER, call("DELTA", "JULIET"), RESULT, answer("KILO", "JULIET")],
    "no user": [SYSTEM, CALL, RESULT],
    "two users": [SYSTEM, USER, say("user", "HOTEL")],
    "two assistants": [SYSTEM, USER, REPLY, say("assistant", "LIMA"), say("user", "HOTEL")],
    "assistant first": [say("assistant", "LIMA"), USER],
    "a result, then a user": [USER, CALL, RESULT, say("user", "HOTEL")],
    "three system messages": [SYSTEM, say("system", "GOLF"), say("system", "MIKE"), USER],
    "developer alone": [say("developer", "GOLF"), USER],
    "system alone": [SYSTEM],
    "system after a result": [SYSTEM, USER, CALL, RESULT, say("system", "GOLF")],
    "system between call and answer": [
        SYSTEM,
        USER,
        CALL,
        RESULT,
        say("system", "GOLF"),
        REPLY,
        say("user", "HOTEL"),
    ],
    "system after the first question": [USER, say("system", "GOLF"), REPLY, say("user", "HOTEL")],
    "a result of parts": [USER, CALL, PARTS, REPLY, say("user", "HOTEL")],
    "an empty answer": [USER, {"role": "assistant", "content": ""}, say("user", "HOTEL")],
    "two rounds of calls": [
        SYSTEM,
        USER,
        call("DELTA", content="Some INDIA here"),
        RESULT,
        call("JULIET"),
        answer("KILO", "JULIET"),
        REPLY,
        say("user", "HOTEL"),
    ],
    "calls, results and a reminder": [
        SYSTEM,
        USER,
        call("DELTA", "JULIET"),
        RESULT,
        answer("KILO", "JULIET"),
        say("user", "HOTEL"),
        say("system", "GOLF"),
    ],
    "two users, two assistants": [
        USER,
        say("user", "HOTEL"),
        REPLY,
        say("assistant", "LIMA"),
        say("user", "MIKE"),
    ],
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
    with note_forms() as forms:
        try:
            prompt = template.render(messages, choose_tools(messages))
        except Error as error:
            return Arrival(kind, Fate.REFUSED, reason=str(error))
    fate, reason = judge(messages, prompt)
    return Arrival(kind, fate, sorted(forms), reason)


def choose_tools(messages: Sequence[Message]) -> Sequence[Message] | None:
    return TOOLS if any("tool_calls" in message for message in messages) else None
