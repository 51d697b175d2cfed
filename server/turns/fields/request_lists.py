"""Lists and maps of requests whose validation ends with the first mistake. pydantic would describe
each mistake of a list, with a thousand times the memory of its text."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import Field, StrictInt, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

Objects: TypeAlias = Annotated[list[dict[str, Any]], Field(fail_fast=True)]
Texts: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
Numbers: TypeAlias = Annotated[list[StrictInt], Field(fail_fast=True)]
NumberLists: TypeAlias = Annotated[list[Numbers], Field(fail_fast=True)]


def stop_at_first(kind: type) -> Callable[[Any], Any]:
    """A check for the values of a map, to be made before pydantic's own.

    Args:
        kind: of the values.
    """
    adapter = TypeAdapter(kind)

    def check(given: Any) -> Any:
        if isinstance(given, dict):
            for name, value in given.items():
                try:
                    adapter.validate_python(value)
                except ValidationError as error:
                    message = "the value of {name} is wrong: {reason}"
                    details = {"name": repr(name)[:100], "reason": error.errors()[0]["msg"]}
                    raise PydanticCustomError("wrong_value", message, details) from None
        return given

    return check


def list_texts(given: str | Numbers | Texts | NumberLists) -> Sequence[str | Sequence[int]]:
    """The texts of a request, of which there may be one: each a text, or token ids."""
    match given:
        case str() as text:
            return [text]
        case [int(), *_] as tokens:
            return [[token for token in tokens if isinstance(token, int)]]
        case texts:  # texts, or lists of ids: pydantic lets no mixture in
            return [text for text in texts if not isinstance(text, int)]
