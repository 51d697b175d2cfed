"""Replay of recorded turns: the bytes that the grammar accepts, and what the parser reads."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.engine.vocabulary.vocabulary import Tokenizer
from constrained.errors import GrammarError, RequestError
from constrained.inspect.replay.replay_context import (
    ReplayContext,
    commit_accepted,
    read_context,
    read_field,
    read_option,
)
from constrained.mask.matcher import Matcher
from constrained.prompt.answers import read_response_format
from constrained.prompt.tools.offer import HIDDEN
from constrained.prompt.tools.shapes import TOOLS, as_openai, read_policy, read_tools
from grammars.errors import Error
from grammars.limits.byte_cache import MIB, keep_results
from grammars.parse.parser import parse
from grammars.turn import Choice, Policy, State, Tool, ToolCall, Turn
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format

MATCHERS = 16 * MIB


def check_rows(
    rows: Iterable[Mapping[str, Any] | Error], *, special_tokens: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Checks recorded turns.

    Args:
        rows: `{id, template | format | model, tools, hidden_tools?, text, messages?, tool_choice?,
            parallel_tool_calls?, response_format?, chat_template_kwargs?, reasoning_format?,
            tool_format?, markers?, bos_token?, eos_token?, special_tokens?}`; `text` is what
            the model wrote after the generation prompt. An error takes the place of a row that
            could not be read.
        special_tokens: of the model, for rows with a template that name none; None: not known.

    Yields:
        one answer for each row, in order: `{id, accepted, accepted_bytes, complete, format,
        start_state, reasoning_content, content, tool_calls, valid, error}`. `valid`: all calls that
        were read name an offered tool and fit its schema (without any call: the turn is complete);
        if not, `error` has the pointer. A row that cannot be checked has the reason in `error`.
    """
    for row in rows:
        if special_tokens is not None and isinstance(row, Mapping):
            row = {"special_tokens": list(special_tokens), **row}
        try:
            answer = _check(row)
        except Error as e:
            answer = _refuse(row, e)
        yield answer


def _check(row: Any) -> dict[str, Any]:
    if isinstance(row, Error):
        raise row
    if not isinstance(row, Mapping):
        raise RequestError("the row is not an object", where="")
    text = _read_text(row)
    reasoning_format = read_option(row, "reasoning_format", ("auto", "deepseek", "none"))
    context = read_context(row)
    format = context.format
    text = text[: _find_end(text, context)]
    tools, shown, error = _read_row_tools(row)
    count, complete, state, policy = 0, False, State(), Policy()
    try:
        state = context.find_state(row, as_openai(shown))
        parallel = read_field(row, "parallel_tool_calls", default=True)
        policy = read_policy(row.get("tool_choice"), parallel=parallel)
        policy = replace(policy, answer=read_response_format(row.get("response_format")))
        format, policy = context.guard_text(policy, row, has_tools=bool(tools))
        grammar = build_grammar(format, tools, policy, state, context.ids)
        count, complete = _match(text, grammar, context)
    except Error as e:
        error = error or e
    is_inline = reasoning_format == "none"
    turn = parse(text, format, tools, state, recover=not complete, inline=is_inline)
    reads_envelopes = policy.choice is Choice.AUTO and policy.answer is None
    if complete and not turn.calls and reads_envelopes:
        found = parse(text, format, tools, state, recover=True, inline=is_inline)
        turn = found if found.calls else turn
    valid = complete and error is None
    if turn.calls:
        valid = all(call.valid for call in turn.calls)
    return _answer(row, turn, error) | {
        "accepted": count == len(text.encode()),
        "accepted_bytes": count,
        "complete": complete,
        "format": format.name,
        "start_state": state.start.value,
        "valid": valid,
    }


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


def _read_row_tools(row: Mapping[str, Any]) -> tuple[tuple[Tool, ...], list[Any], Error | None]:
    """Returns the readable tools of a row, those of the prompt in their own shape, and the error of
    the others."""
    shown, tools, error = _read_tools(row.get("tools"), TOOLS)
    _, hidden, other_error = _read_tools(row.get("hidden_tools"), HIDDEN)
    return (*tools, *hidden), shown, error or other_error


