"""Questions that a server asks the user during a call (elicitation)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp import types

from constrained.errors import RequestError
from grammars.errors import Error
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema
from grammars.schema.pointers import escape as escape_pointer


@dataclass(frozen=True)
class Elicitation:
    """A question of a server.

    Args:
        server: the name of the server.
        message: the question.
        schema: JSON schema of the answer, an object of simple values.
        url: a page that the user should visit instead; then the answer is True or None.
    """

    server: str
    message: str
    schema: Mapping[str, Any]
    url: str | None = None


Elicit: TypeAlias = Callable[[Elicitation], Mapping[str, Any] | bool | None]
"""Answers a question of a server: with the requested values, or True if the page was visited; None
and False decline. Called in a separate thread."""


def read_elicitation(server: str, params: Any) -> Elicitation:
    """Reads the question of a request `elicitation/create`."""
    if isinstance(params, types.ElicitRequestURLParams):
        return Elicitation(server, params.message, {}, params.url)
    return Elicitation(server, params.message, dict(params.requested_schema))


def answer(elicit: Elicit | None, question: Elicitation) -> types.ElicitResult | types.ErrorData:
    """Returns the answer for the server. If `elicit` is None, or the question cannot be read, it is
    declined; an answer that does not fit the schema is an error."""
    try:
        schema = _read_schema(question)
    except Error as e:
        return _refuse(f"the schema of the question cannot be read: {e}")
    try:
        given = None if elicit is None else elicit(question)
    except Exception as e:  # the function is the user's, and may raise any error
        return _refuse(f"the question cannot be answered: {type(e).__name__}: {e}")
    if given is None or given is False:
        return types.ElicitResult(action="decline")
    if question.url is not None:
        return types.ElicitResult(action="accept")
    content = {} if given is True else dict(given)
    if errors := schema.find_errors(content):
        return _refuse(f"the answer does not fit: {errors[0].pointer} {errors[0].message}")
    return types.ElicitResult(action="accept", content=content)


def _read_schema(question: Elicitation) -> Schema:
    """Returns the schema of a question: an object whose members all have an object as their
    schema."""
    members = question.schema.get("properties", {})
    if not isinstance(members, Mapping):
        raise RequestError("it must be an object", where="/properties")
    for name, member in members.items():
        if not isinstance(member, Mapping):
            where = f"/properties/{escape_pointer(name)}"
            raise RequestError("a schema must be an object", where=where)
    return lower(dict(question.schema))


def _refuse(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_PARAMS, message=message)
