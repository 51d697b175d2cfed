"""Reasoning of an assistant message outside its usual field: as a part of the content, as in
Mistral's API and in proxies that translate from Anthropic's API, or as a list of blocks beside the
content, as clients of OpenRouter and LiteLLM send it back."""

from collections.abc import Mapping
from typing import Any

from constrained.prompt.messages import REASONING_NAMES, find_reasoning_name, read_reasoning
from server.errors import refuse
from server.turns.request_checks import list_texts, read_text_parts

NO_TEXT = {"type": "text", "text": ""}
BLOCK_LISTS = ("reasoning_details", "thinking_blocks")
"""Fields of a message with blocks of reasoning: OpenRouter's and LiteLLM's."""


def separate_reasoning(content: list[Any], where: str) -> tuple[Any, str]:
    """Returns the parts of text of a message, as `read_text_parts` reads them, and the
    reasoning."""
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
    """Moves the reasoning of a message's parts to a field of the message; refuses a message that
    has other reasoning, too."""
    for name in REASONING_NAMES:
        beside = message.get(name)
        if beside and beside != reasoning:
            text = f"{name} and the parts of the content have different reasoning: leave one out"
            raise refuse(text, f"{where}/{name}")
    message[find_reasoning_name(message)] = reasoning


def take_blocks(message: dict[str, Any]) -> None:
    """Moves the text of an assistant message's blocks of reasoning to the field for reasoning.
    Clients send the same text in several fields: the reasoning of the message comes first, then the
    first list that has text. Blocks of other roles are removed."""
    reasoning = ""
    for name in BLOCK_LISTS:
        blocks = message.pop(name, None)
        if not reasoning and isinstance(blocks, list):
            reasoning = "".join(_read_block(block) or "" for block in blocks)
    if reasoning and message.get("role") == "assistant" and not read_reasoning(message):
        message[find_reasoning_name(message)] = reasoning


def find_unread_blocks(message: Mapping[str, Any], where: str) -> list[str]:
    """Lists the blocks of reasoning that have no text, such as encrypted ones, with their types.
    Only messages of the assistant have reasoning, so all blocks of others are listed."""
    unread: list[str] = []
    for name in BLOCK_LISTS:
        blocks = message.get(name)
        for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if _read_block(block) is None or message.get("role") != "assistant":
                kind = block.get("type") if isinstance(block, Mapping) else None
                unread.append(f"{where}/{name}/{number} ({kind})")
    return unread


def _read_block(block: Any) -> str | None:
    """Returns the reasoning in a block; None: it has no text."""
    match block:
        case {"type": "reasoning.text", "text": str(text)}:
            return text
        case {"type": "reasoning.summary", "summary": str(text)}:
            return text
        case {"type": "thinking", "thinking": str(text)}:
            return text
        case {"type": "reasoning.text" | "reasoning.summary" | "thinking"}:
            return ""  # a part of a stream that has only the signature
        case _:
            return None


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
