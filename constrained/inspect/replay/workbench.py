"""The workbench: shows how a template, tools and the text of a model fit together.

It shows the prompt, the wire format and why it was chosen, the grammar, and what of each schema is
enforced. If the grammar refuses the text, it shows the byte and what is allowed there. It also says
of calls whether they fit their schemas.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import GrammarError, RequestError
from constrained.inspect.replay.check import build_row_grammar, check_rows, read_text
from constrained.inspect.replay.replay_context import DEFAULT_MESSAGES, ReplayContext, read_context
from constrained.mask.matcher import Matcher
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.template.rendering import DETECTION_SECONDS, limit_renderings
from constrained.prompt.tools.reports import report_tools
from constrained.prompt.tools.shapes import as_openai, read_tools
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.json_values import Json
from grammars.schema.nodes import Violation
from grammars.schema.numbers import normalise_numbers
from grammars.turn import Tool
from grammars.wire.format import find_named
from grammars.wire.formats import FORMATS

SHOWN = 60  # bytes around a refusal
LISTED = 40  # the maximum number of allowed special tokens that are listed
ASCII = 128
MAX_STEPS = 400_000  # of all schemas of a row


@dataclass(frozen=True)
class RefusedText:
    """The place where a grammar refuses a text.

    Args:
        offset: the number of accepted bytes.
        before: the end of the accepted text.
        found: the refused text; "" if the text ends too early.
        expected: what is allowed next: characters, ranges of characters, names of special tokens.
        forced: the text that has to come next, if there is no choice.
        may_end: the turn may end here.
    """

    offset: int
    before: str
    found: str
    expected: tuple[str, ...]
    forced: str
    may_end: bool

    def to_json(self) -> dict[str, Json]:
        """Returns it as JSON."""
        return {**vars(self), "expected": list(self.expected)}


def inspect_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Examines one row of `constrained check`.

    No files are read, since the row may come from anybody.

    Args:
        row: as in `check_rows`, without `model`; `template` is the template itself, `tool_format`
            and `format` are names of known formats. `text` may be missing.

    Returns:
        `{prompt, start_state, format, origin, notice, markers, grammar, tools, check, refusal}`;
        `check` as `check_rows` answers, `refusal` is null if the grammar accepts the whole text.

    Raises:
        Error: the template, the format or the tools cannot be used; says what and where.
    """
    check_self_contained(row)
    try:
        with limit_renderings(DETECTION_SECONDS), limit_steps(MAX_STEPS):
            return _inspect(row)
    except StepsError as error:
        raise _make_too_large() from error
    except GrammarError as error:
        if error.where is None:  # a limit of llguidance: the grammar is that of the row
            raise GrammarError(error.message, where="/text", hint=error.hint) from error
        raise


def _inspect(row: Mapping[str, Any]) -> dict[str, Any]:
    context = read_context(row)
    given = row.get("tools") or []
    reports = report_tools(given)
    offered = list[Any]()
    for tool, report in zip(given, reports, strict=True):
        if not report.is_refused:
            offered.append(tool)
    row = {**row, "tools": offered}
    built = build_row_grammar(row, context)
    found: dict[str, Any] = {
        "prompt": _render(context, row),
        "start_state": built.state.start.value,
        "format": context.format.name,
        **_describe_origin(context.selected),
        "markers": list(context.format.markers),
        "grammar": built.grammar,
        "tools": [report.to_json() for report in reports],
        "check": None,
        "refusal": None,
    }
    if row.get("text") is not None:
        text = read_text(row)
        (answer,) = check_rows([row])
        found["check"] = answer
        if not answer["complete"]:
            matcher = Matcher.compile(context.tokenizer, built.grammar)
            found["refusal"] = find_refusal(matcher, context, text).to_json()
    return found


def check_self_contained(row: Mapping[str, Any]) -> None:
    """Refuses a row that names a file.

    Raises:
        RequestError: it does; says which field.
    """
    if row.get("model") is not None:
        hint = "Give the template itself"
        raise RequestError("models are not read here", where="/model", hint=hint)
    template = row.get("template")
    if isinstance(template, str) and "{" not in template:
        hint = "Paste the template itself, not its path"
        raise RequestError("it is not a template", where="/template", hint=hint)
    for name in ("format", "tool_format"):
        value = row.get(name)
        if isinstance(value, str) and find_named(value, FORMATS) is None:
            hint = f"Known: {', '.join(known.name for known in FORMATS)}"
            raise RequestError(f"unknown format {value!r}", where=f"/{name}", hint=hint)


