"""Replay of recorded turns: does the grammar accept the text, and what does the parser read?"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import llguidance

from constrained.errors import RequestError
from constrained.mask import Matcher
from constrained.template import ChatTemplate, check_kwargs
from constrained.tools import as_openai, read_policy, read_tools
from constrained.vocabulary import Vocabulary, build_tokenizer, byte_vocabulary
from grammars.detect import detect, find_state
from grammars.errors import Error, ToolError
from grammars.formats import FORMATS
from grammars.lark import build_grammar
from grammars.parse import parse
from grammars.turn import State, Tool, Turn
from grammars.wire import Format, find_format

DEFAULT_MESSAGES = [{"role": "user", "content": "Hello"}]


@dataclass(frozen=True)
class _Frame:
    """What a row's text is read against."""

    format: Format
    state: State


def check_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Checks recorded turns.

    Args:
        rows: `{id, template | format, tools, text, messages?, tool_choice?, parallel_tool_calls?,
            chat_template_kwargs?, reasoning_format?, markers?, bos_token?, eos_token?}`; `text` is
            what the model wrote behind the generation prompt.

    Yields:
        one answer for each row, in order: `{id, accepted, accepted_bytes, complete, format,
        start_state, reasoning_content, content, tool_calls, valid, error}`. A row that cannot be
        checked has `accepted: false` and the reason in `error`.
    """
    for row in rows:
        try:
            yield _check(row)
        except Error as e:
            yield _answer(row, error=str(e))


def _check(row: Mapping[str, Any]) -> dict[str, Any]:
    text = row.get("text")
    if not isinstance(text, str):
        raise RequestError("the row has no text", where="/text")
    frame = _frame(row)
    text = _without_end(text, frame.format)
    tools, error = _tools(row)
    accepted, complete = -1, False
    if error is None:
        try:
            accepted, complete = _match(row, frame, tools, text)
        except Error as e:
            error = str(e)
    whole = accepted == len(text.encode())
    turn = parse(text, frame.format, tools, frame.state, recover=not (whole and complete))
    turn = _reasoning_format(turn, text, row.get("reasoning_format", "auto"))
    return _answer(
        row,
        accepted=whole,
        accepted_bytes=max(accepted, 0),
        complete=whole and complete,
        frame=frame,
        turn=turn,
        error=error,
    )


def _tools(row: Mapping[str, Any]) -> tuple[tuple[Tool, ...], str | None]:
    """The tools that can be read, and why not all of them."""
    try:
        return read_tools(row.get("tools") or []), None
    except Error as e:
        readable: list[Tool] = []
        for tool in row["tools"] if isinstance(row["tools"], list) else []:
            try:
                readable += read_tools([tool])
            except Error:
                continue
        return tuple({t.name: t for t in readable}.values()), str(e)


def _frame(row: Mapping[str, Any]) -> _Frame:
    if "template" not in row:
        name = row.get("format")
        format = find_format(str(name), FORMATS)
        if format is None:
            known = ", ".join(f.name for f in FORMATS)
            raise RequestError(f"unknown format {name!r}", where="/format", hint=f"Known: {known}")
        return _Frame(format, State())
    bos, eos = row.get("bos_token", "<s>"), row.get("eos_token", "</s>")
    template, format = _read_template(str(row["template"]), bos, eos)
    messages = row.get("messages") or DEFAULT_MESSAGES
    tools = as_openai(row.get("tools") or []) or None
    kwargs = row.get("chat_template_kwargs") or {}
    check_kwargs(kwargs)
    opened, plain = (
        template.render(messages, tools, add_generation_prompt=on, **kwargs) for on in (True, False)
    )
    return _Frame(format, find_state(opened, plain, format))


@lru_cache(maxsize=128)
def _read_template(source: str, bos: str, eos: str) -> tuple[ChatTemplate, Format]:
    """A template given as a path, if such a file exists, else as the template itself."""
    if "\n" not in source and "{" not in source:
        path = Path(source)
        if not path.is_file():
            hint = "Give the path of a template, or the template itself"
            raise RequestError(f"no template {source!r}", where="/template", hint=hint)
        source = path.read_text(encoding="utf-8")
    template = ChatTemplate(source, bos_token=bos, eos_token=eos)
    return template, detect(template.render)


def _without_end(text: str, format: Format) -> str:
    """The text up to the first end of turn, and without the white space written before it."""
    places = [at for end in format.ends if (at := text.find(end)) >= 0]
    return text[: min(places)] if places else text


def _match(
    row: Mapping[str, Any], frame: _Frame, tools: tuple[Tool, ...], text: str
) -> tuple[int, bool]:
    """How many bytes the grammar takes, and whether the turn could end there."""
    policy = read_policy(row.get("tool_choice"), parallel=row.get("parallel_tool_calls", True))
    single = row.get("markers", "text") == "token"
    vocabulary, tokenizer = byte_tokenizer(frame.format.markers if single else ())
    ids = {m: i for m in frame.format.markers if (i := vocabulary.marker(m)) is not None}
    grammar = build_grammar(frame.format, tools, policy, frame.state, ids)
    tokens = vocabulary.encode_special(text) if single else vocabulary.encode(text)
    return _consume(_compile(tokenizer, grammar), vocabulary, tokens)


def _consume(matcher: Matcher, vocabulary: Vocabulary, tokens: list[int]) -> tuple[int, bool]:
    matcher = matcher.fork()
    count = matcher.accepts(tokens)
    for token in tokens[:count]:
        matcher.commit(token)
    return len(vocabulary.text(tokens[:count])), matcher.is_complete


@lru_cache(maxsize=64)
def byte_tokenizer(markers: tuple[str, ...]) -> tuple[Vocabulary, llguidance.LLTokenizer]:
    vocabulary = byte_vocabulary(markers)
    return vocabulary, build_tokenizer(vocabulary, markers)


@lru_cache(maxsize=16)
def _compile(tokenizer: llguidance.LLTokenizer, grammar: str) -> Matcher:
    return Matcher.compile(tokenizer, grammar)


def _reasoning_format(turn: Turn, text: str, name: str) -> Turn:
    """`none` leaves the tags in the content, as llama-server's --reasoning-format does."""
    if name in ("auto", "deepseek"):
        return turn
    if name != "none":
        hint = "Use none, auto or deepseek"
        raise RequestError(
            f"unknown reasoning_format {name!r}", where="/reasoning_format", hint=hint
        )
    if not turn.reasoning:
        return turn
    behind = text.find(turn.reasoning) + len(turn.reasoning)
    closed = text.find(turn.content, behind) if turn.content else behind
    return replace(turn, reasoning="", content=text[:closed] + turn.content)


def _answer(
    row: Mapping[str, Any],
    *,
    accepted: bool = False,
    accepted_bytes: int = 0,
    complete: bool = False,
    frame: _Frame | None = None,
    turn: Turn | None = None,
    error: str | None = None,
) -> dict[str, Any]:
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
        "format": frame.format.name if frame else None,
        "start_state": frame.state.start.value if frame else None,
        "reasoning_content": turn.reasoning,
        "content": turn.content + turn.unfinished,
        "tool_calls": calls,
        "valid": complete and all(c.valid for c in turn.calls),
        "error": error,
    }


def read_rows(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Reads JSON Lines; a line that is not an object becomes a row that reports it."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ToolError("not an object")
        except (ValueError, RecursionError) as e:
            row = {"id": None, "text": None, "unreadable": f"line {number}: {e}"}
        yield row
