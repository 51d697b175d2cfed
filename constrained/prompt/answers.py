"""Reads the form of an answer: a JSON schema, a type, a regular expression, or response_format."""

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import SchemaError as SchemaBuildError

from constrained.errors import ReplyError, RequestError
from constrained.mask.trial import read_gbnf
from constrained.prompt.tools.drawn_values import try_drawn_values
from constrained.prompt.tools.python_types import TypeReader, describe_type, explain_kind
from grammars.errors import SchemaError
from grammars.schema.lowering.lower import lower
from grammars.schema.numbers import normalise_numbers
from grammars.spelling.value_reader import read_json
from grammars.turn import Answer, ChoiceAnswer, GrammarAnswer, JsonAnswer, RegexAnswer

_WHERE = "/response_format"
_FORMS = (
    'Use {"type": "json_schema", "json_schema": {"schema": {...}}}, {"type": "json_object"} or '
    '{"type": "text"}'
)
CHECKED_ONLY = "A keyword of the schema is only checked: `constrained schema` lists those"


@dataclass(frozen=True)
class Target:
    """A value to generate: the form of its text, and the function that reads the text."""

    answer: Answer
    read: Callable[[str], Any]


def read_target(
    schema: Any = None,
    regex: str | None = None,
    choice: Sequence[str] | None = None,
    grammar: str | None = None,
) -> Target:
    """Reads the form of a value to generate: a JSON schema, a pydantic model or a type that
    pydantic knows, a regex, texts, or a grammar (llguidance's Lark dialect, or GBNF). RequestError:
    not exactly one is given. SchemaError, PolicyError, ToolError: it cannot be enforced."""
    given = [schema is not None, regex is not None, choice is not None, grammar is not None]
    if sum(given) != 1:
        hint = "Give one of schema, regex, choice and grammar"
        count = f"{sum(given)} are given" if any(given) else "none is given"
        raise RequestError(f"a value needs one form, and {count}", hint=hint)
    for name, text in (("regex", regex), ("grammar", grammar)):
        if text is not None and not isinstance(text, str):
            raise RequestError(f"{name} is {text!r}", where=f"/{name}", hint="Give its text")
    if regex is not None:
        return Target(RegexAnswer(regex), str)
    if choice is not None:
        return Target(_read_choice(choice), str)
    if grammar is not None:
        if "::=" in grammar:
            grammar = read_gbnf(grammar)
        return Target(GrammarAnswer(grammar), str)
    if isinstance(schema, dict | bool):
        answer = _lower(schema, "")
        return Target(answer, lambda text: normalise_numbers(read_json(text), answer.schema))
    return _read_type(schema)


def read_response_format(value: Any) -> Answer | None:
    """Reads OpenAI's `response_format` (Chat Completions), or `text.format` (Responses).
    RequestError: the form is unknown; SchemaError: the schema cannot be enforced."""
    match value:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object", "schema": dict() | bool() as schema}:  # llama-server's form
            return _lower(schema, f"{_WHERE}/schema")
        case {"type": "json_object"}:
            return _lower({"type": "object"}, _WHERE)
        case {"type": "json_schema", "json_schema": {"schema": dict() | bool() as schema}}:
            return _lower(schema, f"{_WHERE}/json_schema/schema")
        case {"type": "json_schema", "schema": dict() | bool() as schema}:
            return _lower(schema, f"{_WHERE}/schema")
        case type():
            return _read_type(value).answer
        case RegexAnswer():  # a run forces a question with it
            return value
        case {"type": "json_schema"}:
            place = "/json_schema/schema" if "json_schema" in value else "/schema"
            raise RequestError(
                "response_format has no schema, or one that is not an object",
                where=_WHERE + place,
                hint=_FORMS,
            )
        case _:
            raise RequestError(
                f"response_format {reprlib.repr(value)} is not known",
                where=_WHERE,
                hint=_FORMS,
            )


def _lower(schema: Mapping[str, Any] | bool, where: str) -> JsonAnswer:
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as e:
        raise SchemaError(f"the schema is not JSON: {e}", where=where) from e
    try:
        return JsonAnswer(lower(json.loads(text), only_object=False))
    except SchemaError as e:
        raise SchemaError(e.message, where=where + (e.where or ""), hint=e.hint) from e


def _read_type(kind: Any) -> Target:
    hint = "Give a JSON schema, a pydantic model, or a type that pydantic can describe"
    # pydantic would evaluate a text as Python, to find the type that it names.
    if isinstance(kind, str | list | int | float):
        message = f"{reprlib.repr(kind)} is neither a JSON schema nor a type"
        raise RequestError(message, where="/schema", hint=hint)
    try:
        reader, described = TypeReader(kind), describe_type(kind)
    except (PydanticSchemaGenerationError, PydanticUserError, SchemaBuildError) as e:
        message = f"{kind!r} has no JSON schema: {explain_kind(e)}"
        raise RequestError(message, where="/schema", hint=hint) from e
    answer = _lower(described, "")
    try_drawn_values(described, reader, of=repr(kind), owner=kind)

    def read(text: str) -> Any:
        try:
            return reader.read(normalise_numbers(read_json(text), answer.schema))
        except ValidationError as e:  # of a validator in the model, which its schema does not show
            first = e.errors()[0]
            where = "".join(f"/{step}" for step in first["loc"])
            raise ReplyError(f"{text} does not fit: {first['msg']}", where=where) from e

    return Target(answer, read)


def _read_choice(choice: Sequence[str]) -> ChoiceAnswer:
    options = tuple(choice)
    if isinstance(choice, str) or not options or not all(isinstance(o, str) for o in options):
        hint = 'Give a list of texts, such as ["yes", "no"]'
        raise RequestError(f"choice is {reprlib.repr(choice)}", where="/choice", hint=hint)
    for number, option in enumerate(options):
        if any("\ud800" <= character <= "\udfff" for character in option):
            hint = "Replace it"
            raise RequestError("it has a lone surrogate", where=f"/choice/{number}", hint=hint)
    return ChoiceAnswer(options)


def read_answer(answer: Answer | None, content: str) -> Any:
    """Returns the value of a finished answer: JSON is read and checked (ReplyError), other content
    is text."""
    if not isinstance(answer, JsonAnswer):
        return content
    try:
        value = read_json(content)
    except ValueError as e:
        raise ReplyError(f"the answer {reprlib.repr(content)} is not JSON: {e}") from e
    for unfit in answer.schema.find_errors(value):
        raise ReplyError(
            f"the answer {reprlib.repr(json.dumps(value))} does not fit: {unfit.message}",
            where=unfit.pointer,
            hint=CHECKED_ONLY,
        )
    return normalise_numbers(value, answer.schema)
