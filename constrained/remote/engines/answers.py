"""Reads replies of engines strictly: a field with a wrong type is an error."""

import json
from typing import Any

from constrained.errors import RemoteError

MAX_SHOWN_LENGTH = 200  # characters of an event in an error


def refuse(engine: str, event: Any, problem: str) -> RemoteError:
    """Makes the error for an invalid event."""
    shown = json.dumps(event)
    if len(shown) > MAX_SHOWN_LENGTH:
        shown = shown[:MAX_SHOWN_LENGTH] + " ..."
    return RemoteError(f"{engine}: {problem}: {shown}", is_outage=True)


def read_ids(engine: str, event: dict[str, Any], name: str) -> list[int]:
    """Reads the token ids in an optional field; raises RemoteError."""
    ids = event.get(name) or []
    if not isinstance(ids, list) or any(type(token) is not int for token in ids):
        raise refuse(engine, event, f"{name} is not a list of token ids")
    return ids


def read_count(engine: str, event: dict[str, Any], name: str) -> int:
    """Reads the number in a required field; raises RemoteError."""
    count = event.get(name)
    if type(count) is not int or count < 0:
        raise refuse(engine, event, f"{name} is not a number of tokens")
    return count


def check_prompt(engine: str, event: dict[str, Any], name: str, size: int) -> None:
    """Raises RemoteError if the engine has read another number of tokens than the prompt has: some
    engines silently truncate long prompts."""
    if name in event and read_count(engine, event, name) != size:
        raise refuse(engine, event, f"it read another prompt, ours has {size} tokens")


def read_logprob(engine: str, event: dict[str, Any], value: Any) -> float:
    """Reads the logarithm of a probability; raises RemoteError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e-3:
        raise refuse(engine, event, f"{value!r} is not a logarithm of a probability")
    return float(value)
