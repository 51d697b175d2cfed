"""Which part of a value took the tokens that ran out."""

import json
from typing import Any

from grammars.schema.pointers import point_to

SHORT = 40  # characters of a value to which no advice is given


def advise_limit(value: Any) -> str | None:
    """Says how to limit the text or list that takes more than half of a value; or None."""
    keys: list[str] = []
    while isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        key, part = max(parts, key=lambda item: _measure(item[1]))
        if 2 * _measure(part) <= _measure(value):
            break
        keys.append(str(key))
        value = part
    if _measure(value) < SHORT:
        return None
    place = f"the field {point_to(keys)}" if keys else "the value"
    match value:
        case str():
            keyword = "maxLength"
        case list():
            keyword = "maxItems"
        case _:
            return None
    took = f"{place} took most of the tokens"
    return f"{took}: limit it with max_length ({keyword} in a schema), or raise max_tokens"


def _measure(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
