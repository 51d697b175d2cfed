"""Questions: rows of the Berkeley function-calling leaderboard (BFCL), or of one's own.

A row is a JSON object with `tools`, `user` (a text) or `messages`, and `gold`, the list of the
calls that are right: none, one or several. `gold_alternatives` may have, for each of them, every
value of each argument that is right, as BFCL writes it. `id` is a name for it.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import jsonschema_rs

from constrained.engine.files.input_files import read_input
from constrained.errors import RequestError
from constrained.inspect.evaluation.asking import WrittenCall
from constrained.prompt.tools.shapes import as_openai, read_tools
from grammars.errors import Error

SAMPLE = Path(__file__).with_name("bfcl") / "rows.jsonl"
"""The rows of BFCL that come with the package."""
MAX_LISTED = 5  # ids in a note


class QuestionKind(StrEnum):
    """What a question needs: the one tool that is offered, one of several tools, several calls, no
    call; or steps until a goal is reached."""

    SIMPLE = "simple"
    MULTIPLE = "multiple"
    PARALLEL = "parallel"
    IRRELEVANCE = "irrelevance"
    AGENT = "agent"


@dataclass(frozen=True)
class RightCall:
    """A call that is right: each argument with its right values; "" among them: it may be left
    out."""

    name: str
    arguments: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Question:
    """A row; `right` has the calls that are right, in any order; none: no tool is of use."""

    id: str
    kind: QuestionKind
    tools: tuple[Mapping[str, Any], ...]
    messages: tuple[Mapping[str, Any], ...]
    right: tuple[RightCall, ...]


@dataclass(frozen=True)
class Questions:
    """The rows of some files; `notes` says which are left out, and why."""

    all: tuple[Question, ...]
    notes: tuple[str, ...]


def read_questions(paths: Iterable[str | os.PathLike[str]] = (SAMPLE,)) -> Questions:
    """Reads the rows of JSON Lines files.

    Rows without `gold` or tools are left out, and those whose right call does not fit the schema
    of its tool, as some 3 % of BFCL.

    Raises:
        RequestError: a file cannot be read, or a row is wrong; names file, line and JSON pointer.
    """
    questions: dict[str, Question] = {}
    unknown: list[str] = []
    unfit: list[str] = []
    for path in paths:
        for number, line in enumerate(_read_lines(path), 1):
            if not line.strip():
                continue
            name = f"{Path(path).name}:{number}"
            try:
                row = _read_row(line)
                if "gold" not in row or not row.get("tools"):
                    unknown.append(str(row.get("id", name)))
                    continue
                question = _read_question(row, name)
                if question.id in questions:
                    message = f"there is another row with the id {question.id!r}"
                    raise RequestError(message, where="/id")
            except Error as e:
                message = f"{path}, line {number}: {e.message}"
                raise RequestError(message, where=e.where, hint=e.hint) from e
            calls = [WrittenCall(call["name"], call["arguments"]) for call in row["gold"]]
            if all(fits(call, question.tools) for call in calls):
                questions[question.id] = question
            else:
                unfit.append(question.id)
    notes: list[str] = []
    if unknown:
        notes.append(f"left out, since they have no `gold` or no tools: {_list_some(unknown)}")
    if unfit:
        notes.append(f"left out, since their right call does not fit its tool: {_list_some(unfit)}")
    return Questions(tuple(questions.values()), tuple(notes))


def choose(
    questions: Iterable[Question], kinds: Iterable[QuestionKind], count: int, seed: int = 0
) -> list[Question]:
    """Chooses so many questions of each kind, one of each kind in turn; a seed always chooses the
    same ones."""
    of_kinds: dict[QuestionKind, list[Question]] = {kind: [] for kind in kinds}

    def draw(question: Question) -> str:
        return hashlib.sha256(f"{seed} {question.id}".encode()).hexdigest()

    for question in sorted(questions, key=draw):
        of_kind = of_kinds.get(question.kind)
        if of_kind is not None and len(of_kind) < count:
            of_kind.append(question)
    chosen: list[Question] = []
    for number in range(count):
        for of_kind in of_kinds.values():
            chosen += of_kind[number : number + 1]
    return chosen


def fits(call: WrittenCall, tools: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether a tool on offer is called, with arguments that its schema admits.

    jsonschema-rs judges, and no part of this library that also makes the mask.
    """
    for tool in tools:
        if tool["function"]["name"] == call.name:
            schema = tool["function"].get("parameters", {})
            return isinstance(call.arguments, dict) and jsonschema_rs.is_valid(
                schema, call.arguments
            )
    return False