def _read_tools(given: Any, where: str) -> tuple[list[Any], tuple[Tool, ...], Error | None]:
    """Returns the readable tools, in their own shape and as `Tool`s, and the error of the
    others."""
    try:
        read = read_tools([] if given is None else given, where)
        return list(given or ()), read, None
    except Error as e:
        error = e
    if not isinstance(given, list):
        return [], (), error
    raw: list[Any] = []
    tools: dict[str, Tool] = {}
    for one in given:
        try:
            (tool,) = read_tools([one])
        except Error:  # one refused tool does not affect the others
            continue
        if tool.name not in tools:
            raw.append(one)
            tools[tool.name] = tool
    return raw, tuple(tools.values()), error


def _find_end(text: str, context: ReplayContext) -> int:
    """Returns the offset of the first end of turn; the length of the text if there is none.

    The text of an end may also occur inside a turn, before a text that the format writes there
    (`<|end|><|start|>assistant`), or before the beginning of another message.
    """
    first = len(text)
    headers = context.format.headers
    starts = () if headers is None else headers.starts
    for end in context.ends:
        following = {run.partition(end)[2] for run in _list_runs(context.format)}
        inside = tuple(following - {""})
        for match in re.finditer(rf"{re.escape(end)}(\s*)", text):
            is_inside = text.startswith(inside, match.start(1))
            if not is_inside and not text.startswith(starts, match.end()):
                first = min(first, match.start())
                break
    return first


def _list_runs(format: Format) -> Iterator[str]:
    """Yields the fixed texts of a turn; the end of a message continues with the call that follows
    it."""
    opener = "" if format.opener is None else format.opener.text
    for run in format.runs:
        if run == format.between:
            yield run + format.call_head
        elif run == format.before:
            yield run + opener
        else:
            yield run


def _match(text: str, grammar: str, context: ReplayContext) -> tuple[int, bool]:
    tokens = context.encode(text)
    try:
        count, complete = commit_accepted(_compile(context.tokenizer, grammar).fork(), tokens)
    except GrammarError:
        _compile.cache.clear()  # llguidance: an error damages all forks of a matcher
        raise
    return len(context.vocabulary.text(tokens[:count])), complete


@keep_results("checked_matchers", MATCHERS, Matcher.measure)
def _compile(tokenizer: Tokenizer, grammar: str) -> Matcher:
    return Matcher.compile(tokenizer, grammar)


def _refuse(row: Any, error: Error) -> dict[str, Any]:
    """Makes the answer for a row that cannot be checked; its text is the content."""
    if not isinstance(row, Mapping):
        return _answer({}, Turn(), error)
    text = row.get("text")
    if not isinstance(text, str):
        text = ""
    return _answer(row, Turn(content=text), error)


def _answer(row: Mapping[str, Any], turn: Turn, error: Error | None) -> dict[str, Any]:
    """Makes an answer with all its fields, in order; those of the grammar say that nothing is
    accepted."""
    return {
        "id": row.get("id"),
        "accepted": False,
        "accepted_bytes": 0,
        "complete": False,
        "format": None,
        "start_state": None,
        "reasoning_content": turn.reasoning,
        "content": turn.content + turn.unfinished,
        "tool_calls": [_show_call(number, call) for number, call in enumerate(turn.calls)],
        "valid": False,
        "error": _find_first_error(turn) if error is None else str(error),
    }


def _show_call(number: int, call: ToolCall) -> dict[str, Any]:
    shown = {
        "id": call.id or f"call_{number}",
        "name": call.name,
        "arguments": call.arguments,
        "valid": call.valid,
    }
    if not call.valid:
        shown["errors"] = list(map(vars, call.errors))
    return shown


def _find_first_error(turn: Turn) -> str | None:
    """Returns the first error of a call, with the pointer into `tool_calls`."""
    for i, call in enumerate(turn.calls):
        if call.errors:
            error = call.errors[0]
            return f"{error.message} (at /tool_calls/{i}{error.pointer})"
    return None


def read_rows(lines: Iterable[str | bytes]) -> Iterator[dict[str, Any] | Error]:
    """Reads JSON Lines, without blank lines; yields an error for a line that is not a JSON
    object."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as e:
            yield RequestError(f"line {number} is not JSON: {e}")
            continue
        if isinstance(row, dict):
            yield row
        else:
            yield RequestError(f"line {number} is not an object")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
