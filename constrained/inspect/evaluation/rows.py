"""Rows of the Berkeley function-calling leaderboard (BFCL), and how answers to them are judged.

A row has `id`, `category`, `tools`, `messages` (or `user`, a text) and `gold`, the calls that are
right; `gold_alternatives` has, where it is given, every value of each argument that BFCL takes for
right. Values are compared as BFCL's own checker does: texts without spaces, case and `,./-_*^`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from benchmarks.inputs.tool_sets import read_rows

KINDS = {
    "simple": ("simple_python", "simple_java", "simple_javascript", "live_simple"),
    "multiple": ("multiple", "live_multiple"),
    "irrelevance": ("irrelevance", "live_irrelevance"),
}
"""The categories of each kind of row: one tool, several tools, and none that is of use."""

HALVES = ("dev", "test")
OMITTED = ""
"""Among BFCL's alternatives of an argument: it may be left out."""

_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True)
class Question:
    """A row.

    Attributes:
        right_name: the tool to call; None where none is of use.
        right_arguments: each argument with the values that are right; "" among them: it may be left
            out.
    """

    id: str
    kind: str
    tools: tuple[dict[str, Any], ...]
    messages: tuple[dict[str, Any], ...]
    right_name: str | None
    right_arguments: tuple[Mapping[str, Sequence[Any]], ...]


@dataclass(frozen=True)
class Call:
    """A call that was answered: a name, and arguments that may be anything."""

    name: str
    arguments: Any


def read_questions(
    paths: Iterable[str | Path], count: int, half: str | None = None
) -> list[Question]:
    """So many rows of each kind, one of each kind in turn; the same ones each time.

    Args:
        count: of each kind; there may be fewer.
        half: "dev" or "test"; None: both.
    """
    rows = [row for row in read_rows(paths) if find_kind(row.get("category", ""))]
    questions: dict[str, list[Question]] = {kind: [] for kind in KINDS}
    for row in sorted(rows, key=lambda row: _digest(row["id"])):
        kind = find_kind(row["category"])
        if kind is None or (half is not None and find_half(row["id"]) != half):
            continue
        question = read_question(row)
        if question is not None and len(questions[kind]) < count:
            questions[kind].append(question)
    in_turn: list[Question] = []
    for number in range(count):
        for of_kind in questions.values():
            in_turn += of_kind[number : number + 1]
    return in_turn


def find_kind(category: str) -> str | None:
    """Returns the kind of a category; None for those that are not asked."""
    for kind, categories in KINDS.items():
        if category in categories:
            return kind
    return None


def find_half(id: str) -> str:
    """Returns the half to which a row belongs, whatever other rows there are."""
    return HALVES[int(_digest(id)[-1], 16) % 2]


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def read_question(row: dict[str, Any]) -> Question | None:
    """Returns the row; None where its right call does not fit its own schema, as in some 3 % of
    BFCL, or where its category is not asked."""
    kind = find_kind(row["category"])
    if kind is None:
        return None
    messages = row.get("messages") or [{"role": "user", "content": row["user"]}]
    name, arguments = None, list[Mapping[str, Sequence[Any]]]()
    if kind != "irrelevance":
        [right] = row["gold"]
        name = right["name"]
        if not fits(Call(name, right["arguments"]), row["tools"]):
            return None
        for alternatives in row.get("gold_alternatives", ()):
            arguments += alternatives.values()
        if not arguments:
            arguments = [_write_alternatives(right["arguments"])]
    return Question(row["id"], kind, tuple(row["tools"]), tuple(messages), name, tuple(arguments))


def _write_alternatives(value: Any) -> Any:
    """Returns a value in the form of BFCL's alternatives: each member of an object is a list of
    them."""
    match value:
        case dict():
            return {key: [_write_alternatives(member)] for key, member in value.items()}
        case list():
            return [_write_alternatives(element) for element in value]
        case _:
            return value


def fits(call: Call, tools: Iterable[dict[str, Any]]) -> bool:
    """Returns whether a tool on offer is called, with arguments that its schema admits."""
    for tool in tools:
        if tool["function"]["name"] == call.name:
            return jsonschema_rs.is_valid(tool["function"].get("parameters", {}), call.arguments)
    return False


def is_exact(calls: Sequence[Call], question: Question) -> bool:
    """Returns whether there is one call, and it is the right one."""
    if len(calls) != 1 or calls[0].name != question.right_name:
        return False
    return any(_has_members(calls[0].arguments, right) for right in question.right_arguments)


def _has_members(value: Any, right: Mapping[str, Sequence[Any]]) -> bool:
    """Returns True for an object whose members are among their alternatives, and that lacks
    none."""
    if not isinstance(value, dict) or not value.keys() <= right.keys():
        return False
    for key, alternatives in right.items():
        if not isinstance(alternatives, list):
            alternatives = [alternatives]  # so in simple_java_64
        if key not in value:
            if OMITTED not in alternatives:
                return False
        elif not any(_is_same(value[key], alternative) for alternative in alternatives):
            return False
    return True


def _is_same(value: Any, right: Any) -> bool:
    match right:
        case dict():
            return _has_members(value, right)
        case list():
            is_list = isinstance(value, list) and len(value) == len(right)
            return is_list and all(map(_is_same, value, right))
        case str():
            return isinstance(value, str) and _standardise(value) == _standardise(right)
        case bool() | None:
            return value is right
        case _:
            return not isinstance(value, bool) and value == right


def _standardise(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')


def read_calls(calls: Iterable[Mapping[str, Any]]) -> list[Call] | None:
    """Calls as OpenAI writes them, their arguments as JSON text; None where one is no JSON."""
    read: list[Call] = []
    for call in calls:
        function = call["function"]
        try:
            read.append(Call(function["name"], json.loads(function["arguments"])))
        except ValueError:
            return None
    return read
