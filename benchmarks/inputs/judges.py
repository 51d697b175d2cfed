"""Whether a value fits a schema, by validators that know nothing of our lowering: jsonschema-rs as
it is, and the `jsonschema` package where it is installed."""

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import jsonschema_rs

from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_object

_LATEST = "https://json-schema.org/draft/2020-12/schema"


class Judges:
    """The validators of one schema, formats asserted; `count` of them can read it."""

    def __init__(self, schema: Json):
        self._validators: list[Callable[[Json], bool]] = []
        with suppress(Exception):  # both raise all sorts of errors of what they cannot read
            rust = jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse)
            self._validators.append(rust.is_valid)
        if find_spec("jsonschema") is not None:
            with suppress(Exception):
                self._validators.append(_make_python(schema))
        self.count = len(self._validators)

    def admits(self, value: Json) -> bool | None:
        """Returns whether the value fits; None if the validators disagree, or none can say."""
        verdicts: set[bool] = set()
        for is_valid in self._validators:
            with suppress(Exception):  # one that fails has nothing to say
                verdicts.add(is_valid(value))
        return verdicts.pop() if len(verdicts) == 1 else None


def _make_python(schema: Json) -> Callable[[Json], bool]:
    from jsonschema.validators import validator_for

    if is_object(schema):
        schema = {"$schema": _LATEST, **schema}
    kind = validator_for(schema)
    kind.check_schema(schema)
    return kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid


def _refuse(uri: str) -> Json:
    raise ValueError(f"{uri} is another document")
