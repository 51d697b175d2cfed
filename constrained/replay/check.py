"""Replay of recorded turns: does the grammar accept the text, and what does the parser read?"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from constrained.answers import read_response_format
from constrained.errors import GrammarError, RequestError
from constrained.mask import Matcher
from constrained.replay.replay_context import Frame, read_field, read_frame
from constrained.tools.shapes import as_openai, read_policy, read_tools
from constrained.vocabulary.vocabulary import Tokenizer
from grammars.build.turn import build_grammar
from grammars.errors import Error
from grammars.parse.parser import parse
from grammars.turn import Start, State, Tool, Turn
from grammars.wire.format import Format, count_common


def check_rows(rows: Iterable[Mapping[str, Any] | Error]) -> Iterator[dict[str, Any]]:
    """Checks recorded turns.

    Args:
        rows: `{id, template | format | model, tools, text, messages?, tool_choice?,
            parallel_tool_calls?, response_format?, chat_template_kwargs?, reasoning_format?,
            tool_format?, markers?, bos_token?, eos_token?}`; `text` is what the model wrote
            behind the generation prompt. An error stands for a row that could not be read.

    Yields:
        one answer for each row, in order: `{id, accepted, accepted_bytes, complete, format,
        start_state, reasoning_content, content, tool_calls, valid, error}`. `valid`: all calls that
        were read name an offered tool and fit its schema (without any call: the turn is complete);
        if not, `error` has the pointer. A row that cannot be checked has the reason in `error`.
    """
    for row in rows:
        try:
            answer = _check(row)
        except Error as e:
            answer = _answer(row, error=e)
        yield answer


def _check(row: Any) -> dict[str, Any]:
    if isinstance(row, Error):
        raise row
    if not isinstance(row, Mapping):
        raise RequestError("the row is not an object", where="")
    text = _read_text(row)
    keeps_tags = read_field(row, "reasoning_format", "auto", "auto", "deepseek", "none") == "none"
    frame = read_frame(row)
    text = _without_end(text, frame.ends, frame.format)
    raw, tools, error = _read_tools(row.get("tools"))
    count, complete, state = 0, False, State()
    try:
        state = frame.find_state(row, as_openai(raw))
        count, complete = _match(row, frame, tools, state, text)
    except Error as e:
        error = error or e
    recover = not complete
    read = _parse_with_tags if keeps_tags else parse
    turn = read(text, frame.format, tools, state, recover=recover)
    whole = count == len(text.encode())
    return _answer(row, whole, count, complete, frame.format.name, state, turn, error)


def _read_text(row: Mapping[str, Any]) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        raise RequestError("the row has no text", where="/text")
    try:
        text.encode()
    except UnicodeEncodeError as e:
        message = f"the text has a lone surrogate, at character {e.start}"
        raise RequestError(message, where="/text") from e
    return text


def _read_tools(tools: Any) -> tuple[list[Any], tuple[Tool, ...], Error | None]:
    """The tools that can be read, as they stand and as `Tool`s, and why not all of them can."""
    try:
        read = read_tools([] if tools is None else tools)
        return list(tools or ()), read, None
    except Error as e:
        readable: dict[str, tuple[Any, Tool]] = {}
        for tool in tools if isinstance(tools, list) else []:
            try:
                (one,) = read_tools([tool])
            except Error:
                continue
            readable.setdefault(one.name, (tool, one))
        return [r for r, _ in readable.values()], tuple(t for _, t in readable.values()), e


def _without_end(text: str, ends: Iterable[str], format: Format) -> str:
    """The text up to the first end of turn. What ends a turn may also stand inside one, in front of
    what the format writes there (`<|end|><|start|>assistant`)."""
    places: list[int] = []
    for end in ends:
        behind = [run.partition(end)[2] for run in format.runs if end in run]
        found = (match.start() for match in re.finditer(re.escape(end), text))
        inner = tuple(rest for rest in behind if rest)
        at = next((i for i in found if not text.startswith(inner, i + len(end))), None)
        places += [] if at is None else [at]
    return text[: min(places)] if places else text


def _match(
    row: Mapping[str, Any], frame: Frame, tools: tuple[Tool, ...], state: State, text: str
) -> tuple[int, bool]:
    """How many bytes the grammar takes, and whether it takes all and the turn could end there."""
    parallel = read_field(row, "parallel_tool_calls", True)
    policy = read_policy(row.get("tool_choice"), parallel=parallel)
    policy = replace(policy, answer=read_response_format(row.get("response_format")))
    grammar = build_grammar(frame.format, tools, policy, state, frame.ids)
    tokens = frame.encode(text)
    try:
        matcher = _compile(frame.tokenizer, grammar).fork()
        count = matcher.accepts(tokens)
        for token in tokens[:count]:
            matcher.commit(token)
        complete = count == len(tokens) and matcher.is_complete
    except GrammarError:
        _compile.cache_clear()  # one that failed has spoilt what its forks share
        raise
    return len(frame.vocabulary.text(tokens[:count])), complete


@lru_cache(maxsize=16)
def _compile(tokenizer: Tokenizer, grammar: str) -> Matcher:
    return Matcher.compile(tokenizer, grammar)


def _parse_with_tags(
    text: str, format: Format, tools: tuple[Tool, ...], state: State, *, recover: bool
) -> Turn:
    """The turn with its reasoning left in the content, tags and white space included.

    So llama-server does with --reasoning-format none.
    """
    end = _end_of_reasoning(text, format, state)
    bare = replace(format, reasoning=None)
    inside, rest = (parse(part, bare, tools, recover=recover) for part in (text[:end], text[end:]))
    return Turn(
        content=inside.content + rest.content,
        calls=inside.calls + rest.calls,
        unfinished=inside.unfinished + rest.unfinished,
    )


def _end_of_reasoning(text: str, format: Format, state: State) -> int:
    """Where the reasoning block is over, the white space behind it included; 0 if there is none."""
    block = format.reasoning
    if block is None or state.start is Start.CLOSED:
        return 0
    if state.start is Start.PLAIN and not text.lstrip().startswith(block.opener.text):
        return 0
    closer = text.find(block.closer.text)
    if closer < 0:
        return len(text)
    end = closer + len(block.closer.text)
    return end + count_common(text[end:], block.after)


def _answer(
    row: Any,
    accepted: bool = False,
    accepted_bytes: int = 0,
    complete: bool = False,
    format: str | None = None,
    state: State | None = None,
    turn: Turn | None = None,
    error: Error | None = None,
) -> dict[str, Any]:
    row = row if isinstance(row, Mapping) else {}
    turn = turn or Turn(content=row["text"] if isinstance(row.get("text"), str) else "")
    calls = [
        {"id": c.id or f"call_{i}", "name": c.name, "arguments": c.arguments, "valid": c.valid}
        | ({} if c.valid else {"errors": [vars(e) for e in c.errors]})
        for i, c in enumerate(turn.calls)
    ]
    return {
        "id": row.get("id"),
        "accepted": accepted,
        "accepted_bytes": accepted_bytes,
        "complete": complete,
        "format": format,
        "start_state": state.start.value if state else None,
        "reasoning_content": turn.reasoning,
        "content": turn.content + turn.unfinished,
        "tool_calls": calls,
        "valid": all(c.valid for c in turn.calls) if turn.calls else complete and not error,
        "error": str(error) if error else _first_unfit(turn),
    }


def _first_unfit(turn: Turn) -> str | None:
    """Why the first call that is not valid is not, with the pointer into `tool_calls`."""
    for i, call in enumerate(turn.calls):
        for unfit in call.errors:
            return f"{unfit.message} (at /tool_calls/{i}{unfit.pointer})"
    return None


def read_rows(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any] | Error]:
    """Reads JSON Lines; an error stands for a line that is no JSON object."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as e:
            yield RequestError(f"line {number} is not JSON: {e}")
            continue
        yield row if isinstance(row, dict) else RequestError(f"line {number} is not an object")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
