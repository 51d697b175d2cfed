"""A correct parser of whole texts in Qwen3-Coder's XML."""

import itertools
import json
import re

import jsonschema_rs

from grammars.schema.json_values import Json
from tests.suite_mutants.hermes_parsers import Call, HermesText

END_PARAMETER = "\n</parameter>\n"
HEAD = re.compile(r"\s*<function=([^\n]*?)>\n")
KEY = re.compile(r"<parameter=([^\n]*?)>\n")
END = re.compile(r"\n</parameter>\n(?=<parameter=|</function>)")
TAIL = re.compile(r"\s*</function>\s*</tool_call>")
WORDS = {"True": True, "False": False, "None": None}


class QwenText(HermesText):
    """Reads whole texts. The schema says whether a value is JSON or text."""

    def read_calls(self, text: str, start: int) -> tuple[list[Call], int] | None:
        """Returns the call whose opener ends at `start`, and where it ends."""
        head = HEAD.match(text, start)
        if head is None:
            return None
        written, position = self.read_parameters(text, head.end())
        end = TAIL.match(text, position)
        if end is None:
            return None
        return [(head[1], self.read_arguments(head[1], written))], end.end()

    def read_parameters(self, text: str, position: int) -> tuple[dict[str, str], int]:
        """Returns the parameters as they are written, and where they end."""
        written: dict[str, str] = {}
        while (key := KEY.match(text, position)) is not None:
            end = self.find_end(text, key.end())
            if end < 0:
                break
            written.setdefault(key[1], text[key.end() : end])
            position = end + len(END_PARAMETER)
        return written, position

    def find_end(self, text: str, start: int) -> int:
        """Returns where the value ends: before a closer with a parameter or the end after it."""
        end = END.search(text, start)
        return -1 if end is None else end.start()

    def read_arguments(self, name: str, written: dict[str, str]) -> dict[str, object]:
        """Returns the first readings that fit the schema together, JSON before text. Of several
        alternatives, the first one decides that declares all arguments, of types that they fit."""
        readings = [self.read_value(value) for value in written.values()]
        schema = self.schemas.get(name, True)
        validator = jsonschema_rs.validator_for(schema)
        for alternative in list_alternatives(schema):
            types = jsonschema_rs.validator_for(alternative)
            for values in itertools.product(*readings):
                arguments = dict(zip(written, values, strict=True))
                if types.is_valid(arguments) and validator.is_valid(arguments):
                    return arguments
        return dict(written)

    def read_value(self, written: str) -> list[object]:
        """Returns what a value may be: JSON that is no string, or text."""
        if written.strip() in WORDS:
            return [WORDS[written.strip()], written]
        try:
            value = json.loads(written)
        except (ValueError, RecursionError):
            return [written]
        return [written] if isinstance(value, str) else [value, written]


def list_alternatives(schema: Json) -> list[Json]:
    """Returns the alternatives of a union without the arguments that they do not declare, then the
    schema itself: what is text in one of them is text, if the others do not declare it first."""
    if isinstance(schema, dict) and list(schema) in (["anyOf"], ["oneOf"]):
        (branches,) = schema.values()
        assert isinstance(branches, list)
        types = [leave_required_out(branch) for branch in branches]
        return [*({"allOf": [one], "unevaluatedProperties": False} for one in types), schema]
    return [schema]


def leave_required_out(schema: Json) -> Json:
    """Returns an object's schema with any of its arguments: that tells their types."""
    if not isinstance(schema, dict):
        return schema
    types = {key: value for key, value in schema.items() if key != "required"}
    if isinstance(parts := types.get("allOf"), list):
        types["allOf"] = [leave_required_out(part) for part in parts]
    return types