def _render(context: ReplayContext, row: Mapping[str, Any]) -> str | None:
    """Renders the prompt; None if the row only names a format."""
    if context.template is None:
        return None
    messages = row.get("messages") or DEFAULT_MESSAGES
    kwargs = row.get("chat_template_kwargs") or {}
    tools = as_openai(row["tools"])
    return context.template.render(messages, tools, add_generation_prompt=True, **kwargs)


def _describe_origin(selected: SelectedFormat | None) -> dict[str, str]:
    if selected is None:
        return {"origin": "named by the row", "notice": ""}
    return {"origin": selected.origin.value, "notice": selected.notice}


def find_refusal(matcher: Matcher, context: ReplayContext, text: str) -> RefusedText:
    """Finds the place where a grammar refuses a text, or where the text ends too early.

    Args:
        matcher: at the start of the turn; it is changed.
        context: has the vocabulary of the matcher.
        text: of the turn.
    """
    tokens = context.encode(text)
    count = matcher.count_accepted(tokens)
    matcher.try_commit(tokens[:count])
    accepted = context.vocabulary.text(tokens[:count])
    rest = text.encode()[len(accepted) :]
    forced = b"" if matcher.is_finished else matcher.forced_text()
    return RefusedText(
        offset=len(accepted),
        before=accepted[-SHOWN:].decode("utf-8", "replace"),
        found=rest[:SHOWN].decode("utf-8", "replace"),
        expected=tuple(_list_expected(matcher, context)),
        forced=forced.decode("utf-8", "replace"),
        may_end=matcher.is_complete,
    )


def _list_expected(matcher: Matcher, context: ReplayContext) -> Iterator[str]:
    """Characters and ranges of them, then special tokens."""
    plain = list[int]()
    special = list[str]()
    has_others = False
    for token, is_allowed in enumerate(matcher.mask().tolist()):
        data = context.vocabulary.tokens[token]
        if not is_allowed:
            continue
        if matcher.ends(token):
            special.append("the end of the turn")
        elif len(data) > 1:
            special.append(data.decode("utf-8", "replace"))
        elif data[0] < ASCII:
            plain.append(data[0])
        else:
            has_others = True  # a byte of a character that has several
    yield from _list_ranges(plain)
    if has_others:
        yield "characters beyond ASCII"
    yield from special[:LISTED]
    if len(special) > LISTED:
        yield f"{len(special) - LISTED} more special tokens"


def _list_ranges(codes: list[int]) -> Iterator[str]:
    """Lists character codes, in ascending order, as single characters and as ranges."""
    start = 0
    for index in range(1, len(codes) + 1):
        if index < len(codes) and codes[index] == codes[index - 1] + 1:
            continue
        first, last = codes[start], codes[index - 1]
        start = index
        if last - first >= 2:
            yield f"{chr(first)!r} to {chr(last)!r}"
            continue
        for code in range(first, last + 1):
            yield repr(chr(code))


def judge_calls(tools: Sequence[Any], calls: Sequence[tuple[str, str]]) -> list[dict[str, Json]]:
    """Says of each call whether it fits the schema of its tool.

    Args:
        tools: those that were offered, as for `Model.call`.
        calls: the name of the tool, and the arguments as JSON text.

    Returns:
        `{valid, errors}` for each call, in their order; errors are `{pointer, message}`, with a
        JSON pointer into the call (`/name`, `/arguments/...`).

    Raises:
        Error: a tool cannot be read.
    """
    try:
        with limit_steps(MAX_STEPS):
            offered = {tool.name: tool for tool in read_tools(list(tools))}
    except StepsError as error:
        raise _make_too_large() from error
    verdicts = list[dict[str, Json]]()
    for name, arguments in calls:
        errors: list[Json] = [vars(error) for error in _judge(name, arguments, offered.get(name))]
        verdicts.append({"valid": not errors, "errors": errors})
    return verdicts


def _judge(name: str, text: str, tool: Tool | None) -> Sequence[Violation]:
    if tool is None:
        return [Violation("/name", f"no tool is called {name!r}")]
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return [Violation("/arguments", "the arguments are no JSON")]
    found = tool.schema.find_errors(normalise_numbers(arguments, tool.schema))
    return [Violation(f"/arguments{error.pointer}", error.message) for error in found]


def _make_too_large() -> GrammarError:
    """Returns the error of schemas that take too many steps."""
    message = "its schemas take too many steps to examine"
    return GrammarError(message, where="/tools", hint="Simplify them")
