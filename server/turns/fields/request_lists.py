"""Lists and maps of requests whose validation stops at the first error. pydantic would describe
each error of a list, with a thousand times the memory of its text."""

from collections.abc import Callable
from typing import Annotated, Any, LiteralString, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

Objects: TypeAlias = Annotated[list[dict[str, Any]], Field(fail_fast=True)]
Texts: TypeAlias = Annotated[list[str], Field(fail_fast=True)]


WRONG_VALUE: LiteralString = "wrong_value"
"""The type of the error of `stop_at_first`. Its context has the key of the value, as `key`."""


def stop_at_first(kind: Any) -> Callable[[Any], Any]:
    """Makes a check of a map's values of this type, or union of types, which runs before pydantic's
    own."""
    adapter = TypeAdapter(kind)

    def check(given: Any) -> Any:
        if isinstance(given, dict):
            for name, value in given.items():
                try:
                    adapter.validate_python(value)
                except ValidationError as error:
                    message = "the value of {name} is wrong: {reason}"
                    # A union has one error for each of its types.
                    reasons = ", or: ".join(one["msg"] for one in error.errors())
                    details = {"name": repr(name)[:100], "reason": reasons, "key": name}
                    raise PydanticCustomError(WRONG_VALUE, message, details) from None
        return given

    return check
