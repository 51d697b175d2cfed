"""What parsers in Python return, in any common form, as the pipe of `constrained suite` has it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

_REASONING = ("reasoning", "reasoning_content")
_CALLS = ("calls", "tool_calls")
_ARGUMENTS = ("arguments", "parameters", "args")
_MISSING = object()
NO_CALL = "a call is a pair of name and arguments, or an object with both"


def write_answer(value: Any) -> dict[str, Any]:
    """Returns what was read from a whole text, with the fields that the parser returns: of a list
    of calls; of an object or a dictionary with `content`, `calls` (or `tool_calls`) and
    `reasoning`; or of None, which is no calls. Raises a `TypeError` if it is none of these."""
    if value is None or isinstance(value, list | tuple):
        calls: Sequence[Any] = cast(Sequence[Any], value or ())
        return {"calls": [write_call(call) for call in calls]}
    found = {
        "content": _find(value, "content"),
        "reasoning": _find(value, *_REASONING),
        "calls": _find(value, *_CALLS),
    }
    answer = {name: part for name, part in found.items() if part is not _MISSING}
    if not {"content", "calls"} & answer.keys():
        message = "a parser returns a list of calls, or content, calls and reasoning"
        raise TypeError(f"{message}: {value!r:.200}")
    return {**answer, "calls": [write_call(call) for call in answer.get("calls") or ()]}


def write_deltas(value: Any) -> Iterator[dict[str, Any]]:
    """Yields what was read from a chunk: of a delta, which has `content`, `reasoning` and `calls`
    (or `tool_calls`), each of them with its `index` and a piece of its arguments; of text, which is
    content; of several deltas; or of None."""
    if value is None:
        return
    if isinstance(value, str):
        yield {"content": value}
    elif isinstance(value, list | tuple):
        for item in cast(Sequence[Any], value):
            yield from write_deltas(item)
    else:
        yield {
            "content": _find(value, "content", default=None),
            "reasoning": _find(value, *_REASONING, default=None),
            "calls": [_write_piece(call) for call in _find(value, *_CALLS, default=None) or ()],
        }


def _write_piece(call: Any) -> dict[str, Any]:
    function = _find(call, "function", default=None) or call
    return {
        "index": _find(call, "index", default=None),
        "name": _find(function, "name", default=None),
        "arguments": _find(function, *_ARGUMENTS, default=None),
    }


def write_call(call: Any) -> dict[str, Any]:
    """Returns name and arguments of a call: a pair, an object with both, or OpenAI's form. Raises a
    `TypeError` if it is none of these."""
    name = arguments = _MISSING
    if isinstance(call, list | tuple):
        pair = cast(Sequence[Any], call)
        if len(pair) == 2:
            name, arguments = pair
    else:
        function = _find(call, "function", default=None) or call
        name, arguments = _find(function, "name"), _find(function, *_ARGUMENTS)
    if name is _MISSING or arguments is _MISSING:
        raise TypeError(f"{NO_CALL}: {call!r:.100}")
    return {"name": name, "arguments": arguments}


def _find(value: Any, *names: str, default: Any = _MISSING) -> Any:
    for name in names:
        if isinstance(value, Mapping):
            found: Any = cast(Mapping[str, Any], value).get(name, _MISSING)
        else:
            found = getattr(value, name, _MISSING)
        if found is not _MISSING:
            return found
    return default
