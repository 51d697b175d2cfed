"""Reasoning as a part of an assistant message's content, as in Mistral's API and in proxies that
translate from Anthropic's API."""

from collections.abc import Mapping
from typing import Any

from constrained.messages import REASONING_NAMES, find_reasoning_name
from server.errors import HttpError
from server.turns.request_checks import list_texts, read_text_parts

NO_TEXT = {"type": "text", "text": ""}


def separate_reasoning(content: list[Any], where: str) -> tuple[Any, str]:
    """Returns the parts of text, as `read_text_parts` reads them, and the reasoning.

    Args:
        content: the parts of a message.
        where: the JSON pointer to them.

    Raises:
        HttpError: a part is neither; says which.
    """
    reasoning: dict[int, str] = {}
    others: list[Any] = []
    for number, part in enumerate(content):
        text = _read_reasoning(part, f"{where}/{number}")
        if text is not None:
            reasoning[number] = text
            part = NO_TEXT  # so that errors have the places of the client's own parts
        others.append(part)
    read = read_text_parts(others, where)
    texts = [part for number, part in enumerate(read) if number not in reasoning]
    return texts or "", "".join(reasoning.values())


def place_reasoning(message: dict[str, Any], reasoning: str, where: str) -> None:
    """Moves the reasoning of a message's parts to a separate field.

    Args:
        message: changed.
        reasoning: of its parts.
        where: the JSON pointer to it.

    Raises:
        HttpError: the message has other reasoning, too; says where.
    """
    for name in REASONING_NAMES:
        beside = message.get(name)
        if beside and beside != reasoning:
            text = f"{name} and the parts of the content have different reasoning: leave one out"
            raise HttpError(400, text, "invalid_value", where=f"{where}/{name}")
    message[find_reasoning_name(message)] = reasoning


def _read_reasoning(part: Any, where: str) -> str | None:
    """Returns the reasoning in a part; "": it is encrypted; None: the part has no reasoning."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    match part, kind:
        case {"thinking": str(text)}, "thinking":
            return text
        case {"thinking": list(parts)}, "thinking":
            return "".join(list_texts(read_text_parts(parts, f"{where}/thinking")))
        case {"text": str(text)}, "reasoning":
            return text
        case _, "redacted_thinking":
            return ""
        case _:
            return None