def _read_lines(path: str | os.PathLike[str]) -> list[bytes]:
    try:
        return read_input(path).splitlines()
    except OSError as e:
        message = f"{path} cannot be read: {e.strerror or e}"
        raise RequestError(message, hint="Name a file of JSON Lines") from e


def _read_row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"it is not JSON: {e}") from e
    if not isinstance(row, dict):
        raise RequestError("it is not an object", where="")
    return row


def _read_question(row: dict[str, Any], name: str) -> Question:
    tools = _read_tools(row.get("tools"))
    messages = row.get("messages")
    if messages is None:
        if not isinstance(row.get("user"), str):
            raise RequestError("it is no text, and there are no `messages`", where="/user")
        messages = [{"role": "user", "content": row["user"]}]
    _check_objects(messages, "/messages")
    if not messages:
        raise RequestError("it is empty", where="/messages")
    right = _read_right(row)
    if not right:
        kind = QuestionKind.IRRELEVANCE
    elif len(right) > 1:
        kind = QuestionKind.PARALLEL
    elif len(tools) > 1:
        kind = QuestionKind.MULTIPLE
    else:
        kind = QuestionKind.SIMPLE
    return Question(str(row.get("id", name)), kind, tuple(tools), tuple(messages), right)


def _read_tools(tools: Any) -> list[dict[str, Any]]:
    """Reads tools of any shape, and checks that their schemas are JSON Schemas."""
    if not isinstance(tools, list) or not tools:
        raise RequestError("it is no list with tools", where="/tools")
    read_tools(tools)
    shown = as_openai(tools)
    for index, tool in enumerate(shown):
        try:
            jsonschema_rs.validator_for(tool["function"].get("parameters", {}))
        except ValueError as e:
            raise RequestError(f"it has no JSON Schema: {e}", where=f"/tools/{index}") from e
    return shown


def _check_objects(values: Any, where: str) -> None:
    if not isinstance(values, list):
        raise RequestError("it is not a list", where=where)
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            raise RequestError("it is not an object", where=f"{where}/{index}")


def _read_right(row: Mapping[str, Any]) -> tuple[RightCall, ...]:
    gold, alternatives = row["gold"], row.get("gold_alternatives")
    _check_objects(gold, "/gold")
    if alternatives is not None:
        _check_objects(alternatives, "/gold_alternatives")
        if len(alternatives) != len(gold):
            message = f"there are {len(alternatives)} for {len(gold)} calls"
            raise RequestError(message, where="/gold_alternatives")
    right: list[RightCall] = []
    for index, call in enumerate(gold):
        match call:
            case {"name": str(name), "arguments": dict(arguments)}:
                right.append(RightCall(name, _write_alternatives(arguments)))
            case _:
                message = "it is no call with `name` and an object of `arguments`"
                raise RequestError(message, where=f"/gold/{index}")
        if alternatives is not None:
            match [*alternatives[index].values()]:
                case [dict(values)]:
                    right[-1] = RightCall(name, values)
                case _:
                    where = f"/gold_alternatives/{index}"
                    raise RequestError("it is no name with an object of arguments", where=where)
    return tuple(right)


def _write_alternatives(value: Any) -> Any:
    """Returns a value in the form of BFCL's alternatives: each member of an object is a list of
    them."""
    match value:
        case "":  # would say that it may be left out; texts are compared without blanks
            return " "
        case dict():
            return {key: [_write_alternatives(member)] for key, member in value.items()}
        case list():
            return [_write_alternatives(element) for element in value]
        case _:
            return value


def _list_some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_LISTED])
    return shown if len(names) <= MAX_LISTED else f"{shown} and {len(names) - MAX_LISTED} more"
