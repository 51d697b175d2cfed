"""Text that agents change in every request although it says nothing: it would make each prompt new
to the cache from its first tokens on, so it is made constant.

Coding agents put two such texts into the system prompt: a line `x-anthropic-billing-header: ...;
cch=<5 digits>;`, and the path of a file `claude-settings-<uuid>.json`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BILLING = re.compile(r"^(x-anthropic-billing-header:[^\n]*?\bcch=)([^;\s]+)", re.MULTILINE)
_HEX = "[0-9a-fA-F]"
_SETTINGS = re.compile(
    rf"(claude-settings-)({_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}})"
)
_CONSTANTS = ((_BILLING, "00000"), (_SETTINGS, "00000000-0000-0000-0000-000000000000"))
_ROLES = ("system", "developer")


def settle_text(text: str) -> tuple[str, int]:
    """The text with constants in the places of what changes, and how many places that were."""
    changed = 0
    for pattern, constant in _CONSTANTS:
        changed += sum(found[2] != constant for found in pattern.finditer(text))
        text = pattern.sub(rf"\g<1>{constant}", text)
    return text, changed


def settle_messages(
    messages: Sequence[Mapping[str, Any]], *, keep: bool = False
) -> tuple[list[dict[str, Any]], int]:
    """Messages in OpenAI's form with `settle_text` done to those of the system, and how many places
    were changed.

    Args:
        messages: their content is text, or a list of parts.
        keep: leave all of it as it is.
    """
    settled, changed = list[dict[str, Any]](), 0
    for message in messages:
        copy = dict(message)
        if not keep and copy.get("role") in _ROLES:
            copy["content"], count = _settle_content(copy.get("content"))
            changed += count
        settled.append(copy)
    return settled, changed


def _settle_content(content: Any) -> tuple[Any, int]:
    if isinstance(content, str):
        return settle_text(content)
    if not isinstance(content, list):
        return content, 0
    parts, changed = list[Any](), 0
    for part in content:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            text, count = settle_text(part["text"])
            parts.append({**part, "text": text})
            changed += count
        else:
            parts.append(part)
    return parts, changed
