"""Forms of a conversation: how its messages are written where a chat template loses or
refuses them as they are.

A form changes messages in normal form (`constrained.prompt.messages.normalise`), and only those
that it is for. Which ones a template needs is found by rendering, see `ChatTemplate`.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Self

from constrained.prompt.messages import is_text_parts, join_text_parts
from constrained.prompt.template.result_calls import list_calls, match_results, renumber

Message = dict[str, Any]
Messages = Sequence[Message]

SYSTEM_OPENER, SYSTEM_CLOSER = "<system>\n", "\n</system>"
"""What stands around a system message that is written as one of the user."""
RESULT_OPENER, RESULT_CLOSER = "<tool_response>\n", "\n</tool_response>"
"""What stands around a result that is written as a message of the user."""
MAX_FORMS = 3
"""Of one conversation."""


def is_text(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, str) or is_text_parts(content)


def _join_system(messages: Messages) -> Messages:
    head = [*itertools.takewhile(_is_system, messages)]
    return [_join(head), *messages[len(head) :]] if _can_join(head) else messages


def _join_turns(messages: Messages) -> Messages:
    written: list[Message] = []
    for message in messages:
        before = written[-1] if written else None
        is_same = before is not None and before["role"] == message["role"] in ("user", "assistant")
        if before and is_same and "tool_calls" not in before and _can_join([before, message]):
            written[-1] = _join([before, message])
        else:
            written.append(message)
    return written


def _write_system_as_user(messages: Messages) -> Messages:
    written = [*messages[:1]]
    for message in messages[1:]:
        if message["role"] == "system" and is_text(message):
            text = f"{SYSTEM_OPENER}{join_text_parts(message['content'])}{SYSTEM_CLOSER}"
            message = {"role": "user", "content": text}
        written.append(message)
    return written


def _write_results_as_user(messages: Messages) -> Messages:
    written: list[Message] = []
    is_behind_calls = False
    for message, number in zip(messages, match_results(messages), strict=True):
        if not _is_result(message):
            is_behind_calls = "tool_calls" in message
        elif not (is_behind_calls and number is not None) and is_text(message):
            text = f"{RESULT_OPENER}{join_text_parts(message['content'])}{RESULT_CLOSER}"
            message = {"role": "user", "content": text}
            is_behind_calls = False  # results after it follow a message of the user
        written.append(message)
    return written


def _begin_user_with_system(messages: Messages) -> Messages:
    if not messages or not _is_system(messages[0]) or not is_text(messages[0]):
        return messages
    head, *rest = messages
    if rest and rest[0]["role"] == "user" and is_text(rest[0]):
        return [_join([head, rest[0]]), *rest[1:]]
    return [{"role": "user", "content": head["content"]}, *rest]


def _add_system(messages: Messages) -> Messages:
    if messages and _is_system(messages[0]):
        return messages
    return [{"role": "system", "content": ""}, *messages]


def _add_user(messages: Messages) -> Messages:
    count = len([*itertools.takewhile(_is_system, messages)])
    if messages[count:] and messages[count]["role"] == "user":
        return messages
    return [*messages[:count], {"role": "user", "content": ""}, *messages[count:]]


def _are_answers(before: Message, message: Message) -> bool:
    return before["role"] == message["role"] == "assistant"


def _lacks_answer(before: Message, message: Message) -> bool:
    is_open = before["role"] in ("user", "tool") or "tool_calls" in before
    return message["role"] == "user" and is_open


def _add_between(
    role: str, is_due: Callable[[Message, Message], bool], messages: Messages
) -> Messages:
    written = [*messages[:1]]
    for before, message in itertools.pairwise(messages):
        if is_due(before, message):
            written.append({"role": role, "content": ""})
        written.append(message)
    return written


def _part_content(messages: Messages) -> Messages:
    written: list[Message] = []
    for message in messages:
        if message.get("tool_calls") and message["content"]:
            written.append({key: one for key, one in message.items() if key != "tool_calls"})
            calls = message["tool_calls"]
            message = {"role": message["role"], "content": None, "tool_calls": calls}
        written.append(message)
    return written


def _part_calls(messages: Messages) -> Messages:
    numbers = match_results(messages)
    calls_before = 0
    written: list[Message] = []
    for i, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        if len(calls) > 1:
            results: list[tuple[Message, int | None]] = []
            for j in range(i + 1, len(messages)):
                if not _is_result(messages[j]):
                    break
                results.append((messages[j], numbers[j]))
            written += _pair(message, results, calls_before)
        elif not _is_result(message) or not _follows_several(messages, i):
            written.append(message)
        calls_before += len(calls)
    return written


def _follows_several(messages: Messages, index: int) -> bool:
    while index and _is_result(messages[index]):
        index -= 1
    return len(messages[index].get("tool_calls") or ()) > 1


def _pair(
    message: Message, results: Sequence[tuple[Message, int | None]], first: int
) -> Iterator[Message]:
    """Yields each call, and its results behind it; further results come last."""
    by_call: dict[int, list[Message]] = {}
    for result, number in results:
        by_call.setdefault(-1 if number is None else number, []).append(result)
    rest = {key: one for key, one in message.items() if key != "tool_calls"}
    for number, call in enumerate(message["tool_calls"], first):
        yield {**rest, "tool_calls": [call]}
        rest = {"role": message["role"], "content": None}
        yield from by_call.pop(number, ())
    for others in by_call.values():
        yield from others


def _write_ids(messages: Messages) -> Messages:
    calls = [*list_calls(messages)]
    if not all(isinstance(call, Mapping) for call in calls):
        return messages
    return renumber(messages, [f"call{number:05}" for number in range(len(calls))])


def _name_results(messages: Messages) -> Messages:
    calls = [*list_calls(messages)]
    written: list[Message] = []
    for message, number in zip(messages, match_results(messages), strict=True):
        if number is not None and "name" not in message:
            match calls[number]:
                case {"function": {"name": name}}:
                    message = {**message, "name": name}
                case _:
                    pass
        written.append(message)
    return written


def _is_system(message: Mapping[str, Any]) -> bool:
    return message["role"] == "system"


def _is_result(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool"


def _can_join(messages: Messages) -> bool:
    return len(messages) > 1 and all(map(is_text, messages))


def _join(messages: Messages) -> Message:
    """Joins messages with text; the last one may have calls."""
    texts = [join_text_parts(message["content"]) for message in messages]
    joined: Message = {}
    for message in messages:
        joined |= message
    return joined | {"content": "\n\n".join(filter(None, texts))}


class ConversationForm(StrEnum):
    """What a form does, in words, and the function that does it, in the order in which several are
    applied: what a client wrote is joined before system messages become messages of the user."""

    apply: Callable[[Messages], Messages]

    def __new__(cls, words: str, apply: Callable[[Messages], Messages]) -> Self:
        form = str.__new__(cls, words)
        form._value_ = words
        form.apply = apply
        return form

    JOINED_SYSTEM = "system messages at the beginning are one message", _join_system
    PARTED_CONTENT = "content beside calls is a message of its own, before them", _part_content
    SINGLE_CALLS = "each call is a message of its own, before its result", _part_calls
    CALL_IDS = "calls and results have ids of nine letters and digits", _write_ids
    NAMED_RESULTS = "results have the name of their function", _name_results
    EMPTY_SYSTEM = "an empty system message comes first", _add_system
    EMPTY_USER = "an empty message of the user comes before the first answer", _add_user
    JOINED_TURNS = (
        "messages of the user, and answers, that follow each other are one message",
        _join_turns,
    )
    EMPTY_QUESTION = (
        "an empty message of the user stands between two answers",
        partial(_add_between, "user", _are_answers),
    )
    SYSTEM_AS_USER = (
        "later system messages are messages of the user, between <system> tags",
        _write_system_as_user,
    )
    RESULT_AS_USER = (
        "results that follow no call are messages of the user, between <tool_response> tags",
        _write_results_as_user,
    )
    EMPTY_ANSWER = (
        "an empty answer comes before a message of the user that follows another message",
        partial(_add_between, "assistant", _lacks_answer),
    )
    SYSTEM_IN_USER = (
        "the system message begins the message of the user after it, or is one",
        _begin_user_with_system,
    )


FOR_REFUSALS = frozenset({ConversationForm.EMPTY_SYSTEM, ConversationForm.EMPTY_USER})
"""Those that do not hide how a template writes turns."""

Forms = tuple[ConversationForm, ...]


def write(messages: Messages, forms: Forms) -> list[Message]:
    for form in forms:
        messages = form.apply(messages)
    return [*messages]


def list_forms(
    messages: Messages, allowed: frozenset[ConversationForm] = frozenset(ConversationForm)
) -> Iterator[tuple[Forms, list[Message]]]:
    """Yields the forms to try and what they make of it, the ones that change least first."""
    known = [form for form in ConversationForm if form in allowed]
    written: dict[Forms, list[Message]] = {(): [*messages]}
    for count in range(1, MAX_FORMS + 1):
        for forms in itertools.combinations(known, count):
            before = written.get(forms[:-1])
            if before is None:
                continue
            changed = [*forms[-1].apply(before)]
            if changed != before:
                written[forms] = changed
                yield forms, changed
